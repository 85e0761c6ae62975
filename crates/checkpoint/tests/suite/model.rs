//! Random lives of a small store, with checkpoints, failures and restarts at any time: a recovered
//! store answers like the one that never stopped. Limits are so small that files are rewritten and
//! merged all the time.

use std::io::ErrorKind;

use proptest::prelude::*;
use vetch_checkpoint::CheckpointConfig;
use vetch_journal::{Fault, Op};
use vetch_store::request::{Alarm, AlarmKind, Remaining, RequestOp, WriteRequest};
use vetch_testkit::valid::Valid;

use crate::world::{TINY, World, damage, delete, paths, put, txn};

#[derive(Debug, Clone)]
enum Step {
    Put {
        key: u8,
        len: u8,
        lease: i64,
    },
    Delete {
        key: u8,
    },
    DeleteFrom {
        key: u8,
    },
    Txn {
        puts: Vec<u8>,
        delete: u8,
    },
    /// Makes every key exist.
    Fill,
    /// A revision that changes many keys: compaction right at it gives back what it replaced.
    Rewrite,
    Grant {
        id: i64,
    },
    Revoke {
        id: i64,
    },
    Remaining {
        id: i64,
    },
    Alarm {
        on: bool,
    },
    Compact {
        back: i64,
    },
    Sweep {
        steps: usize,
    },
    SweepAll,
    Checkpoint,
    FailingCheckpoint {
        op: Op,
        full: bool,
    },
    Restart,
}

const KEYS: u8 = 24;

fn name(key: u8) -> String {
    format!("k{:02}", key % KEYS)
}

fn step() -> impl Strategy<Value = Step> {
    let failing = prop_oneof![
        Just(Op::Create),
        Just(Op::Write),
        Just(Op::SyncData),
        Just(Op::Rename),
        Just(Op::Remove),
        Just(Op::SyncDir)
    ];
    // Most keys are cold, a few are hot: files keep a mixture of the living and the dead.
    let key = prop_oneof![3 => 0..KEYS, 2 => 0..3u8];
    prop_oneof![
        20 => (key.clone(), 0..60u8, 0..3i64).prop_map(|(key, len, lease)| Step::Put { key, len, lease }),
        10 => key.clone().prop_map(|key| Step::Delete { key }),
        1 => key.clone().prop_map(|key| Step::DeleteFrom { key }),
        3 => (prop::collection::vec(key.clone(), 0..4), key).prop_map(|(puts, delete)| Step::Txn { puts, delete }),
        1 => Just(Step::Fill),
        2 => Just(Step::Rewrite),
        1 => (1..3i64).prop_map(|id| Step::Grant { id }),
        1 => (1..3i64).prop_map(|id| Step::Revoke { id }),
        1 => (1..3i64).prop_map(|id| Step::Remaining { id }),
        1 => any::<bool>().prop_map(|on| Step::Alarm { on }),
        4 => (0..12i64).prop_map(|back| Step::Compact { back }),
        3 => (1..6usize).prop_map(|steps| Step::Sweep { steps }),
        4 => Just(Step::SweepAll),
        8 => Just(Step::Checkpoint),
        2 => (failing, any::<bool>()).prop_map(|(op, full)| Step::FailingCheckpoint { op, full }),
        2 => Just(Step::Restart),
    ]
}

