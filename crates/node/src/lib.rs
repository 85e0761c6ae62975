//! The node: where store, journal and watch hub meet.
//!
//! * [`Node`] is the handle: requests in, answers out, all of them durable.
//! * `sequencer`, `admission` and `lessor` decide; they are pure and are given the store and the
//!   time.
//! * `runtime` holds the threads that drive them, `state` what the threads have in common.
//! * `open` recovers the state from the checkpoint and the journal; `runtime/housekeeping` writes
//!   checkpoints.
//!
//! Nothing is acknowledged, readable or watchable before the journal has it.
//!
//! Not here: gRPC, JSON, passwords and tokens. The types of requests and answers are the store's
//! ([`store::request`]).

mod admission;
pub mod archive;
mod auth;
pub mod batch_window;
pub mod cluster;
mod commit;
mod commit_times;
pub mod config;
mod confirm;
pub mod error;
pub mod event;
mod follow;
mod handle;
pub mod inspect;
mod key_usage;
mod lease;
mod lessor;
pub mod metrics;
mod open;
mod read;
pub mod retention;
mod runtime;
mod scrub;
mod sequencer;
mod snapshot;
mod state;
pub mod stepped;
mod time;
pub mod tuning;
pub mod types;
pub mod watch;

pub use follow::{FollowedLease, Follower};
pub use handle::{Node, TransferError};
pub use key_usage::{EncryptionStatus, KeyStillNeeded};
pub use read::RangeStream;
pub use snapshot::Snapshot;
pub use vetch_journal as journal;
pub use vetch_store as store;
pub use vetch_sync::is_any_held as is_any_lock_held;
pub use vetch_watch::KeyRange;
