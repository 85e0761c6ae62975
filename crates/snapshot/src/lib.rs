//! Snapshots: Vetch's state as the file that etcd's tools know, and back.
//!
//! * [`Export`] turns the state of a running node into a snapshot, piece by piece, as a client
//!   takes it.
//! * [`status`](mod@status) inspects a snapshot as `etcdutl snapshot status` does.
//! * [`restore`](mod@restore) makes a data directory of Vetch from a snapshot or from the data
//!   directory of an etcd.
//!
//! A snapshot is a bbolt file (see `vetch_bolt`) with the buckets of an etcd (see `schema`), and
//! behind it the SHA-256 of all of it. An export walks the versions that the store holds anyway, an
//! import sorts a bounded piece at a time; only if the log of a killed etcd is to be replayed
//! ([`wal`], [`replay`]) is the state ever in memory.
//!
//! Not here: gRPC, flags, output for people.

mod contents;
mod etcd_dir;
mod export;
mod file;
mod import;
mod member;
mod messages;
pub mod replay;
pub mod restore;
mod schema;
pub mod status;
pub mod wal;

pub use export::Export;
pub use file::SnapshotError;
pub use member::Member;
