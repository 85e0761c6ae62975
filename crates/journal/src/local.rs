//! LocalJournal: the embedded engine. Segment files in one directory, one record per append, one
//! sync per record.
//!
//! ```text
//! <dir>/LOCK                        held while a writer is open
//! <dir>/0000000000000001.journal    full; entries 1..=957
//! <dir>/00000000000003be.journal    active; entries from 958; zeros behind the last record
//! <dir>/spare-3.tmp                 the next segment, zeroed and synced ahead of time
//! ```
//!
//! Invariants, on which recovery rests:
//! * A segment is written full of zeros and synced before it gets its name, so an append changes no
//!   metadata.
//! * A record starts on a sector boundary and owns its sectors; a committed byte is never changed.
//!   On one member a synced byte is a committed one. A member of several may have to `cut` from the
//!   end what was not committed, so there an entry is alone in its record until it is.
//! * At most one write is unsynced at any time: one record, or several whose headers say so, or the
//!   zeros over records of one write that are being cut.
//!
//! So after a power loss every sector is as acknowledged, or zero, or part of the one write behind
//! the end; what else is found is damage and is refused (`tail` has the argument). A failed write
//! or sync poisons the writer for good, because nothing can be learnt from the page cache after
//! that.
//!
//! Records may be encrypted (`encryption`). What is checksummed are the bytes as written, so all of
//! this is judged without a key. A change of keys begins a new segment: all records of one are
//! encrypted with the same key, or none is.
//!
//! Life: `LocalJournal::recover` -> `Recovery` (stream of entries) -> `finish` -> `LocalJournal` ->
//! `claim` -> appends. Of a member of several: `append_replicated`, `cut` and `begin_at` instead of
//! `claim` and `append_batch`; `entries` reads beside either.

mod begin;
mod encryption;
mod entries;
mod header;
mod maintenance;
mod open_segment;
mod published;
mod raw;
mod record;
mod recovery;
mod scan;
mod segment;
mod survey;
mod tail;
mod writer;

#[cfg(test)]
mod tests;

pub use entries::{EncodedEntry, EntriesError, EntriesFrom, EntryReader};
pub use header::{ENCRYPTED_RECORD_VERSION, RECORD_HEADER_LEN, RECORD_VERSION, SECTOR, SHARED_WRITE};
pub use maintenance::{Maintained, Maintenance};
pub use raw::{BadRecord, ClosedSegment, RawPlace, RawReader, RawRecord, RecordCheck, closed_segments};
pub use recovery::{CutTail, LocalReader, Recovery, RecoveryReport};
pub use scan::Progress;
pub use survey::{RecordSight, Sight, survey};
pub use writer::{Cut, LocalJournal, Stats};

use vetch_encryption::EncryptionKeys;

/// Settings of the local engine.
#[derive(Clone, Debug)]
pub struct LocalConfig {
    /// Length of a segment file; rounded up to whole sectors. A larger record gets a segment of its
    /// own size.
    pub segment_len: u64,
    /// Segments kept ready ahead of need.
    pub spares: usize,
    /// Answers appends before they are durable. Power loss then loses acknowledged writes; for
    /// tests only.
    pub unsafe_no_fsync: bool,
    /// Identity of a journal made anew; random when not given. Records of another journal are never
    /// taken for ours.
    pub new_journal_id: Option<u64>,
    /// Encrypt new records and open old ones.
    pub keys: EncryptionKeys,
    /// Bytes of recent entries that are kept in memory for readers, once the journal has several
    /// members.
    pub recent_bytes: u64,
}

impl Default for LocalConfig {
    fn default() -> LocalConfig {
        LocalConfig {
            segment_len: 64 << 20,
            spares: 1,
            unsafe_no_fsync: false,
            new_journal_id: None,
            keys: EncryptionKeys::none(),
            recent_bytes: 16 << 20,
        }
    }
}
