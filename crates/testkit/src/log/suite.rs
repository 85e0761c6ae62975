//! The suite that every engine passes. `journal` checks the contract of `vetch_journal`; `log`
//! checks the contract of `vetch_cluster::Log` for engines that several servers share; `replicated`
//! that of `vetch_cluster::ReplicatedLog`, for engines of which each server is a member.
//!
//! Each case gets an empty engine of its own, and panics with what was wrong.

mod journal;
mod log;
mod replicated;

use std::time::Duration;

use vetch_cluster::{Log, LogIndex, ReplicaId, ReplicatedLog};
use vetch_journal::{Journal, JournalError};

/// An engine for the cases of `journal`.
pub trait JournalEngine {
    /// A server that begins behind `start` and has read everything. For engines of one server, the
    /// previous one has been dropped.
    fn open(&mut self, start: LogIndex) -> Result<Box<dyn Journal>, JournalError>;

    /// Whether several servers may be open at a time.
    fn is_shared(&self) -> bool;

    /// A payload size that is too large, if there is a limit that a test can reach.
    fn too_large(&self) -> Option<usize>;
}

/// An engine for the cases of `log`.
pub trait LogEngine {
    fn open(&mut self) -> Box<dyn Log>;
}

/// Members of one replicated log for the cases of `replicated`, with everything between them, in a
/// time that the cases let pass.
pub trait ReplicatedGroup {
    /// Starts a member, behind `start`, again if it ran before: that one has been dropped.
    fn start(&mut self, at: usize, start: LogIndex) -> Box<dyn ReplicatedLog>;

    /// The name of a member in this life.
    fn name(&self, at: usize) -> ReplicaId;

    /// Cuts a member off from everything, or connects it again.
    fn cut(&mut self, at: usize, cut: Option<Cut>);

    /// Lets time pass, for the clocks of all members alike.
    fn pass(&mut self, time: Duration);
}

/// How a member is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// In both directions.
    Whole,
    /// What it sends arrives; what is sent to it is lost.
    Deaf,
}

/// A case and its name.
pub type JournalCase = (&'static str, fn(&mut dyn JournalEngine));
pub type LogCase = (&'static str, fn(&mut dyn LogEngine));

pub use journal::cases as journal_cases;
pub use log::cases as log_cases;
pub use replicated::check as check_replicated;

/// Runs every journal case on an engine made for it.
pub fn check_journal(mut make: impl FnMut() -> Box<dyn JournalEngine>) {
    for (name, run) in journal_cases() {
        eprintln!("journal: {name}");
        run(&mut *make());
    }
}

/// Runs every log case on an engine made for it.
pub fn check_log(mut make: impl FnMut() -> Box<dyn LogEngine>) {
    for (name, run) in log_cases() {
        eprintln!("log: {name}");
        run(&mut *make());
    }
}
