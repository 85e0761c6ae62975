//! Snapshots: Vetch's state as the file that etcd's tools know, and back.
//!
//! * [`Export`] turns the state of a running node into a snapshot, piece by piece, as a client takes it.
//! * [`status`](mod@status) looks at a snapshot as `etcdutl snapshot status` does.
//! * [`restore`](mod@restore) makes a data directory of Vetch from a snapshot or from the data directory of an etcd.
//!
//! A snapshot is a bbolt file (see `vetch_bolt`) with the buckets of an etcd (see `schema`), and behind it the SHA-256 of all
//! of it. None of this ever holds the state in memory: an export walks the versions that the store holds anyway, an import
//! sorts a bounded piece at a time.
//!
//! Not here: gRPC, flags, output for people.

mod contents;
mod etcd_dir;
mod export;
mod file;
mod import;
mod messages;
pub mod restore;
mod schema;
pub mod status;
mod wal;

pub use export::{Export, Member};
pub use file::SnapshotError;
