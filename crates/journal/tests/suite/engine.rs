//! The local engine as its owner uses it: rolling, spares, trimming, space, fencing, reading while
//! open.

use std::sync::Arc;

use vetch_journal::{
    Disk, Draft, Fault, Journal, JournalError, Kind, LocalJournal, MemDisk, Op, PartId, PayloadRef, Position,
    Tip,
};

use crate::support::{append, batch, dir, fresh, genesis, noise, path, recover, tiny, writes};

#[test]
fn one_batch_is_one_record_and_one_sync() {
    let disk = MemDisk::new();
    let mut journal = fresh(&disk);
    let before = disk.ops();
    let chained = batch(&journal, &[noise(1, 10), noise(2, 20), noise(3, 30)]);
    let appended = journal.append_batch(&chained).expect("no faults");
    assert_eq!(disk.ops() - before, 2, "one write and one sync");
    assert_eq!(appended.position, Position(4));
    assert_eq!((appended.bytes, appended.rolled), (512, false));
    assert_eq!((journal.stats().records, journal.stats().entries), (2, 4));
}

#[test]
fn rolling_with_a_spare_ready_makes_no_segment() {
    let disk = MemDisk::new();
    let mut journal = fresh(&disk);
    assert_eq!(journal.maintenance().run().expect("space").prepared, 1);
    assert_eq!(journal.maintenance().run().expect("space").prepared, 0, "one spare is enough");
    append(&mut journal, &[noise(1, 1000)]).expect("fits");
    let before = disk.ops();
    let chained = batch(&journal, &[noise(2, 1000)]);
    assert!(journal.append_batch(&chained).expect("rolls").rolled);
    assert_eq!(disk.ops() - before, 4, "rename, directory sync, write, sync");
    assert_eq!(journal.maintenance().spares(), 0);
}

#[test]
fn a_record_larger_than_a_segment_gets_its_own() {
    let disk = MemDisk::new();
    let mut journal = fresh(&disk);
    let entries = append(&mut journal, &[noise(1, 100_000)]).expect("sized to fit");
    append(&mut journal, &[noise(2, 10)]).expect("goes on");
    drop(journal);
    let (found, _, _) = recover(&disk, genesis()).expect("intact");
    assert_eq!(found.len(), 3);
    assert_eq!(found[1], entries[0]);
}

#[test]
fn an_empty_segment_left_by_a_failed_append_is_used() {
    let disk = MemDisk::new();
    let mut journal = fresh(&disk);
    append(&mut journal, &[noise(1, 1300)]).expect("fills the segment");
    assert_eq!(journal.room(), 0);
    journal.maintenance().run().expect("space");
    // The roll succeeds, the write does not.
    disk.inject(Fault::FailNext(Op::Write, std::io::ErrorKind::Other));
    let chained = batch(&journal, &[noise(2, 100)]);
    assert!(matches!(journal.append_batch(&chained), Err(JournalError::Poisoned(_))));
    drop(journal);
    let (found, mut journal, report) = recover(&disk.process_exit(), genesis()).expect("intact");
    assert_eq!((found.len(), report.segments, journal.room()), (2, 2, 2048));
    let early = batch(&journal, &[noise(3, 9000)]);
    assert!(matches!(journal.append_batch(&early), Err(JournalError::OutOfOrder(_))), "claim comes first");
    journal.claim().expect("fits the empty segment");
    append(&mut journal, &[noise(3, 9000)]).expect("rolls");
    assert_eq!(journal.segments(), 3);
}

#[test]
fn no_space_fails_before_writing_and_passes_when_space_returns() {
    let disk = MemDisk::new();
    let mut journal = fresh(&disk);
    append(&mut journal, &[noise(1, 500)]).expect("fits");
    disk.inject(Fault::Capacity(3000));
    assert!(journal.maintenance().run().expect_err("no room for a spare").is_no_space());
    let files = disk.files();
    let chained = batch(&journal, &[noise(2, 1000)]);
    for _ in 0..2 {
        let error = journal.append_batch(&chained).expect_err("no room for a segment");
        assert!(error.is_no_space(), "{error}");
        assert_eq!(disk.files(), files, "nothing half-written, nothing left behind");
    }
    append(&mut journal, &[noise(3, 100)]).expect("what fits the active segment still passes");
    assert!(journal.append_batch(&chained).is_err(), "chained on a tip that is gone");
    disk.inject(Fault::Capacity(1 << 20));
    append(&mut journal, &[noise(2, 1000)]).expect("space returned");
    drop(journal);
    assert_eq!(recover(&disk, genesis()).expect("intact").0.len(), 4);
}

