//! Checkpoints: the state on disk, so that recovery reads it once and replays only a short tail of
//! the journal.
//!
//! A checkpoint is a manifest and the immutable data files it names. Every data file covers an
//! interval of revisions, and the files of a checkpoint partition the revision space: what was
//! written since the last checkpoint becomes one new file, so a run costs what changed and not what
//! exists. Files that compaction has hollowed out are rewritten, and small neighbours are merged, a
//! bounded amount per run.
//!
//! Guarantees:
//! * After any crash or failed run, the directory holds the old checkpoint or the new one,
//!   entirely.
//! * The checkpoint before the newest stays readable, and the journal is needed from that one's tip
//!   on.
//! * Damage is found and named with file and offset; it is never read as state.
//!
//! Synchronous, and free of logging: what happened is returned as plain reports. All I/O goes
//! through `Disk`. The only clock is that of the pauses in which the journal has the disk to
//! itself; the only threads are the ones that decode blocks while loading.
//!
//! Not here: when to take a checkpoint, trimming the journal, and replaying it. docs/format.md
//! draws the bytes.

use std::sync::Arc;

use vetch_journal::Tip;
use vetch_store::load::{History, Unversioned};
use vetch_store::{Mark, Record, Store};

mod checkpointer;
mod data_file;
mod decode;
mod directory;
mod error;
mod graves;
mod holds;
mod import;
mod manifest;
mod merge;
pub mod offline;
mod plan;
mod read_back;
mod recovery;
mod run;
mod tally;

pub use checkpointer::{Checkpointer, Scrubbed};
pub(crate) use directory::are_files_of;
pub use error::{CheckpointError, Damage, LoadError};
pub use holds::{Files, Held, Holds};
pub use import::Import;
pub use recovery::{audit, load};

/// Says for each of the given records whether the store still has it; see `Store::retains`.
pub type Retained<'a> = dyn Fn(&[Record]) -> Vec<bool> + 'a;

/// Says whether so much was written meanwhile that the next run is due before this one has ended,
/// or somebody waits for its end. Then it makes no pauses: otherwise the journal would grow for as
/// long as writers are faster.
pub type Late = Arc<dyn Fn() -> bool + Send + Sync>;

/// Limits of a run. The defaults suit a server; tests make them tiny.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckpointConfig {
    /// Old files read for rewriting in one run, in bytes. A single larger file is still taken,
    /// alone.
    pub rewrite_bytes: u64,
    /// Up to this much is rewritten however small the store is.
    pub rewrite_floor: u64,
    /// Files below this size count as this size when merges are planned, so that tiny ones are
    /// merged freely.
    pub small_file: u64,
    /// More files than this are merged even where it does not pay.
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

/// The state at one journal entry, taken while the store stood still.
pub struct Capture {
    pub mark: Mark,
    /// The compaction that has been carried out in full, if the store can say so now.
    pub swept: Option<i64>,
    /// The journal's tip that leads to exactly this state.
    pub tip: Tip,
    /// Where the record lies that made the tip, in a shared journal; 0 for a local one.
    pub position: u64,
    pub unversioned: Unversioned,
    /// Every version and tombstone made since the last capture, or since the loaded checkpoint, in
    /// any order.
    pub dirty: Vec<Record>,
}

impl Capture {
    /// Captures `store` at head; `tip` is the tip after the entry that holds its last change.
    pub fn at_head(store: &Store, tip: Tip, dirty: Vec<Record>) -> Capture {
        let swept = (!store.has_garbage()).then(|| store.visible().compact_revision);
        Capture { mark: store.head(), swept, tip, position: 0, unversioned: store.unversioned(), dirty }
    }
}

/// What a run did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// The number of the manifest that was published.
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
    /// Old files found damaged while they were to be rewritten. They are left alone; a restart
    /// would refuse them.
    pub damaged: Vec<Damage>,
    /// Why files that nobody needs any more could not be removed; tried again by the next run.
    pub leftovers: Option<String>,
}

/// What loading did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LoadReport {
    /// The manifest that was used; none in a fresh directory.
    pub number: Option<u64>,
    /// Why a newer checkpoint was passed over, if one was.
    pub fell_back: Option<String>,
    pub files: usize,
    pub records: u64,
    pub bytes: u64,
    /// Files of unfinished runs that were removed.
    pub removed: Vec<String>,
    /// Anything else worth a line in the log.
    pub notes: Vec<String>,
}

/// The state a directory holds, and the checkpointer that continues it.
pub struct Loaded {
    pub store: Store,
    /// The events from the compaction on, oldest first.
    pub history: History,
    /// Where replay of the journal begins.
    pub tip: Tip,
    /// The same place in a shared journal; 0 in a local one.
    pub position: u64,
    pub mark: Mark,
    pub checkpointer: Checkpointer,
    pub report: LoadReport,
}
