//! The journal: the one durable, ordered truth. Everything else is rebuilt from it.
//!
//! * `entry`: the format of an entry, and the chain (`Tip`) that ties entries together. Pure.
//! * `contract`: what every engine must provide: claim, append, read, trim.
//! * `local`: the embedded engine, segment files in a directory.
//! * `vote`: what a member of several must not forget about elections.
//! * `disk`, `real_disk`, `mem_disk`: the files underneath, real ones and ones that lose power on
//!   request.
//!
//! Guarantees: an append that answered `Ok` survives power loss; entries are read back in order,
//! without gaps, each one proven to follow the one before it; damage is refused with file and
//! offset, never guessed around.
//!
//! Not here: keys, transactions, threads, logging, metrics. Payloads are opaque bytes; the caller
//! owns the thread; what was repaired and how long a sync took is returned as plain data.
//!
//! docs/format.md draws every byte that is written.
//!
//! ```
//! # use std::{path::Path, sync::Arc};
//! use vetch_journal::{Draft, Journal, Kind, LocalConfig, LocalJournal, MemDisk, PartId, Position, Tip};
//! # fn main() -> Result<(), vetch_journal::JournalError> {
//! // Recover: everything behind the checkpoint's tip; without a checkpoint, the first revision written is 2.
//! let dir = Path::new("/data/journal");
//! let start = Tip::genesis(2);
//! let mut recovery = LocalJournal::recover(Arc::new(MemDisk::new()), dir, LocalConfig::default(), start)?;
//! while let Some(item) = recovery.next_entry()? {
//!     // apply item.entry; item.tip is what a checkpoint taken here remembers
//! }
//! let (mut journal, report) = recovery.finish()?;
//! assert!(report.cut.is_none());
//!
//! // Write: claim, then chain entries on the tip, several ahead of the append if wished.
//! let mut tip = journal.claim()?;
//! let mut draft = Draft::new(Kind::Writes);
//! draft.begin_part(PartId { partition: 0, owner_epoch: tip.epoch.get(), pseq: 1 });
//! draft.payload().extend_from_slice(b"effects of two write units");
//! draft.end_part(2);
//! let entry = draft.chain(&mut tip);
//! assert_eq!((entry.base_rev(), tip.next_rev), (2, 4));
//! let appended = journal.append_batch(&[entry])?;
//!
//! // Beside it: a background thread prepares the next segment and removes retired ones.
//! let maintenance = journal.maintenance();
//! journal.retire(Position(appended.position.0 + 1))?;
//! maintenance.run()?;
//! # Ok(())
//! # }
//! ```

mod contract;
mod disk;
mod entry;
mod local;
mod mem_disk;
mod real_disk;
mod vote;

pub use contract::{Appended, Corrupt, Journal, JournalError, Position, Read, ReadItem};
pub use disk::{DirLock, Disk, DiskFile, LockError, read_file, write_atomically};
pub use entry::{
    ChainError, ChainedEntry, Draft, ENTRY_HEADER_LEN, ENTRY_VERSION, Entry, EntryError, Hash, Kind,
    MAX_ENTRY_LEN, PART_HEADER_LEN, Part, PartId, Payload, PayloadRef, REF_LEN, ReceiveError, Tip, entry_len,
    hash_entry,
};
pub use local::{
    BadRecord, ClosedSegment, Cut, CutTail, ENCRYPTED_RECORD_VERSION, EncodedEntry, EntriesError,
    EntriesFrom, EntryReader, LocalConfig, LocalJournal, LocalReader, Maintained, Maintenance, Progress,
    RECORD_HEADER_LEN, RECORD_VERSION, RawPlace, RawReader, RawRecord, RecordCheck, RecordSight, Recovery,
    RecoveryReport, SECTOR, SHARED_WRITE, Sight, Stats, closed_segments, survey,
};
pub use mem_disk::{Fault, MemDisk, Op, Pending};
pub use real_disk::RealDisk;
pub use vote::{Vote, VoteError, VoteFile, Voter};
