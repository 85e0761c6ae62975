//! What is measured: latencies, counts, and what a process uses.

pub(crate) mod monitor;
pub(crate) mod pin;
pub(crate) mod process;
pub(crate) mod tally;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Raised by Ctrl-C. Whatever runs ends soon and tells what it has.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// The first Ctrl-C asks for an end, the second one takes it.
    pub(crate) fn on_signals() -> std::io::Result<Stop> {
        let stop = Stop::default();
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register_conditional_shutdown(signal, 130, stop.0.clone())?;
            signal_hook::flag::register(signal, stop.0.clone())?;
        }
        Ok(stop)
    }

    pub(crate) fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The processors of this machine that we may use; asked for before anything is pinned, because a
/// pinned thread sees one.
pub(crate) fn processors() -> usize {
    static COUNT: OnceLock<usize> = OnceLock::new();
    *COUNT.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}
