//! The journal: the one durable, ordered truth. Everything else is rebuilt from it.
//!
//! * `entry`: the format of an entry, and the chain (`Tip`) that ties entries together. Pure.
//! * `contract`: what is asked of any engine: claim, append, read, trim.
//! * `local`: the embedded engine, segment files in a directory.
//! * `disk`, `real_disk`, `mem_disk`: the files underneath, real ones and ones that lose power on request.
//!
//! Guarantees: an append that answered `Ok` survives power loss; entries are read back in order, without gaps,
//! each one proven to follow the one before it; damage is refused with file and offset, never guessed around.
//!
//! Not here: keys, transactions, threads, logging, metrics. Payloads are opaque bytes; the caller owns the
//! thread; what was repaired and how long a sync took is returned as plain data.
//!
//! docs/format.md draws every byte that is written.

mod contract;
mod disk;
mod entry;
mod local;
mod mem_disk;
mod real_disk;

pub use contract::{Appended, Corrupt, Journal, JournalError, Position, Read, ReadItem};
pub use disk::{DirLock, Disk, DiskFile, LockError, read_file, write_atomically};
pub use entry::{
    ChainError, Draft, ENTRY_HEADER_LEN, ENTRY_VERSION, Entry, EntryError, Hash, Kind, MAX_ENTRY_LEN,
    PART_HEADER_LEN, Part, PartId, Payload, PayloadRef, REF_LEN, Sealed, Tip, hash_entry,
};
pub use local::{
    CutTail, LocalConfig, LocalJournal, LocalReader, Maintained, Maintenance, Progress, RECORD_HEADER_LEN,
    RECORD_VERSION, Recovery, RecoveryReport, SECTOR, Stats,
};
pub use mem_disk::{Fault, MemDisk, Op, Pending};
pub use real_disk::RealDisk;
