//! Power lost at every operation of a run: what the next boot finds is the old checkpoint or the new one.

use std::io::ErrorKind;

use vetch_journal::{Fault, MemDisk, Op, Pending};
use vetch_store::request::WriteRequest;

use crate::world::{TINY, World, names, open, put};

/// A world whose next run writes new records, rewrites a hollow file and removes old files.
fn world_before_a_busy_run() -> World {
    let mut world = World::new(TINY);
    for round in 0..3 {
        for n in 0..15 {
            world.put(&format!("key/{n:02}"), &"v".repeat(20 + round));
        }
        if round > 0 {
            world.compact_fully(world.store.head().revision - 3);
        }
        world.checkpoint().unwrap();
    }
    world.write(WriteRequest::LeaseGrant { id: 5, ttl: 60 });
    for n in 0..10 {
        world.write(WriteRequest::Put(put(&format!("key/{n:02}"), "newest", 5)));
    }
    world.delete("key/14");
    world.compact_fully(world.store.head().revision - 2);
    world
}

/// Ways in which pending changes survive a power loss: none, all, all but one, only names or only contents, and
/// mixtures.
fn outcomes(disk: &MemDisk) -> Vec<MemDisk> {
    let mut found = vec![disk.power_loss(&mut |_| false), disk.power_loss(&mut |_| true)];
    for lost in 0..disk.pending().len() {
        let mut index = 0..;
        found.push(disk.power_loss(&mut |_| index.next() != Some(lost)));
    }
    let is_name = |pending: &Pending| !matches!(pending, Pending::Sector { .. } | Pending::Length { .. });
    found.push(disk.power_loss(&mut |pending| is_name(pending)));
    found.push(disk.power_loss(&mut |pending| !is_name(pending)));
    for seed in 1..16u64 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        found.push(disk.power_loss(&mut |_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.is_multiple_of(2)
        }));
    }
    found
}

#[test]
fn power_loss_at_any_operation_leaves_the_old_or_the_new_checkpoint() {
    let (mut old, mut new) = (0, 0);
    for at in 0.. {
        let mut world = world_before_a_busy_run();
        let (before, after) = (world.checkpointer.tip(), world.tip);
        world.disk.inject(Fault::CrashAt(at));
        let outcome = world.checkpoint();
        if !world.disk.has_crashed() {
            let report = outcome.unwrap();
            assert!(report.rewritten_files > 0, "the run was meant to be busy: {report:?}");
            break;
        }
        for disk in outcomes(&world.disk) {
            let loaded = open(&disk, TINY).unwrap();
            assert_eq!(loaded.report.fell_back, None, "crash at {at}");
            assert!([before, after].contains(&loaded.tip), "crash at {at}");
            assert!(outcome.is_err() || loaded.tip == after, "crash at {at}: what was published stays");
            if loaded.tip == before {
                old += 1
            } else {
                new += 1
            }
            let mut recovered = world.recover(&disk).unwrap();
            world.assert_same(&recovered);
            // Opening again changes nothing, and the next run works.
            assert_eq!(open(&disk, TINY).unwrap().tip, loaded.tip);
            recovered.put("after", "the crash");
            recovered.checkpoint().unwrap();
            recovered.assert_same(&recovered.recover(&recovered.disk).unwrap());
        }
    }
    assert!(old > 100 && new > 50, "both outcomes were seen: old={old} new={new}");
}

#[test]
fn a_failed_operation_leaves_the_last_checkpoint_and_the_next_run_makes_up_for_it() {
    for op in [Op::Create, Op::Write, Op::SyncData, Op::Rename, Op::SyncDir] {
        for kind in [ErrorKind::StorageFull, ErrorKind::Other] {
            let mut world = world_before_a_busy_run();
            let (files, tip) = (names(&world.disk), world.checkpointer.tip());
            world.disk.inject(Fault::FailNext(op, kind));
            // Lack of space is met by writing less; every other failure ends the run.
            if kind == ErrorKind::StorageFull {
                let report = world.checkpoint().unwrap();
                assert_eq!(report.rewritten_files, 0, "{op:?}");
                world.assert_same(&world.recover(&world.disk.process_exit()).unwrap());
                continue;
            }
            let error = world.checkpoint().unwrap_err();
            assert_eq!(error.source.kind(), kind, "{op:?}");
            assert_eq!(names(&world.disk), files, "{op:?}: nothing half-done is left");
            assert_eq!(world.checkpointer.tip(), tip);
            world.assert_same(&world.recover(&world.disk.process_exit()).unwrap());
            world.put("key/more", "after the failure");
            world.checkpoint().unwrap();
            world.assert_same(&world.recover(&world.disk.process_exit()).unwrap());
        }
    }
}

#[test]
fn a_full_disk_fails_the_run_and_space_heals_it() {
    let mut world = world_before_a_busy_run();
    let used: usize = world.disk.files().values().map(Vec::len).sum();
    world.disk.inject(Fault::Capacity(used as u64 + 64));
    let files = names(&world.disk);
    assert!(world.checkpoint().unwrap_err().is_no_space());
    assert!(world.checkpoint().unwrap_err().is_no_space());
    assert_eq!(names(&world.disk), files);
    world.assert_same(&world.recover(&world.disk.process_exit()).unwrap());
    world.disk.inject(Fault::Capacity(1 << 30));
    let report = world.checkpoint().unwrap();
    assert_eq!(report.new_records, 11);
    world.assert_same(&world.recover(&world.disk.process_exit()).unwrap());
}

#[test]
fn files_that_cannot_be_removed_are_reported_and_removed_later() {
    let mut world = world_before_a_busy_run();
    world.disk.inject(Fault::FailNext(Op::Remove, ErrorKind::NotFound));
    world.disk.inject(Fault::FailNext(Op::Remove, ErrorKind::PermissionDenied));
    let report = world.checkpoint().unwrap();
    assert!(report.leftovers.is_some(), "{report:?}");
    let on_disk = |world: &World| world.disk.files().values().map(Vec::len).sum::<usize>() as u64;
    assert!(on_disk(&world) > world.checkpointer.disk_bytes());
    world.put("next", "run");
    assert_eq!(world.checkpoint().unwrap().leftovers, None);
    assert_eq!(on_disk(&world), world.checkpointer.disk_bytes());
}