#[test]
fn no_room_for_a_name_is_no_space_and_keeps_the_spare() {
    let disk = MemDisk::new();
    let mut journal = fresh(&disk);
    append(&mut journal, &[noise(1, 1000)]).expect("fits");
    journal.maintenance().run().expect("space");
    disk.inject(Fault::FailNext(Op::Rename, std::io::ErrorKind::StorageFull));
    let chained = batch(&journal, &[noise(2, 1000)]);
    assert!(journal.append_batch(&chained).expect_err("no room").is_no_space());
    assert_eq!(journal.maintenance().spares(), 1);
    journal.append_batch(&chained).expect("the same batch passes");
}

#[test]
fn trim_removes_whole_segments_and_never_the_active_one() {
    let disk = MemDisk::new();
    let mut journal = fresh(&disk);
    let mut tips = Vec::new();
    for n in 0..8 {
        append(&mut journal, &[noise(n, 900)]).expect("space");
        tips.push(*journal.tip());
    }
    let segments = journal.segments();
    assert!(segments >= 4);
    journal.trim(Position(1)).expect("nothing to do");
    assert_eq!(journal.segments(), segments);
    let checkpoint = tips[4];
    journal.trim(Position(checkpoint.seq.next().get())).expect("no faults");
    assert!(journal.segments() < segments);
    let booted = disk.power_loss(&mut |_| false);
    let (found, _, _) = recover(&booted, checkpoint).expect("what was not trimmed is there");
    assert_eq!(found.iter().map(|entry| entry.seq.get()).collect::<Vec<_>>(), [7, 8, 9]);
    let error = recover(&booted, genesis()).err().expect("the beginning was trimmed");
    assert!(error.to_string().contains("but 1 is needed"), "{error}");
    journal.trim(Position(u64::MAX)).expect("no faults");
    assert_eq!(journal.segments(), 1);
    append(&mut journal, &[noise(99, 10)]).expect("the active segment is usable");
}

#[test]
fn retire_leaves_removal_to_maintenance() {
    let disk = MemDisk::new();
    let mut journal = fresh(&disk);
    for n in 0..6 {
        append(&mut journal, &[noise(n, 900)]).expect("space");
    }
    let files = disk.files().len();
    let gone = journal.retire(Position(6)).expect("not poisoned");
    assert!(gone > 0);
    assert_eq!(disk.files().len(), files, "no file was touched");
    let done = journal.maintenance().run().expect("no faults");
    assert_eq!((done.removed, done.prepared), (gone, 1));
}

#[test]
fn a_checkpoint_from_another_history_is_refused() {
    let disk = MemDisk::new();
    let mut journal = fresh(&disk);
    append(&mut journal, &[noise(1, 10), noise(2, 10)]).expect("space");
    let tip = *journal.tip();
    drop(journal);
    assert!(recover(&disk, tip).expect("the same history").0.is_empty());
    let forked = Tip { hash: [9; 32], ..tip };
    let error = recover(&disk, forked).err().expect("another history");
    assert!(error.to_string().contains("not the one the checkpoint was taken at"), "{error}");
    let ahead = Tip { seq: tip.seq.next(), ..tip };
    let error = recover(&disk, ahead).err().expect("the journal lost its tail");
    assert!(
        error.to_string().contains("records end at entry 3 but the checkpoint was taken at 4"),
        "{error}"
    );
    disk.remove(&path("0000000000000001.journal")).expect("it exists");
    let error = recover(&disk, tip).err().expect("the journal is gone");
    assert!(error.to_string().contains("there is no journal"), "{error}");
}

#[test]
fn claims_raise_the_epoch_and_fence_what_was_chained_before() {
    let disk = MemDisk::new();
    let mut journal = fresh(&disk);
    let stale = batch(&journal, &[noise(1, 10)]);
    let tip = journal.claim().expect("no faults");
    assert_eq!((tip.epoch.get(), tip.seq.get(), tip.next_rev), (2, 2, 2));
    match journal.append_batch(&stale) {
        Err(JournalError::Fenced { current, found }) => assert_eq!((current.get(), found.get()), (2, 1)),
        other => panic!("{other:?}"),
    }
    drop(journal);
    let (found, mut journal, _) = recover(&disk, genesis()).expect("intact");
    assert_eq!(
        found.iter().map(|entry| (entry.kind, entry.epoch.get())).collect::<Vec<_>>(),
        [(Kind::NewEpoch, 1), (Kind::NewEpoch, 2)]
    );
    assert_eq!(journal.claim().expect("no faults").epoch.get(), 3);
}

