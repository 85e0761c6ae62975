//! What goes in comes out; what did not change is not written again.

use vetch_base::Seq;
use vetch_checkpoint::CheckpointConfig;
use vetch_store::Mark;
use vetch_store::auth::Change;
use vetch_store::request::{Alarm, AlarmKind, Remaining, WriteRequest};
use vetch_testkit::valid::Valid;

use crate::world::{TINY, World, delete, names, open, paths, put};

#[test]
fn a_fresh_directory_is_the_empty_store() {
    let world = World::new(CheckpointConfig::default());
    let loaded = open(&world.disk, world.config).unwrap();
    assert_eq!((loaded.mark, loaded.tip.next_rev, loaded.tip.seq), (Mark::START, 2, Seq::ZERO));
    assert_eq!(loaded.report.number, None);
    assert_eq!((loaded.checkpointer.disk_bytes(), loaded.checkpointer.journal_needed_from()), (0, None));
}

#[test]
fn keys_leases_and_alarms_come_back() {
    for config in [TINY, CheckpointConfig::default()] {
        let mut world = World::new(config);
        world.write(WriteRequest::LeaseGrant { id: 7, ttl: 60 });
        world.write(WriteRequest::LeaseGrant { id: -3, ttl: 30 });
        world
            .write(WriteRequest::LeaseRemaining { leases: vec![Remaining { id: 7, grant: 1, seconds: 12 }] });
        world.write(WriteRequest::AlarmActivate(Alarm { member: u64::MAX, kind: AlarmKind::NoSpace }));
        for n in 0..50 {
            world.write(WriteRequest::Put(
                put(&format!("key/{n:02}"), &"v".repeat(n), if n % 5 == 0 { 7 } else { 0 }).valid(),
            ));
        }
        world.delete("key/05");
        world.put("key/06", "again");
        let report = world.checkpoint().unwrap();
        assert_eq!((report.number, report.new_records, report.files), (1, 52, 1));
        world.assert_same(&world.recover(&world.disk).unwrap());
        // What comes after the checkpoint is replayed on top of it.
        world.put("key/99", "later");
        world.write(WriteRequest::LeaseRevoke { id: 7 });
        world.assert_same(&world.recover(&world.disk).unwrap());
    }
}

#[test]
fn users_and_roles_come_back() {
    let mut world = World::new(TINY);
    let add =
        |name: &str| Change::UserAdd { name: name.into(), password: Some("hash".into()), no_password: false };
    world.write(WriteRequest::Auth(add("root")));
    world.write(WriteRequest::Auth(Change::UserGrantRole { user: "root".into(), role: "root".into() }));
    world.write(WriteRequest::Auth(Change::Enable));
    world.checkpoint().unwrap();
    let loaded = world.recover(&world.disk).unwrap();
    assert!(loaded.store.auth().enabled() && loaded.store.auth().user("root").is_some());
    world.assert_same(&loaded);
    // What comes after the checkpoint is replayed on top of it.
    world.write(WriteRequest::Auth(add("later")));
    world.write(WriteRequest::Auth(Change::Disable));
    let loaded = world.recover(&world.disk).unwrap();
    assert!(!loaded.store.auth().enabled() && loaded.store.auth().user("later").is_some());
    world.assert_same(&loaded);
}

#[test]
fn the_empty_state_and_unversioned_changes_alone_are_checkpointed_too() {
    let mut world = World::new(TINY);
    world.checkpoint().unwrap();
    world.write(WriteRequest::LeaseGrant { id: 1, ttl: 60 });
    let report = world.checkpoint().unwrap();
    assert_eq!((report.number, report.files, report.file_bytes), (2, 0, 0));
    world.assert_same(&world.recover(&world.disk).unwrap());
    assert_eq!(names(&world.disk), ["0000000000000001.manifest", "0000000000000002.manifest"]);
}

#[test]
fn an_interval_without_survivors_is_covered_by_its_neighbour() {
    let mut world = World::new(TINY);
    world.put("stays", "v");
    world.checkpoint().unwrap();
    // Born and gone between two checkpoints.
    world.put("brief", "v");
    world.delete("brief");
    world.put("stays", "w");
    world.delete("stays");
    world.compact_fully(world.store.head().revision);
    world.checkpoint().unwrap();
    world.put("x", "v");
    world.delete("x");
    world.compact_fully(world.store.head().revision);
    let report = world.checkpoint().unwrap();
    world.assert_same(&world.recover(&world.disk).unwrap());
    // The tombstone at the compaction itself is still an event that a watcher may ask for.
    assert_eq!((report.files, report.live_bytes > 0), (1, true), "{report:?}");
}

#[test]
fn when_everything_is_gone_no_file_is_left() {
    let mut world = World::new(TINY);
    for n in 0..20 {
        world.put(&format!("{n}"), "v");
    }
    world.checkpoint().unwrap();
    world.write(WriteRequest::DeleteRange(delete("\0", "\0").valid()));
    world.put("one more", "v");
    world.delete("one more");
    // Compaction at the newest revision keeps the events there, so one more write lets all of it
    // go.
    world.write(WriteRequest::LeaseGrant { id: 1, ttl: 60 });
    world.put("last", "v");
    world.compact_fully(world.store.head().revision);
    let report = world.checkpoint().unwrap();
    assert_eq!((report.files, report.rewritten_files), (1, 1), "{report:?}");
    world.assert_same(&world.recover(&world.disk).unwrap());
}

#[test]
fn a_small_change_to_a_big_store_costs_little() {
    let mut world = World::new(CheckpointConfig::default());
    let value = "v".repeat(1024);
    for n in 0..20_000 {
        world.put(&format!("/registry/pods/default/{n:06}"), &value);
    }
    let full = world.checkpoint().unwrap();
    assert!(full.written_bytes > 20 << 20, "{full:?}");
    for round in 0..20 {
        for n in 0..10 {
            world.put(&format!("/registry/pods/default/{:06}", n * 1000 + round), &value);
        }
        let small = world.checkpoint().unwrap();
        // The new records, and now and then the few files of the last rounds once more.
        assert!(small.written_bytes < 400 << 10, "{small:?}");
    }
    assert!(world.checkpointer.files() < 12, "{}", world.checkpointer.files());
}

#[test]
fn two_checkpoints_are_kept_and_nothing_else() {
    let mut world = World::new(TINY);
    for round in 0..12i64 {
        for n in 0..10 {
            world.put(&format!("{n}"), &format!("{round}"));
        }
        world.compact_fully(world.store.head().revision - 5);
        let trim_before = world.checkpointer.tip();
        world.checkpoint().unwrap();
        let manifests = paths(&world.disk, ".manifest").len() as i64;
        assert_eq!(manifests, (round + 1).min(2));
        assert_eq!(world.checkpointer.journal_needed_from(), (round > 0).then_some(trim_before));
        let on_disk: usize = world.disk.files().values().map(Vec::len).sum();
        assert_eq!(world.checkpointer.disk_bytes(), on_disk as u64);
    }
}

/// A file is written in pieces of a megabyte; what lies behind the first of them must be found
/// again.
#[test]
fn a_file_of_several_megabytes_comes_back() {
    let mut world = World::new(CheckpointConfig::default());
    for n in 0..40 {
        world.put(&format!("key/{n:02}"), &char::from(b'a' + n % 26).to_string().repeat(100_000));
    }
    let report = world.checkpoint().unwrap();
    assert!(report.file_bytes > 3 << 20, "{report:?}");
    world.assert_same(&world.recover(&world.disk).unwrap());
}
