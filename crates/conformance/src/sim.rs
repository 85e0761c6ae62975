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
mod plan;
mod server;
mod wire;
mod world;

use std::collections::BTreeMap;

pub use plan::{Breach, Plan};
use world::World;

/// How one seed went.
#[derive(Debug)]
pub struct Report {
    pub seed: u64,
    /// What went wrong first, if anything did.
    pub violation: Option<String>,
    /// How often rare things happened.
    pub coverage: BTreeMap<&'static str, u64>,
    pub trace: Vec<String>,
}

/// Runs one seed from beginning to end.
pub fn run(seed: u64, verbose: bool) -> Report {
    let mut world = World::new(seed, verbose);
    let violation = world.run().err().map(|violation| violation.0);
    Report { seed, violation, coverage: world.coverage, trace: world.trace }
}