impl World {
    fn apply(&mut self, step: &Step) {
        match step {
            Step::Put { key, len, lease } => {
                self.write(WriteRequest::Put(put(&name(*key), &"v".repeat(*len as usize), *lease).valid()));
            }
            Step::Delete { key } => self.delete(&name(*key)),
            Step::DeleteFrom { key } => {
                self.write(WriteRequest::DeleteRange(delete(&name(*key), "\0").valid()));
            }
            Step::Txn { puts, delete: gone } => {
                let mut keys: Vec<u8> = puts.iter().copied().filter(|key| key != gone).collect();
                keys.sort_unstable();
                keys.dedup();
                let puts = keys.iter().map(|key| RequestOp::Put(put(&name(*key), "txn", 0)));
                let delete = RequestOp::DeleteRange(delete(&name(*gone), ""));
                self.write(txn(puts.chain([delete]).collect()));
            }
            Step::Fill => {
                let puts = (0..KEYS).map(|key| RequestOp::Put(put(&name(key), "filled", 0)));
                self.write(txn(puts.collect()));
            }
            Step::Rewrite => {
                let changes = (0..KEYS).map(|key| match key % 2 {
                    0 => RequestOp::Put(put(&name(key), "rewritten", 0)),
                    _ => RequestOp::DeleteRange(delete(&name(key), "")),
                });
                self.write(txn(changes.collect()));
                self.compact(self.store.head().revision);
            }
            Step::Grant { id } => {
                self.write(WriteRequest::LeaseGrant { id: *id, ttl: 60 });
            }
            Step::Revoke { id } => {
                self.write(WriteRequest::LeaseRevoke { id: *id });
            }
            Step::Remaining { id } => {
                let grant = self.store.leases().get(*id).map_or(0, |lease| lease.grant());
                let remaining = Remaining { id: *id, grant, seconds: 30 };
                self.write(WriteRequest::LeaseRemaining { leases: vec![remaining] });
            }
            Step::Alarm { on } => {
                let alarm = Alarm { member: 9, kind: AlarmKind::NoSpace };
                let request = if *on { WriteRequest::AlarmActivate } else { WriteRequest::AlarmDeactivate };
                self.write(request(alarm));
            }
            Step::Compact { back } => {
                self.compact(self.store.head().revision - back);
            }
            Step::Sweep { steps } => {
                self.sweep(*steps);
            }
            Step::SweepAll => while !self.sweep(1000) {},
            Step::Checkpoint => {
                self.checkpoint().unwrap();
            }
            Step::FailingCheckpoint { op, full } => {
                let kind = if *full { ErrorKind::StorageFull } else { ErrorKind::Other };
                self.disk.inject(Fault::FailNext(*op, kind));
                // Whether the run needed that operation at all does not matter; what follows must
                // work.
                let _ = self.checkpoint();
            }
            Step::Restart => *self = self.recover(&self.disk.process_exit()).unwrap(),
        }
    }

    /// Restarts on copies of the disk, as it is and with the newest manifest lost, and compares.
    fn verify(&self) {
        self.assert_same(&self.recover(&self.disk.process_exit()).unwrap());
        let manifests = paths(&self.disk, ".manifest");
        if manifests.len() == 2 {
            let disk = self.disk.process_exit();
            damage(&disk, &manifests[1]);
            self.assert_same(&self.recover(&disk).unwrap());
        }
    }

    /// With nothing left to sweep, what is counted as alive is what a restart finds alive.
    fn verify_books(&self) {
        let compacted = self.store.visible().compact_revision;
        let is_settled = !self.store.has_garbage() && self.checkpointer.mark().compact_revision == compacted;
        if is_settled {
            let recovered = self.recover(&self.disk.process_exit()).unwrap();
            assert_eq!(self.checkpointer.live_bytes(), recovered.checkpointer.live_bytes());
        }
    }
}

fn run(config: CheckpointConfig, steps: &[Step]) {
    let mut world = World::new(config);
    for step in steps {
        world.apply(step);
        if matches!(step, Step::Checkpoint | Step::FailingCheckpoint { .. } | Step::Restart) {
            world.verify();
            world.verify_books();
        }
    }
    world.verify();
}

