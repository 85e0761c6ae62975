//! The journal of a member of several: entries alone in their records, cuts, and beginning anew.

use std::sync::Arc;

use vetch_base::{Epoch, Seq};
use vetch_encryption::EncryptionKeys;
use vetch_journal::{
    ChainError, ChainedEntry, Entry, Journal, JournalError, LocalConfig, LocalJournal, LocalReader, MemDisk,
    Position, Read, ReceiveError, SECTOR, Sight, Tip, survey,
};

use crate::encryption::{KEYS, ring};
use crate::support::{append, batch, decoded, dir, fresh, genesis, noise, path, recover, tiny, writes};

/// Appends what is not committed.
pub(crate) fn replicate(journal: &mut LocalJournal, payloads: &[Vec<u8>]) -> Vec<Entry> {
    let chained = batch(journal, payloads);
    journal.append_replicated(&chained, Seq::ZERO).expect("no faults");
    decoded(&chained)
}

fn small(count: u64) -> Vec<Vec<u8>> {
    (0..count).map(|n| noise(n, 30)).collect()
}

/// Segment, offset and entries of every record.
fn records(disk: &MemDisk) -> Vec<(String, u64, u32)> {
    let mut records = Vec::new();
    let mut see = |sight| match sight {
        Sight::Record(record) => records.push((record.file, record.offset, record.entries)),
        Sight::Damage(damage) => panic!("{damage}"),
        _ => {}
    };
    survey(disk, &dir(), &EncryptionKeys::none(), &mut see).expect("listed");
    records
}

#[test]
fn several_records_are_one_write_and_one_sync() {
    let disk = MemDisk::new();
    let mut journal = fresh(&disk);
    let before = disk.ops();
    let chained = batch(&journal, &small(3));
    let appended = journal.append_replicated(&chained, Seq::ZERO).expect("no faults");
    assert_eq!(disk.ops() - before, 2, "one write and one sync");
    assert_eq!((appended.position, appended.bytes), (Position(4), 3 * SECTOR as u64));
    assert_eq!((journal.stats().records, journal.stats().entries), (4, 4));
    assert_eq!(records(&disk).iter().map(|record| record.2).collect::<Vec<_>>(), [1, 1, 1, 1]);
    drop(journal);
    assert_eq!(recover(&disk, genesis()).expect("intact").0[1..], decoded(&chained));
}

#[test]
fn committed_entries_share_a_record_and_the_rest_is_alone() {
    let disk = MemDisk::new();
    let mut journal = fresh(&disk);
    let chained = batch(&journal, &small(5));
    journal.append_replicated(&chained, Seq::new(4)).expect("no faults");
    assert_eq!(records(&disk).iter().map(|record| record.2).collect::<Vec<_>>(), [1, 3, 1, 1]);
    let error = journal.cut(Seq::new(3), Seq::ZERO).expect_err("it would split a record");
    assert!(error.to_string().contains("entries 2 to 4 share a record, which 3 would split"), "{error}");
    journal.cut(Seq::new(4), Seq::new(4)).expect("what is alone can go");
}

#[test]
fn a_write_ends_with_its_segment_and_with_the_count_in_its_headers() {
    let disk = MemDisk::new();
    let mut journal = fresh(&disk);
    let given = replicate(&mut journal, &small(9));
    assert_eq!(journal.segments(), 3);
    drop(journal);
    let (found, _, _) = recover(&disk, genesis()).expect("intact");
    assert_eq!(found[1..], given);

    let disk = MemDisk::new();
    let config = LocalConfig { segment_len: 1 << 20, ..tiny() };
    let recovery = LocalJournal::recover(Arc::new(disk.clone()), &dir(), config, genesis()).expect("empty");
    let (mut journal, _) = recovery.finish().expect("empty");
    replicate(&mut journal, &small(1));
    let before = disk.ops();
    replicate(&mut journal, &small(600));
    assert_eq!(disk.ops() - before, 6, "three writes and three syncs, of 256 records at most");
}

