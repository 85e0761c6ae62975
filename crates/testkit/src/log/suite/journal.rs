//! The contract of `vetch_journal`.

use bytes::Bytes;
use vetch_cluster::LogIndex;
use vetch_journal::{
    ChainedEntry, Draft, Journal, JournalError, Kind, PartId, Payload, Position, ReadItem, Tip,
};

use super::{JournalCase, JournalEngine};

pub fn cases() -> Vec<JournalCase> {
    vec![
        ("an empty journal has nothing to read and gives the first epoch", empty),
        ("what was appended is read back, in order, dense", read_back),
        ("reading begins behind any entry", from_anywhere),
        ("an entry that does not continue the journal is refused and leaves no trace", out_of_order),
        ("a batch that is too large is refused and leaves no trace", too_large),
        ("everything acknowledged is there after a restart, and the next epoch is higher", restart),
        ("a leader of a stale epoch gets nothing acknowledged", stale_epoch),
        ("a reader beside the leader sees what was acknowledged", concurrent_reader),
        ("a trim keeps everything from its position on", trimmed),
    ]
}

fn start() -> LogIndex {
    LogIndex { position: Position(0), tip: Tip::genesis(2) }
}

fn sealed(tip: &mut Tip, units: u32, payload: &[u8]) -> ChainedEntry {
    let mut draft = Draft::new(Kind::Writes);
    draft.begin_part(PartId { partition: 0, owner_epoch: tip.epoch.get(), pseq: tip.seq.next().get() });
    draft.payload().extend_from_slice(payload);
    draft.end_part(units);
    draft.chain(tip)
}

fn append(journal: &mut dyn Journal, payloads: &[&str]) -> Position {
    let mut tip = *journal.tip();
    let entries: Vec<ChainedEntry> =
        payloads.iter().map(|payload| sealed(&mut tip, 1, payload.as_bytes())).collect();
    let appended = journal.append_batch(&entries).expect("nothing is wrong");
    assert_eq!(*journal.tip(), tip, "the tip follows what is durable");
    appended.position
}

fn read(journal: &dyn Journal, from: Tip) -> Vec<ReadItem> {
    let mut reading = journal.read(from).expect("readable");
    let mut items = Vec::new();
    while let Some(item) = reading.next_entry().expect("intact") {
        items.push(item);
    }
    items
}

/// The payloads of the writes among entries.
fn writes(items: &[ReadItem]) -> Vec<Bytes> {
    let parts =
        items.iter().filter(|item| item.entry.kind == Kind::Writes).flat_map(|item| &item.entry.parts);
    let inline = |payload: &Payload| match payload {
        Payload::Inline(bytes) => bytes.clone(),
        Payload::Ref(_) => panic!("no case writes a reference"),
    };
    parts.map(|part| inline(&part.payload)).collect()
}

fn opened(engine: &mut dyn JournalEngine) -> Box<dyn Journal> {
    let mut journal = engine.open(start()).expect("opens");
    journal.claim().expect("claims");
    journal
}

fn empty(engine: &mut dyn JournalEngine) {
    let mut journal = engine.open(start()).expect("opens");
    assert_eq!(*journal.tip(), Tip::genesis(2));
    assert!(read(&*journal, Tip::genesis(2)).is_empty());
    let tip = journal.claim().expect("claims");
    assert_eq!((tip.epoch.get(), tip.seq.get(), tip.next_rev), (1, 1, 2));
    assert_eq!(read(&*journal, Tip::genesis(2)).len(), 1);
}

fn read_back(engine: &mut dyn JournalEngine) {
    let mut journal = opened(engine);
    let mut positions = vec![append(&mut *journal, &["a"]), append(&mut *journal, &["b", "c", "d"])];
    let many: Vec<String> = (0..100).map(|number| number.to_string()).collect();
    positions.extend(many.iter().map(|payload| append(&mut *journal, &[payload])));
    assert!(positions.is_sorted_by(|one, other| one < other));
    let items = read(&*journal, Tip::genesis(2));
    let expected: Vec<&str> =
        ["a", "b", "c", "d"].into_iter().chain(many.iter().map(String::as_str)).collect();
    assert_eq!(writes(&items), expected);
    for (at, item) in items.iter().enumerate() {
        assert_eq!(item.entry.seq.get(), at as u64 + 1);
    }
    assert_eq!(items.last().expect("some").tip, *journal.tip());
    assert_eq!(journal.tip().next_rev, 2 + 104);
}

