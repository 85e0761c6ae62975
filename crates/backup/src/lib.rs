//! Backups: a copy of a node's checkpoints and journal elsewhere, kept up to date while it runs,
//! and the way back to any revision or time in it.
//!
//! * `format`: what lies in a backup, as values and as bytes. Pure.
//! * [`catalog`]: which points a backup can restore, and what each needs. Pure, but for reading it
//!   in.
//! * [`location`], [`depot`]: a directory or a bucket, and the few things asked of it.
//! * [`archiver`]: the thread beside a running node that ships what is durable, and full backups
//!   now and then.
//! * [`restore`](mod@restore), [`verify`](mod@verify), [`prune`](mod@prune): what is done with a
//!   backup later.
//!
//! Checkpoint files and journal records are copied as they are: nothing is decoded that need not
//! be, so what is encrypted at rest stays so here. Everything in a backup is written once, named so
//! that two writers cannot both have their way, and carries a hash of all its bytes.
//!
//! Guarantees: a restore gives exactly the state after the revision or the entry that was asked
//! for, or is refused with the ranges that can be had. A backup that fails, or falls behind, never
//! stops the node.
//!
//! Not here: flags, output for people. docs/backup.md draws the objects.

pub mod archiver;
pub mod catalog;
pub mod depot;
mod error;
pub mod format;
pub mod location;
pub mod prune;
pub mod restore;
pub mod times;
pub mod verify;

pub use error::BackupError;
pub use location::Location;
