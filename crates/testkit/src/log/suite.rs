//! The suite that every engine passes. `journal` checks the contract of `vetch_journal`; `log`
//! checks the contract of `vetch_cluster::Log` for engines that several servers share.
//!
//! Each case gets an empty engine of its own, and panics with what was wrong.

mod journal;
mod log;

use vetch_cluster::{Log, LogIndex};
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

/// A case and its name.
pub type JournalCase = (&'static str, fn(&mut dyn JournalEngine));
pub type LogCase = (&'static str, fn(&mut dyn LogEngine));

pub use journal::cases as journal_cases;
pub use log::cases as log_cases;

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