fn from_anywhere(engine: &mut dyn JournalEngine) {
    let mut journal = opened(engine);
    for payload in ["a", "b", "c", "d", "e"] {
        append(&mut *journal, &[payload]);
    }
    let all = read(&*journal, Tip::genesis(2));
    for (at, item) in all.iter().enumerate() {
        let rest = read(&*journal, item.tip);
        assert_eq!(rest.len(), all.len() - at - 1);
        assert!(rest.iter().zip(&all[at + 1..]).all(|(one, other)| one.entry == other.entry));
    }
}

fn out_of_order(engine: &mut dyn JournalEngine) {
    let mut journal = engine.open(start()).expect("opens");
    let early = sealed(&mut Tip::genesis(2), 1, b"early");
    assert!(matches!(journal.append_batch(&[early]), Err(JournalError::OutOfOrder(_))), "claim comes first");
    journal.claim().expect("claims");
    append(&mut *journal, &["a"]);
    let mut tip = *journal.tip();
    sealed(&mut tip, 1, b"skipped");
    let gap = sealed(&mut tip, 1, b"gap");
    assert!(matches!(journal.append_batch(&[gap]), Err(JournalError::OutOfOrder(_))));
    append(&mut *journal, &["b"]);
    assert_eq!(writes(&read(&*journal, Tip::genesis(2))), ["a", "b"]);
}

fn too_large(engine: &mut dyn JournalEngine) {
    let Some(size) = engine.too_large() else { return };
    let mut journal = opened(engine);
    let large = sealed(&mut journal.tip().clone(), 1, &vec![7; size]);
    assert!(matches!(journal.append_batch(&[large]), Err(JournalError::TooLarge { .. })));
    append(&mut *journal, &["a"]);
    assert_eq!(writes(&read(&*journal, Tip::genesis(2))), ["a"]);
}

fn restart(engine: &mut dyn JournalEngine) {
    for incarnation in 1..=4_u64 {
        let mut journal = engine.open(start()).expect("opens");
        assert_eq!(journal.claim().expect("claims").epoch.get(), incarnation);
        append(&mut *journal, &[&incarnation.to_string(), "x"]);
        assert_eq!(writes(&read(&*journal, Tip::genesis(2))).len() as u64, 2 * incarnation);
        drop(journal);
    }
}

fn stale_epoch(engine: &mut dyn JournalEngine) {
    if !engine.is_shared() {
        return;
    }
    let mut old = opened(engine);
    append(&mut *old, &["a"]);
    let mut new = opened(engine);
    assert_eq!(new.tip().epoch, old.tip().epoch.next());
    append(&mut *new, &["b"]);
    let late = sealed(&mut old.tip().clone(), 1, b"late");
    assert!(matches!(old.append_batch(&[late]), Err(JournalError::Fenced { .. })));
    append(&mut *new, &["c"]);
    assert_eq!(writes(&read(&*new, Tip::genesis(2))), ["a", "b", "c"]);
    // The old leader may be elected again.
    old.claim().expect("claims again");
    append(&mut *old, &["d"]);
    assert_eq!(writes(&read(&*old, Tip::genesis(2))), ["a", "b", "c", "d"]);
}

fn concurrent_reader(engine: &mut dyn JournalEngine) {
    if !engine.is_shared() {
        return;
    }
    let mut leader = opened(engine);
    let reader = engine.open(start()).expect("opens");
    for count in 1..=20 {
        append(&mut *leader, &["x"]);
        // A reader may lag, but not for ever, and never shows other entries.
        let seen =
            (0..500).map(|_| writes(&read(&*reader, Tip::genesis(2))).len()).find(|seen| *seen == count);
        assert_eq!(seen, Some(count));
    }
}

fn trimmed(engine: &mut dyn JournalEngine) {
    let mut journal = opened(engine);
    for number in 0..30 {
        append(&mut *journal, &[&number.to_string()]);
    }
    let items = read(&*journal, Tip::genesis(2));
    let (keep, rest) = (&items[19], &items[20..]);
    journal.trim(keep.position).expect("trims");
    append(&mut *journal, &["after"]);
    let tip = *journal.tip();
    drop(journal);
    let start = LogIndex { position: keep.position, tip: keep.tip };
    let mut journal = engine.open(start).expect("opens from a checkpoint");
    let found = read(&*journal, keep.tip);
    assert!(found.iter().zip(rest).all(|(one, other)| one.entry == other.entry));
    assert_eq!(found.last().expect("some").tip, tip);
    assert_eq!(journal.claim().expect("claims").epoch.get(), 2);
}
