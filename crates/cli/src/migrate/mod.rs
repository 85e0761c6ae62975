//! `vetch migrate`: from a running etcd to Vetch, without stopping either until the last moment.
//!
//! ```text
//!  copy     a snapshot of the etcd becomes the data directory, revisions and all
//!  follow   a watch over everything brings the rest, revision by revision; clients that come are forwarded to etcd
//!  verify   HashKV of both at the same revision, again and again
//!  cut over requests are held back, etcd is fenced, the last revisions arrive, both are compared: from here on Vetch answers
//! ```
//!
//! One thing at a time is the truth: etcd until the file [`marker`] says that the migration is
//! done, Vetch from then on. Whatever goes wrong before leaves etcd as it was, and the same command
//! goes on where it was interrupted.
//!
//! * `flags` is the command line, `run` the life of the process, `source` every call that is made
//!   to the etcd.
//! * `revisions` (pure) puts together what a watch tells; `follow` and `leases` hand it to the
//!   node.
//! * `monitor` looks after the rest and tells people, `verify` compares, `cut_over` is the
//!   change-over itself.

mod copy;
mod cut_over;
mod error;
mod flags;
mod follow;
mod leases;
pub(crate) mod marker;
mod monitor;
mod revisions;
mod run;
mod source;
mod verify;

pub(crate) use flags::run;
