//! Urgency: which threads the operating system should prefer when there are more of them than
//! processors.
//!
//! A write passes from thread to thread. Beside lists, checkpoints and compactions that keep every
//! processor busy, each of those steps would wait for the time slice of another thread to end, some
//! milliseconds every time.

use rustix::process::{getpriority_process, setpriority_process};
use rustix::thread::gettid;

/// How much others wait for a thread.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Urgency {
    /// Every write waits for it, and it has little to do for each.
    High,
    Usual,
    /// No request waits for it, and it may have much to do.
    Low,
}

impl Urgency {
    /// Applies to the calling thread, relative to what it has. To be preferred takes a permission
    /// (CAP_SYS_NICE, or a limit such as systemd's LimitNICE), and without it everything works as
    /// well on processors that are not busy.
    pub(crate) fn apply(self) {
        let change = match self {
            Urgency::High => -10,
            Urgency::Usual => return,
            Urgency::Low => 10,
        };
        // On Linux these take a thread for a process.
        let thread = Some(gettid());
        let changed = getpriority_process(thread).and_then(|now| setpriority_process(thread, now + change));
        if let Err(error) = changed {
            tracing::debug!(%error, change, "the priority of a thread could not be changed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_of_low_urgency_lowers_its_own_priority_alone() {
        let before = getpriority_process(Some(gettid())).unwrap();
        let of_it = std::thread::spawn(|| {
            Urgency::Low.apply();
            getpriority_process(Some(gettid())).unwrap()
        });
        assert_eq!(of_it.join().unwrap(), (before + 10).min(19));
        assert_eq!(getpriority_process(Some(gettid())).unwrap(), before);
    }
}
