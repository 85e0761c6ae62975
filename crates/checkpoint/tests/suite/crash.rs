//! Crash enumeration: seeded lives of a store that takes checkpoints, and every operation of every
//! run as the moment at which something goes wrong: the power, the process, a sync, a read, the
//! space. What the next boot finds is the old checkpoint or the new one, the journal that was kept
//! suffices for it and for the one before it, and life goes on.
//!
//! `VETCH_CRASH_WORKLOADS` says how many lives there are; every test prints how many cases it
//! judged.

mod faults;
mod judge;
mod kill;
mod life;
mod power;
mod sectors;

use std::io::ErrorKind;

use vetch_journal::{Fault, Op};
use vetch_store::request::WriteRequest;
use vetch_testkit::valid::Valid;

use crate::world::{TINY, World, names, put};

/// Says a line that is seen even when the test passes.
fn tell(line: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// The seeds of a test: `usual` of them, unless a longer or shorter run is asked for in parts of
/// 50.
fn seeds(usual: u64) -> std::ops::Range<u64> {
    let asked = std::env::var("VETCH_CRASH_WORKLOADS").ok().and_then(|asked| asked.parse::<u64>().ok());
    0..asked.map_or(usual, |asked| (asked * usual).div_ceil(50))
}

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
        world.write(WriteRequest::Put(put(&format!("key/{n:02}"), "newest", 5).valid()));
    }
    world.delete("key/14");
    world.compact_fully(world.store.head().revision - 2);
    world
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