fn config() -> impl Strategy<Value = CheckpointConfig> {
    (1..4u64, 1..8usize, 30..300usize).prop_map(|(scale, max_files, block_bytes)| CheckpointConfig {
        rewrite_bytes: 500 * scale,
        rewrite_floor: 200 * scale,
        small_file: 64,
        max_files,
        block_bytes,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_recovered_store_answers_like_the_one_that_never_stopped(
        config in config(),
        steps in prop::collection::vec(step(), 1..150),
    ) {
        run(config, &steps);
    }
}

#[test]
fn a_deleted_key_stays_deleted_while_its_puts_lie_in_an_old_file() {
    let mut world = World::new(CheckpointConfig { max_files: 48, ..TINY });
    // One big file that stays mostly alive, so that it is never worth rewriting.
    for n in 0..40 {
        world.put(&format!("keep/{n:02}"), &"x".repeat(50));
    }
    world.put("ghost", "boo");
    world.checkpoint().unwrap();
    world.delete("ghost");
    world.checkpoint().unwrap();
    // Compaction takes the tombstone from memory, and the file that holds it is rewritten many
    // times.
    for round in 0..30 {
        world.put("hot", &format!("{round}"));
        world.compact_fully(world.store.head().revision);
        world.checkpoint().unwrap();
        world.verify();
    }
    assert!(world.store.get(b"ghost", world.store.head().revision).is_none());
}

#[test]
fn tombstones_that_must_stay_do_not_make_their_file_be_rewritten_for_ever() {
    let mut world = World::new(CheckpointConfig { max_files: 48, rewrite_bytes: 1, ..TINY });
    // Large living values around small keys, so that this file is never hollow.
    for n in 0..20 {
        world.put(&format!("keep/{n:02}"), &"x".repeat(200));
        world.put(&format!("ghost/{n:02}"), "");
    }
    world.checkpoint().unwrap();
    (0..20).for_each(|n| world.delete(&format!("ghost/{n:02}")));
    world.put("last", "write");
    world.compact_fully(world.store.head().revision);
    world.checkpoint().unwrap();
    let mut rewritten = 0;
    for round in 0..10 {
        if round == 5 {
            world = world.recover(&world.disk.process_exit()).unwrap();
        }
        rewritten += world.checkpoint().unwrap().rewritten_files;
    }
    assert_eq!(rewritten, 0);
    world.verify();
}

#[test]
fn a_delete_that_compaction_stands_at_is_not_undone() {
    // Files are rewritten as needed and never joined.
    let config = CheckpointConfig { max_files: 48, rewrite_bytes: 1, rewrite_floor: 1 << 20, ..TINY };
    let mut world = World::new(config);
    let write = |world: &mut World| (0..15).for_each(|n| world.put(&format!("{n:02}"), &"x".repeat(50)));
    write(&mut world);
    (0..5).for_each(|n| world.put(&format!("cold/{n}"), &"x".repeat(50)));
    world.put("ghost", "boo");
    world.checkpoint().unwrap();
    // The first file is hollowed out and rewritten while compaction stands exactly at the delete,
    // which stays while the ghost goes.
    write(&mut world);
    world.delete("ghost");
    world.compact_fully(world.store.head().revision);
    let report = world.checkpoint().unwrap();
    assert_eq!((report.rewritten_files, report.files), (1, 2), "{report:?}");
    // Now the file with the tombstone is hollowed out, and the one that had the ghost is not.
    write(&mut world);
    world.compact_fully(world.store.head().revision);
    let report = world.checkpoint().unwrap();
    assert_eq!((report.rewritten_files, report.files), (1, 3), "{report:?}");
    world.verify();
}

#[test]
fn events_at_the_compacted_revision_never_show_a_version_older_than_the_one_replaced() {
    let mut world = World::new(CheckpointConfig { max_files: 48, ..TINY });
    (0..KEYS).for_each(|key| world.put(&name(key), &"first".repeat(9)));
    world.checkpoint().unwrap();
    // The second versions of a few keys; the first ones stay in a file that is mostly alive.
    (0..4).for_each(|key| world.put(&name(key), "second"));
    world.checkpoint().unwrap();
    // Everything is replaced or deleted in one revision and compacted there; the second versions
    // are given back, and the file that held them is rewritten.
    world.apply(&Step::Rewrite);
    world.apply(&Step::SweepAll);
    world.checkpoint().unwrap();
    world.verify();
    let disk = world.disk.process_exit();
    world.recover(&disk).unwrap();
}