#[test]
fn received_bytes_are_chained_only_where_they_belong() {
    let mut tip = genesis();
    let chained: Vec<ChainedEntry> = (0..3).map(|n| writes(&mut tip, 2, &noise(n, 9))).collect();
    let mut behind = genesis();
    for entry in &chained {
        let (received, decoded) =
            ChainedEntry::receive(entry.bytes().clone(), &mut behind).expect("it follows");
        assert_eq!((received.before(), received.after()), (entry.before(), entry.after()));
        assert_eq!((received.kind(), decoded.seq), (entry.kind(), entry.seq()));
    }
    assert_eq!(behind, tip);
    let refused = |tip: Tip, bytes: &[u8]| {
        let mut moved = tip;
        let error = ChainedEntry::receive(bytes.to_vec().into(), &mut moved).expect_err("refused");
        assert_eq!(moved, tip, "the tip stays");
        error
    };
    let third = chained[2].bytes();
    let seq = |expected, found| ChainError::Seq { expected: Seq::new(expected), found: Seq::new(found) };
    assert_eq!(refused(genesis(), third), ReceiveError::Chain(seq(1, 3)));
    let before = *chained[2].before();
    let forked = Tip { hash: [1; 32], ..before };
    assert_eq!(refused(forked, third), ReceiveError::Chain(ChainError::PrevHash));
    let newer = Tip { epoch: Epoch::new(9), ..before };
    assert!(matches!(refused(newer, third), ReceiveError::Chain(ChainError::Epoch { .. })));
    let ahead = Tip { next_rev: before.next_rev + 1, ..before };
    assert!(matches!(refused(ahead, third), ReceiveError::Chain(ChainError::BaseRev { .. })));
    assert!(matches!(refused(before, &third[..third.len() - 1]), ReceiveError::Entry(_)));

    let mut journal = fresh(&MemDisk::new());
    let elsewhere = journal.append_replicated(&chained, Seq::ZERO);
    assert!(matches!(elsewhere, Err(JournalError::Fenced { .. } | JournalError::OutOfOrder(_))));
}

/// Over segments, spares, segments that stay empty, and with keys that change on the way.
#[test]
fn a_cut_goes_back_to_any_entry_and_the_journal_goes_on_from_there() {
    for lines in [&[][..], &[KEYS[0]], &["plain", KEYS[0]]] {
        let keys = if lines.is_empty() {
            EncryptionKeys::none()
        } else {
            EncryptionKeys::repeatable_for_tests(ring(lines))
        };
        for to in 1..=13 {
            let (disk, config) = (MemDisk::new(), LocalConfig { keys: keys.clone(), ..tiny() });
            let open = || {
                LocalJournal::recover(Arc::new(disk.clone()), &dir(), config.clone(), genesis())
                    .and_then(|recovery| recovery.finish())
                    .expect("intact")
            };
            let mut journal = open().0;
            journal.claim().expect("no faults");
            let mut tips = vec![genesis(), *journal.tip()];
            for n in 0..4 {
                journal.maintenance().run().expect("space");
                let chained = batch(&journal, &[noise(n, 40), noise(n, 700), noise(n, 10)]);
                journal.append_replicated(&chained, Seq::ZERO).expect("no faults");
                tips.extend(chained.iter().map(|entry| *entry.after()));
            }
            let cut = journal.cut(Seq::new(to), Seq::new(to)).expect("no faults");
            assert_eq!(cut.entries, 13 - to);
            assert_eq!(*journal.tip(), tips[to as usize], "cut to {to}");
            let is_empty = journal.room() == tiny().segment_len;
            assert_eq!(journal.active_key().is_none(), is_empty, "an empty segment needs no key");
            let booted = disk.power_loss(&mut |_| false);
            replicate(&mut journal, &[noise(50, 900), noise(51, 5)]);
            let last = *journal.tip();
            drop(journal);
            assert_eq!(*open().0.tip(), last, "gone on from {to}");
            let recovery =
                LocalJournal::recover(Arc::new(booted), &dir(), config, genesis()).expect("intact");
            let (journal, report) = recovery.finish().expect("intact");
            assert_eq!((*journal.tip(), report.cut), (tips[to as usize], None), "a cut is durable");
        }
    }
}

/// Behind a checkpoint, with what is before it trimmed, the tip is still known.
#[test]
fn a_cut_to_the_checkpoint_needs_no_entry_before_it() {
    let disk = MemDisk::new();
    let mut journal = fresh(&disk);
    append(&mut journal, &[noise(1, 1300)]).expect("fills the segment");
    let checkpoint = *journal.tip();
    replicate(&mut journal, &small(6));
    journal.trim(Position(checkpoint.seq.next().get())).expect("no faults");
    journal.cut(checkpoint.seq, checkpoint.seq).expect("no faults");
    assert_eq!(*journal.tip(), checkpoint);
    replicate(&mut journal, &small(2));
    drop(journal);
    let (found, mut journal, _) = recover(&disk, checkpoint).expect("intact");
    assert_eq!(found.len(), 2);
    journal.cut(checkpoint.seq, checkpoint.seq).expect("also after a restart");
    assert_eq!(*journal.tip(), checkpoint);
}

#[test]
#[should_panic(expected = "a committed entry is never cut")]
fn a_cut_below_what_is_committed_is_a_bug() {
    let mut journal = fresh(&MemDisk::new());
    replicate(&mut journal, &small(3));
    let _ = journal.cut(Seq::new(2), Seq::new(3));
}

