//! Crash enumeration: seeded workloads, and for each of them every operation as the moment at which
//! something goes wrong: the power, the process, a sync, a read, the space. Then every subset of
//! what was pending, where there are few, and a spread of them where there are many.
//!
//! Judged each time: what recovery finds is a prefix of what was given, contains everything
//! acknowledged, and has each batch entirely or not at all; recovering again finds the same and
//! changes no byte; the power may go at every operation of the recovery too; and the journal goes
//! on from there.
//!
//! `VETCH_CRASH_WORKLOADS` says how many workloads there are; every test prints how many cases it
//! judged.

mod chain;
mod eio;
mod judge;
mod kill;
mod life;
mod power;
mod space;
mod sync;
mod workload;

use std::sync::atomic::{AtomicU64, Ordering};

/// How many workloads a test runs: `usual`, unless a longer or shorter run is asked for in parts of
/// 50.
fn workloads(usual: u64) -> u64 {
    let asked = std::env::var("VETCH_CRASH_WORKLOADS").ok().and_then(|asked| asked.parse::<u64>().ok());
    asked.map_or(usual, |asked| (asked * usual).div_ceil(50))
}

/// Runs `each` for the seeds below `count`, on all cores, and returns the sum of what it answers.
fn for_seeds<const N: usize>(count: u64, each: impl Fn(u64) -> [u64; N] + Sync) -> [u64; N] {
    let next = AtomicU64::new(0);
    let work = || {
        let mut sums = [0; N];
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= count {
                return sums;
            }
            sums.iter_mut().zip(each(seed)).for_each(|(sum, more)| *sum += more);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let mut sums = [0; N];
        for thread in running {
            let found = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            sums.iter_mut().zip(found).for_each(|(sum, more)| *sum += more);
        }
        sums
    })
}
