//! What checkpoints cost over a long life: bytes on disk, bytes written, number of files.

use vetch_checkpoint::CheckpointConfig;

use crate::world::World;

/// A thousandth of the server's limits, for stores of a megabyte.
const SMALL: CheckpointConfig = CheckpointConfig {
    rewrite_bytes: 256 << 10,
    rewrite_floor: 8 << 10,
    small_file: 1 << 10,
    max_files: 48,
    block_bytes: 4 << 10,
};

struct Usage {
    /// Highest bytes on disk over live bytes, during the runs of the second half of the life.
    worst: f64,
    written: u64,
    new: u64,
    most_files: usize,
}

/// Overwrites keys for ever, compacts every few rounds, and checkpoints every round.
fn live(world: &mut World, rounds: u64, per_round: u64, mut key: impl FnMut(u64) -> Option<String>) -> Usage {
    let mut usage = Usage { worst: 0.0, written: 0, new: 0, most_files: 0 };
    let value = "v".repeat(200);
    let mut compact_at = 0;
    for round in 0..rounds {
        for n in 0..per_round {
            match key(round * per_round + n) {
                Some(key) => world.put(&key, &value),
                None => world.delete(&format!("churn/{:06}", (round * per_round + n).saturating_sub(600))),
            }
        }
        if round % 5 == 4 {
            if compact_at > 0 {
                world.compact_fully(compact_at);
            }
            compact_at = world.store.head().revision;
        }
        let before = world.checkpointer.disk_bytes();
        let report = world.checkpoint().unwrap();
        usage.written += report.written_bytes;
        usage.new += per_round * 260;
        usage.most_files = usage.most_files.max(report.files);
        if round > rounds / 2 {
            // Just before the run removes what it replaced, everything is there at once.
            let peak = (before + report.written_bytes) as f64;
            usage.worst = usage.worst.max(peak / world.checkpointer.live_bytes() as f64);
        }
    }
    usage
}

fn check(usage: &Usage) {
    let Usage { worst, written, new, most_files } = usage;
    assert!(*worst < 2.5, "disk use is {worst:.2} times what is alive");
    let amplification = *written as f64 / *new as f64;
    assert!(amplification < 8.0, "{amplification:.1} bytes were written for each new one");
    assert!(*most_files <= 48, "{most_files} files");
}

#[test]
fn endless_overwrites_of_all_keys_stay_small() {
    let mut world = World::new(SMALL);
    check(&live(&mut world, 400, 100, |n| Some(format!("key/{:06}", n * 7919 % 4000))));
}

#[test]
fn a_hot_part_of_a_big_store_stays_small() {
    let mut world = World::new(SMALL);
    live(&mut world, 40, 100, |n| Some(format!("key/{n:06}")));
    let usage = live(&mut world, 400, 100, |n| Some(format!("key/{:06}", n * 7919 % 300)));
    check(&usage);
}

#[test]
fn keys_that_come_and_go_leave_nothing_behind() {
    let mut world = World::new(SMALL);
    live(&mut world, 10, 100, |n| Some(format!("base/{n:06}")));
    // Every other write deletes a key that was made six hundred writes ago.
    let usage = live(&mut world, 400, 100, |n| (n % 2 == 0).then(|| format!("churn/{:06}", n + 1)));
    check(&usage);
}

#[test]
fn a_store_that_shrinks_gives_its_space_back() {
    let mut world = World::new(SMALL);
    live(&mut world, 40, 100, |n| Some(format!("key/{n:06}")));
    let full = world.checkpointer.disk_bytes();
    (0..3900).for_each(|n| world.delete(&format!("key/{n:06}")));
    world.put("last", "write");
    world.compact_fully(world.store.head().revision);
    for _ in 0..20 {
        world.checkpoint().unwrap();
    }
    let left = world.checkpointer.disk_bytes();
    assert!(left * 20 < full, "{left} of {full} bytes are left");
    world.assert_same(&world.recover(&world.disk.process_exit()).unwrap());
}
