//! `vetch migrate`: from a running etcd to Vetch, without stopping either until the last moment.
//!
//! ```text
//!  copy     a snapshot of the etcd becomes the data directory, revisions and all
//!  follow   a watch over everything brings the rest, revision by revision; clients that come are forwarded to etcd
//!  verify   HashKV of both at the same revision, again and again
//!  cut over requests are held back, etcd is fenced, the last revisions arrive, both are compared: from here on Vetch answers
//! ```
//!
//! There is one source of truth at a time: etcd until `migration_dir` says that the migration is
//! done, Vetch from then on. A failure before that leaves etcd as it was, and the same command
//! continues where it was interrupted.
//!
//! * `command` and `flags` are the command line, `run` the life of the process, `source` every call
//!   to the etcd.
//! * `revisions` (pure) assembles the events of a watch; `follow` and `leases` apply them to the
//!   node.
//! * `monitor` polls and reports, `verify` compares, `cut_over` is the cut-over itself.

mod command;
mod copy;
mod cut_over;
mod error;
mod flags;
mod follow;
mod leases;
mod monitor;
mod revisions;
mod run;
mod services;
mod source;
mod verify;

pub(crate) use command::run;
