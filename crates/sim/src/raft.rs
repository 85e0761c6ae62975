//! The simulation of built-in replication: several members in virtual time, each with a model disk,
//! everything from one seed.
//!
//! While there is trouble, messages are lost, late, doubled and out of order; links are cut in one
//! direction or both; members pause, are killed and lose power, one or all, with writes half done;
//! members are added, promoted and removed; leadership is transferred; logs are trimmed behind
//! checkpoints, which followers that lag fetch. Clocks run at 65 to 155 percent. Then peace comes,
//! and everything has to be well within a bounded time.
//!
//! Checked all the time (`judge`): what one member applied at a sequence number every member
//! applies there, for ever; it is synced where it is applied, and by a majority; an epoch has one
//! leader; what was reported as dropped is never committed; no read, with a lease or by an index,
//! is older than what had been acknowledged when it began.

mod clients;
mod disk;
mod faults;
mod judge;
mod member;
mod membership;
mod plan;
mod recovery;
mod wire;
mod world;

pub use plan::Plan;

use vetch_check::History;

use crate::run::{Out, Report};
use crate::watchdog;
use world::World;

/// Runs one seed from beginning to end.
pub fn run(seed: u64, out: Option<Out>) -> Report {
    watchdog::seed(seed);
    let mut world = World::new(seed, out.is_some());
    let violation = world.run().err().map(|violation| violation.0);
    if let Some(out) = out {
        let mut out = out.lock().expect("nothing panics under this lock");
        // A closed pipe is no reason to fail.
        world.trace.iter().for_each(|line| drop(writeln!(out, "{line}")));
    }
    watchdog::seed(0);
    Report {
        seed,
        violations: violation.into_iter().collect(),
        coverage: Vec::new(),
        counts: world.coverage.iter().map(|(what, times)| ((*what).to_owned(), *times)).collect(),
        history: History::default(),
        virtual_nanos: u64::try_from(world.now.as_nanos()).unwrap_or(u64::MAX),
    }
}
