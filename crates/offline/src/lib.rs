//! Offline: tools for the data directory of a server that is not running.
//!
//! * [`verify`]: checks every checksum, the hash chain, and checkpoints against the journal. It
//!   locks nothing, so a server may even be running.
//! * [`DataDirBuilder`]: a new data directory of a state from elsewhere.
//! * [`refill`]: an empty shared journal starts with the state of a data directory.
//!
//! Not here: where the state comes from (`vetch-snapshot`, `vetch-backup`), and commands.

mod data_dir_builder;
pub mod refill;
pub mod verify;

pub use data_dir_builder::{BuildError, DataDirBuilder, REVISION_BUMP, UNFINISHED_DIR, bump_revision};

/// Threads that decode a checkpoint; 0 is the calling one, which is faster on a single processor.
fn decode_threads() -> usize {
    let processors = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    if processors == 1 { 0 } else { processors }
}
