//! The simulation: several servers on one model log, in virtual time, everything from one seed.
//!
//! While there is trouble, requests and answers between a server and the log are lost, late,
//! doubled and out of order; servers pause, crash and begin again from their checkpoint; the log is
//! trimmed, full, and in some seeds breaks its contract: it forks or loses its tail. Then peace
//! comes, and everything has to be well within a bounded time.
//!
//! Checked all the time (`judge`): a server that has read a position has the oracle's tip there;
//! what was acknowledged is committed and stays so; what was reported as dropped is never
//! committed; no read index is older than what had been acknowledged when it was requested.

mod clients;
mod judge;
mod nemesis;
pub mod oracle;
mod plan;
mod server;
mod wire;
mod world;

pub use plan::{Breach, Plan};

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
