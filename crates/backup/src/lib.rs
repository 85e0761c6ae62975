//! Backups: a copy of a node's checkpoints and journal elsewhere, kept up to date while it runs,
//! and the way back to any revision or time in it.
//!
//! * `format`: the objects of a backup, as values and as bytes. Pure.
//! * [`catalog`]: which points a backup can restore, and what each needs. Pure, but for reading it
//!   in.
//! * [`location`], [`depot`]: a directory or a bucket, and the few operations on it.
//! * [`archiver`]: the thread beside a running node that ships what is durable, and full backups at
//!   an interval.
//! * [`restore`](mod@restore), [`verify`](mod@verify), [`prune`](mod@prune): the commands that work
//!   on a backup.
//!
//! Checkpoint files and journal records are copied without decoding them where possible, so data
//! that is encrypted at rest stays encrypted in the backup. Every object is written once, under a
//! name for which two writers conflict, and carries a hash of all its bytes.
//!
//! Guarantees: a restore gives exactly the state after the requested revision or time, or is
//! refused with the ranges that can be restored. A backup that fails or falls behind never stops
//! the node.
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
