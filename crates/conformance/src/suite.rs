//! The suite that every engine passes. `journal` holds an engine to the contract of
//! `vetch_journal`; `log` holds those that are shared logs to what the fence asks of them as well.
//!
//! Each case gets an engine of its own, with nothing in it, and panics with what was wrong.

mod journal;
mod log;

use vetch_fence::{Index, Log};
use vetch_journal::{Journal, JournalError};

/// An engine to be judged at `journal`.
pub trait JournalEngine {
    /// A server that begins behind `start` and has read everything. For engines of one server, the
    /// last one is gone.
    fn open(&mut self, start: Index) -> Result<Box<dyn Journal>, JournalError>;

    /// Whether several servers may be open at a time.
    fn is_shared(&self) -> bool;

    /// A payload of this many bytes is too large, if there is a limit that a test can reach.
    fn too_large(&self) -> Option<usize>;
}

/// An engine to be judged at `log`.
pub trait LogEngine {
    fn open(&mut self) -> Box<dyn Log>;
}

/// Something to check, by its name.
pub type JournalCase = (&'static str, fn(&mut dyn JournalEngine));
pub type LogCase = (&'static str, fn(&mut dyn LogEngine));

pub use journal::cases as journal_cases;
pub use log::cases as log_cases;

/// Runs every journal case on an engine made for it.
pub fn judge_journal(mut make: impl FnMut() -> Box<dyn JournalEngine>) {
    for (name, run) in journal_cases() {
        eprintln!("journal: {name}");
        run(&mut *make());
    }
}

/// Runs every log case on an engine made for it.
pub fn judge_log(mut make: impl FnMut() -> Box<dyn LogEngine>) {
    for (name, run) in log_cases() {
        eprintln!("log: {name}");
        run(&mut *make());
    }
}