/// Of every write but the last no sector may be missing, though intact records follow it; of the
/// last one that looks like a torn write, and only entries of it go.
#[test]
fn a_missing_sector_is_refused_unless_it_is_of_the_last_write() {
    let disk = MemDisk::new();
    let config = LocalConfig { segment_len: 8 << 10, ..tiny() };
    let open = |disk: &MemDisk| {
        let recovery = LocalJournal::recover(Arc::new(disk.clone()), &dir(), config.clone(), genesis());
        recovery.and_then(|recovery| recovery.finish())
    };
    let mut journal = open(&disk).expect("empty").0;
    journal.claim().expect("no faults");
    for _ in 0..2 {
        replicate(&mut journal, &[noise(1, 700), noise(2, 20), noise(3, 600)]);
    }
    drop(journal);
    let name = path("0000000000000001.journal");
    let whole = disk.content(&name).expect("it exists");
    // The claim has one sector, each write five.
    let (mut refused, mut ends) = (Vec::new(), Vec::new());
    for sector in 0..11 {
        let damaged = disk.process_exit();
        let mut content = whole.clone();
        content[sector * SECTOR..(sector + 1) * SECTOR].fill(0);
        damaged.overwrite(&name, &content);
        match open(&damaged) {
            Err(JournalError::Corrupt(_)) => refused.push(sector),
            Err(other) => panic!("{other}"),
            Ok((journal, report)) => {
                assert!(report.cut.is_some());
                ends.push(journal.tip().seq.get());
                drop(journal);
                assert!(open(&damaged).expect("cut").1.cut.is_none(), "it is gone");
            }
        }
    }
    assert_eq!(refused, [0, 1, 2, 3, 4, 5], "{ends:?}");
    assert_eq!(ends, [4, 4, 5, 6, 6], "up to the record before the first that is torn");
}

#[test]
fn a_journal_begins_anew_behind_a_checkpoint_of_another_member() {
    let disk = MemDisk::new();
    let mut journal = fresh(&disk);
    replicate(&mut journal, &small(9));
    for ahead in [4, 30] {
        let seq = Seq::new(ahead);
        let tip = Tip { epoch: Epoch::new(ahead), seq, hash: [ahead as u8; 32], next_rev: 100 };
        journal.announce_begin(tip).expect("no faults");
        journal.begin_at(tip, Seq::ZERO).expect("no faults");
        assert_eq!((*journal.tip(), journal.segments()), (tip, 1));
        assert_eq!(disk.power_loss(&mut |_| false).files().len(), 1, "nothing else is left");
        let given = replicate(&mut journal, &small(7));
        drop(journal);
        let found;
        (found, journal, _) = recover(&disk, tip).expect("it goes on");
        assert_eq!(found, given);
    }
    drop(journal);
    let error = recover(&disk, genesis()).err().expect("what was before is gone");
    assert!(error.to_string().contains("the journal begins at entry 31, but 1 is needed"), "{error}");
}

#[test]
fn what_was_announced_happens_only_if_a_start_is_from_there() {
    let disk = MemDisk::new();
    let mut journal = fresh(&disk);
    let given = replicate(&mut journal, &small(4));
    let tip = Tip { epoch: Epoch::new(8), seq: Seq::new(3), hash: [3; 32], next_rev: 9 };
    journal.announce_begin(tip).expect("no faults");
    let announced = disk.power_loss(&mut |_| false);
    let offline = |start| LocalReader::open(Arc::new(announced.clone()), &dir(), Some(start), &tiny().keys);
    let mut reader = offline(tip).expect("a start gives up what there is");
    assert!(reader.next_entry().expect("nothing is damaged").is_none());
    let mut reader = offline(genesis()).expect("it is not needed yet");
    assert!(reader.next_entry().expect("nothing is damaged").is_some());
    let (found, after, _) = recover(&announced, tip).expect("the checkpoint was installed");
    assert_eq!((found.len(), *after.tip()), (0, tip));
    let announced = disk.power_loss(&mut |_| false);
    let (found, after, _) = recover(&announced, genesis()).expect("it was not");
    assert_eq!(found[1..], given);
    drop(after);
    let error = recover(&announced, tip).err().expect("forgotten since");
    assert!(error.to_string().contains("not the one the checkpoint was taken at"), "{error}");

    replicate(&mut journal, &small(1));
    let error = recover(&disk.power_loss(&mut |_| false), tip).err().expect("withdrawn by the append");
    assert!(error.to_string().contains("not the one the checkpoint was taken at"), "{error}");
}