#[test]
fn revisions_continue_over_restarts() {
    let disk = MemDisk::new();
    let mut journal = fresh(&disk);
    let mut tip = *journal.tip();
    let chained = [writes(&mut tip, 3, b"three"), writes(&mut tip, 0, b"none"), writes(&mut tip, 2, b"two")];
    assert_eq!(chained.iter().map(|entry| entry.base_rev()).collect::<Vec<_>>(), [2, 5, 5]);
    journal.append_batch(&chained).expect("no faults");
    drop(journal);
    let (_, journal, report) = recover(&disk, genesis()).expect("intact");
    assert_eq!((report.tip.next_rev, journal.tip().next_rev), (7, 7));
    drop(journal);
    let error = recover(&disk, Tip::genesis(3)).err().expect("another first revision");
    assert!(error.to_string().contains("first revision is 2, expected 3"), "{error}");
}

#[test]
fn reserved_features_are_refused_before_writing() {
    let disk = MemDisk::new();
    let mut journal = fresh(&disk);
    let files = disk.files();
    let mut tip = *journal.tip();
    for kind in [Kind::Own, Kind::Members] {
        let entry = Draft::new(kind).chain(&mut tip.clone());
        assert!(matches!(journal.append_batch(&[entry]), Err(JournalError::NotSupported { .. })));
    }
    let mut draft = Draft::new(Kind::Writes);
    draft.push_ref(PartId::default(), 1, &PayloadRef { stream: 1, position: 2, len: 3, hash: [4; 32] });
    let error = journal.append_batch(&[draft.chain(&mut tip)]).expect_err("no reader knows it");
    assert!(error.to_string().contains("not supported yet"), "{error}");
    assert!(matches!(journal.append_batch(&[]), Err(JournalError::OutOfOrder(_))));
    assert_eq!(disk.files(), files);
}

#[test]
fn an_open_journal_can_be_read_from_any_tip() {
    let disk = MemDisk::new();
    let mut journal = fresh(&disk);
    let mut tips = vec![genesis(), *journal.tip()];
    for n in 0..6 {
        append(&mut journal, &[noise(n, 700)]).expect("space");
        tips.push(*journal.tip());
    }
    for (n, tip) in tips.iter().enumerate() {
        let mut read = journal.read(*tip).expect("nothing was trimmed");
        let mut seen = Vec::new();
        while let Some(item) = read.next_entry().expect("intact") {
            assert_eq!(item.tip, tips[item.entry.seq.get() as usize]);
            seen.push(item.position.0);
        }
        assert_eq!(seen, (n as u64 + 1..=7).collect::<Vec<_>>());
    }
}

#[test]
fn a_second_process_is_kept_out_until_the_last_handle_is_gone() {
    let disk = MemDisk::new();
    let journal = fresh(&disk);
    let maintenance = journal.maintenance();
    drop(journal);
    let error = recover(&disk, genesis()).err().expect("maintenance may still change files");
    assert!(error.to_string().contains("another process holds /data/journal"), "{error}");
    drop(maintenance);
    recover(&disk, genesis()).expect("free again");
}

#[test]
fn leftover_spares_are_removed_and_progress_adds_up() {
    let disk = MemDisk::new();
    let mut journal = fresh(&disk);
    for n in 0..5 {
        append(&mut journal, &[noise(n, 900)]).expect("space");
    }
    journal.maintenance().run().expect("space");
    assert!(disk.list(&dir()).expect("listed").iter().any(|name| name.starts_with("spare-")));
    drop(journal);
    let mut recovery =
        LocalJournal::recover(Arc::new(disk.clone()), &dir(), tiny(), genesis()).expect("intact");
    assert!(!disk.list(&dir()).expect("listed").iter().any(|name| name.starts_with("spare-")));
    let mut done = 0;
    while recovery.next_entry().expect("intact").is_some() {
        let progress = recovery.progress();
        assert!(progress.done >= done && progress.done <= progress.total);
        done = progress.done;
    }
    assert!(done > 0);
}
