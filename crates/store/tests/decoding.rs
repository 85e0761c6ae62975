//! Damaged bytes are refused, never believed blindly and never a reason to panic.
//!
//! Checksums catch most damage before it gets here; what slips through must still leave the process
//! alive.

mod spec;

use proptest::collection::vec;
use proptest::prelude::*;
use vetch_store::hash::HashRun;
use vetch_store::record::Fields;
use vetch_store::request::*;
use vetch_store::{Record, Store};
use vetch_testkit::valid::Valid;

use spec::requests::{self, Write};

fn journal(writes: &[Write]) -> Vec<u8> {
    let mut store = Store::default();
    let mut bytes = Vec::new();
    for write in writes {
        if let Ok(write) = write.clone().validate(128) {
            store.evaluate(&write, &mut bytes).ok();
        }
    }
    bytes
}

/// If the store took the bytes, it must be able to live with them.
fn replay_and_use(bytes: &[u8]) {
    let mut store = Store::default();
    if store.replay(bytes).is_err() {
        return;
    }
    store.publish(store.head());
    store.compact_step(usize::MAX, &mut Vec::new());
    let mut hash = HashRun::new(store.head().revision, store.visible());
    while hash.step(&store, 100) == Some(false) {}
    hash.finish();
    let all = KeyRange::new("\0", "\0");
    let read = RequestOp::Range(RangeRequest::new(all.clone()));
    let read = TxnRequest { success: vec![read], ..TxnRequest::default() };
    store.read_txn(&read.valid()).expect("newest is readable");
    let leases: Vec<i64> = store.leases().iter().map(|(id, _)| id).collect();
    for id in leases {
        store.evaluate(&WriteRequest::LeaseRevoke { id }, &mut Vec::new()).expect("it exists");
    }
    let delete = DeleteRangeRequest { range: all, prev_kv: true };
    store
        .evaluate(&WriteRequest::DeleteRange(delete.valid()), &mut Vec::new())
        .expect("deletes are not refused");
    assert_eq!(store.stats().keys, 0);
    let revision = store.head().revision;
    if revision > store.head().compact_revision {
        store.evaluate(&WriteRequest::Compact { revision }, &mut Vec::new()).expect("in range");
    }
    store.publish(store.head());
    store.compact_step(usize::MAX, &mut Vec::new());
}

fn frame(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![tag];
    bytes.extend((body.len() as u32).to_le_bytes());
    bytes.extend(body);
    bytes
}

/// Records that are well formed but say anything.
fn wild_record() -> impl Strategy<Value = Record> {
    let number = || prop_oneof![0i64..6, any::<i64>()];
    let revision = prop_oneof![1i64..6, 1..=i64::MAX];
    (requests::key(), revision, 1i64..6, 1i64..4, number(), any::<bool>()).prop_map(
        |(key, create_revision, mod_revision, version, lease, value)| {
            let value: &[u8] = if value { b"v" } else { b"" };
            Record::new(Fields { key: &key, value, create_revision, mod_revision, version, lease, sub: 0 })
        },
    )
}

/// Commands with sound frames and wild contents.
fn wild_command() -> impl Strategy<Value = Vec<u8>> {
    let bytes = || vec(any::<u8>(), 0..20);
    let change = prop_oneof![
        4 => wild_record().prop_map(|record| frame(0, &record.wire().concat())),
        2 => requests::key().prop_map(|key| frame(1, &key)),
        2 => requests::key_range().prop_map(|range| {
            let mut body = (range.key.len() as u32).to_le_bytes().to_vec();
            body.extend(range.key);
            body.extend(range.range_end);
            frame(2, &body)
        }),
        1 => (0u8..4, bytes()).prop_map(|(tag, body)| frame(tag, &body)),
    ];
    let number = || prop_oneof![-1i64..6, any::<i64>()];
    let two = move || (number(), number()).prop_map(|(a, b)| [a.to_le_bytes(), b.to_le_bytes()].concat());
    let one = move || number().prop_map(|a| a.to_le_bytes().to_vec());
    prop_oneof![
        6 => vec(change, 0..4).prop_map(|changes| frame(1, &changes.concat())),
        3 => two().prop_map(|body| frame(2, &body)),
        2 => one().prop_map(|body| frame(3, &body)),
        1 => two().prop_map(|body| frame(4, &body)),
        2 => one().prop_map(|body| frame(5, &body)),
        1 => (0u8..9, bytes()).prop_map(|(tag, body)| frame(tag, &body)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..60)) {
        replay_and_use(&bytes);
    }

    #[test]
    fn wild_commands_never_panic(commands in vec(wild_command(), 1..12)) {
        replay_and_use(&commands.concat());
    }

    #[test]
    fn an_accepted_record_is_canonical(bytes in vec(any::<u8>(), 0..40), sub: u32) {
        check_record(&bytes, sub);
        Record::restore(&mut bytes.as_slice()).ok();
    }

    #[test]
    fn a_mutated_record_is_refused_or_canonical(
        record in wild_record(),
        cuts in vec((any::<prop::sample::Index>(), 0u8..4, any::<u8>()), 1..4),
    ) {
        let mut bytes = record.wire().concat();
        for (at, kind, byte) in &cuts {
            let at = at.index(bytes.len().max(1)).min(bytes.len().saturating_sub(1));
            match kind {
                0 if !bytes.is_empty() => bytes[at] ^= byte,
                1 => bytes.truncate(at),
                2 if !bytes.is_empty() => { bytes[at] |= 0x80; bytes.insert(at + 1, 0) }
                _ => bytes.insert(at, *byte),
            }
        }
        check_record(&bytes, 1);
        let mut saved = Vec::new();
        record.save(&mut saved);
        saved.splice(16.., bytes);
        Record::restore(&mut saved.as_slice()).ok();
    }
}

fn check_record(bytes: &[u8], sub: u32) {
    let Ok(record) = Record::from_wire(bytes, sub) else { return };
    assert_eq!(record.wire().concat(), bytes);
    assert!(!record.key().is_empty());
    if record.is_tombstone() {
        return;
    }
    let again = Record::new(Fields {
        key: record.key(),
        value: &record.value(),
        create_revision: record.create_revision(),
        mod_revision: record.mod_revision(),
        version: record.version(),
        lease: record.lease(),
        sub,
    });
    assert_eq!(again.wire().concat(), bytes, "two encodings of one record");
    assert_eq!(again, record);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_mutated_journal_never_panics(
        writes in vec(requests::write(), 1..25),
        damage in vec((any::<prop::sample::Index>(), 0u8..4, any::<u8>()), 1..4),
    ) {
        let mut bytes = journal(&writes);
        for (at, kind, byte) in &damage {
            if bytes.is_empty() {
                break;
            }
            let at = at.index(bytes.len());
            match kind {
                0 => bytes[at] ^= byte,
                1 => bytes[at] = bytes[at].wrapping_add(1),
                2 => bytes.truncate(at),
                _ => drop(bytes.splice(at..at, [*byte])),
            }
        }
        replay_and_use(&bytes);
    }
}
