//! Runtime: the threads of a node.
//!
//! ```text
//!  handles --commands--> sequencer --batches--> journal --publish--> replies
//!                        ^                     '--bell--> fan-out --> watch streams
//!                        |                     '--bell--> housekeeping (segments, compaction, checkpoints)
//!                      lease thread (expired leases)
//! ```
//!
//! While few clients write, the sequencer's thread appends and commits short batches itself, which
//! saves a thread switch.
//!
//! Each thread's work is cut into steps that never wait, except for the disk: `step` does what can
//! be done now, `run` is the thread that steps and waits in between. A simulation steps them
//! itself, in any order it likes.
//!
//! | queue | bound | when full |
//! |---|---|---|
//! | commands | `queue_depth` | the caller is answered "too many requests" |
//! | batches | `appends_in_flight` | the sequencer waits, and the next batch grows |
//! | bells | 1 | ringing twice is the same as once |

pub(crate) mod fan_out;
pub(crate) mod housekeeping;
pub(crate) mod journal_loop;
pub(crate) mod lease_thread;
pub(crate) mod log_loop;
mod parts;
mod round;
pub(crate) mod sequencer_loop;
mod urgency;

pub use parts::{Parts, ReplicatedParts};
pub(crate) use urgency::Urgency;

/// What came of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Something was done; there may be more.
    Worked,
    /// There is nothing to do now, or what there is has to wait for another part.
    Idle,
    /// The node has stopped or failed: this part is finished and must be dropped.
    Ended,
}

/// Starts a named thread whose panic ends the process: a node with a missing part must not go on.
pub(crate) fn spawn(
    name: &str,
    urgency: Urgency,
    body: impl FnOnce() + Send + 'static,
) -> std::thread::JoinHandle<()> {
    let guarded = move || {
        let _guard = AbortOnPanic;
        urgency.apply();
        body();
    };
    let thread = std::thread::Builder::new().name(format!("vetch-{name}"));
    thread.spawn(guarded).expect("the operating system gives a process its threads")
}

struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}
