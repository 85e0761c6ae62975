//! Checkpoints: the state on disk, so that recovery loads it and replays only a short tail of the
//! journal.
//!
//! A checkpoint is a manifest and the immutable data files it names. Every data file covers an
//! interval of revisions, and the files of a checkpoint partition the revision space: the records
//! since the last checkpoint become one new file, so a run costs what changed rather than what
//! exists. Files that consist mostly of garbage are rewritten, and small neighbours are merged, a
//! bounded amount per run.
//!
//! * `checkpointer`, `run`, `plan`, `tombstone_gc`: writing a checkpoint.
//! * `recovery`, `merge`, `read_ahead`, `live_records`: loading one.
//! * `data_file`, `manifest`, `directory`: the formats. docs/format.md draws the bytes.
//! * `pins`, [`transfer`]: copying one while newer ones replace it.
//! * `builder`: a first checkpoint of data from elsewhere. [`listing`]: reading for tools.
//! * [`replay`]: applying journal entries to the loaded store. [`identity`]: whose directory it is.
//!
//! Guarantees:
//! * After any crash or failed run, the directory holds the old checkpoint or the new one,
//!   entirely.
//! * The checkpoint before the newest stays readable, and the journal is needed from its tip on.
//! * Damage is found and reported with file and offset; it is never read as state.
//!
//! Synchronous, and free of logging: outcomes are returned as plain reports. All I/O of checkpoints
//! goes through `Disk`. The only clock is that of the pauses in which the disk is left to the
//! journal; the only threads are those that decode blocks during loading.
//!
//! Not here: when to take a checkpoint, and when to trim the journal.

use std::sync::Arc;

use vetch_journal::Tip;
use vetch_store::load::{History, Unversioned};
use vetch_store::{Mark, Record, Store};

mod builder;
mod checkpointer;
mod data_file;
mod directory;
mod error;
pub mod identity;
pub mod listing;
mod live_records;
mod manifest;
mod manifest_file;
mod merge;
mod pinned_tombstones;
mod pins;
mod plan;
mod published;
mod read_ahead;
mod read_back;
mod recovery;
pub mod replay;
mod run;
mod tombstone_gc;
pub mod transfer;

pub use builder::CheckpointBuilder;
pub use checkpointer::{Checkpointer, ScrubStep};
pub use error::{CheckpointError, Damage, LoadError};
pub use pins::{CheckpointFiles, CheckpointPins, PinnedCheckpoint};
pub use recovery::{audit, load};

/// Says for each of the given records whether the store still has it; see `Store::retains`.
pub type Retained<'a> = dyn Fn(&[Record]) -> Vec<bool> + 'a;

/// Whether a run must not pause: either the next run is due already, and with pauses the journal
/// would grow for as long as writers are faster, or a caller waits for the end of the run.
pub type ShouldHurry = Arc<dyn Fn() -> bool + Send + Sync>;

/// Limits of a run. The defaults suit a server; tests use tiny ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckpointConfig {
    /// Bytes of old files that one run reads for rewriting. A single larger file is still
    /// rewritten, alone.
    pub rewrite_bytes: u64,
    /// Bytes that may be rewritten however small the store is.
    pub rewrite_floor: u64,
    /// Smaller files count as this size when merges are planned, so that tiny ones are merged
    /// freely.
    pub small_file: u64,
    /// Above this count, files are merged even where it does not pay.
    pub max_files: usize,
    /// A block of records is closed at about this size.
    pub block_bytes: usize,
}

impl Default for CheckpointConfig {
    fn default() -> CheckpointConfig {
        CheckpointConfig {
            rewrite_bytes: 256 << 20,
            rewrite_floor: 8 << 20,
            small_file: 1 << 20,
            max_files: 48,
            block_bytes: 128 << 10,
        }
    }
}

/// The state at one journal entry, captured with the store locked.
pub struct Capture {
    pub mark: Mark,
    /// The compaction that was carried out in full, if the store has no garbage now.
    pub swept: Option<i64>,
    /// The journal's tip that leads to exactly this state.
    pub tip: Tip,
    /// The position of the record that made the tip, in a shared journal; 0 in a local one.
    pub position: u64,
    pub unversioned: Unversioned,
    /// Every version and tombstone since the last capture, or since the loaded checkpoint, in any
    /// order.
    pub dirty: Vec<Record>,
}

impl Capture {
    /// Captures `store` at head; `tip` is the tip after the entry that holds its last change.
    pub fn at_head(store: &Store, tip: Tip, dirty: Vec<Record>) -> Capture {
        let swept = (!store.has_garbage()).then(|| store.visible().compact_revision);
        Capture { mark: store.head(), swept, tip, position: 0, unversioned: store.unversioned(), dirty }
    }
}

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RunReport {
    /// The number of the published manifest.
    pub number: u64,
    /// New records since the checkpoint before, written or already superseded.
    pub new_records: u64,
    /// Old files that were replaced, and their bytes.
    pub rewritten_files: usize,
    pub rewritten_bytes: u64,
    /// Bytes written, manifest included.
    pub written_bytes: u64,
    /// Data files of the new checkpoint, and their bytes.
    pub files: usize,
    pub file_bytes: u64,
    /// Bytes of records in them that are still retained.
    pub live_bytes: u64,
    /// Old files that were found damaged when they were to be rewritten. They stay as they are; a
    /// restart would refuse them.
    pub damaged: Vec<Damage>,
    /// Why unneeded files could not be removed; the next run tries again.
    pub leftovers: Option<String>,
}

/// The outcome of loading.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LoadReport {
    /// The manifest that was loaded; none in a fresh directory.
    pub number: Option<u64>,
    /// Why a newer checkpoint was skipped, if one was.
    pub fell_back: Option<String>,
    pub files: usize,
    pub records: u64,
    pub bytes: u64,
    /// Files of unfinished runs that were removed.
    pub removed: Vec<String>,
    /// Anything else worth logging.
    pub notes: Vec<String>,
}

/// The state a directory holds, and the checkpointer that continues it.
pub struct Loaded {
    pub store: Store,
    /// The events from the compaction on, oldest first.
    pub history: History,
    /// Where replay of the journal begins.
    pub tip: Tip,
    /// The position of that in a shared journal; 0 in a local one.
    pub position: u64,
    pub mark: Mark,
    pub checkpointer: Checkpointer,
    pub report: LoadReport,
}
