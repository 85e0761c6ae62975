//! The simulation: the shipped node on a simulated disk, in virtual time, with simulated clients,
//! all from one seed.
//!
//! * `time`, `fiber`, `executor`: the scheduler. One thread runs at a time, in an order that the
//!   seed chooses.
//! * `disk`: a disk with latency, that tears writes, forgets what was not synced, fills up and
//!   fails.
//! * `workload`, `client`, `watcher`, `recorder`: what clients request, and what they saw.
//! * `operator`, `users`: requests of operators, and users whose permissions change while they use
//!   them.
//! * `nemesis`, `world`, `run`: runs of the server, with faults during and between them; then
//!   recovery and the verdict.
//! * `log`: the cluster protocol alone, on a log in memory that misbehaves.
//! * `raft`: the members of built-in replication alone, on model disks.
//! * `cluster`: several servers on a shared log, with faults in it and between them.
//! * `coverage`: rare events that must really have happened.
//!
//! The same seed gives the same run, to the byte of its trace. Nothing here knows the inside of the
//! node: it is stepped, called and killed, and only its disk survives it.
//!
//! Not here: gRPC and real files. Trials of the real process are in `tests`.

mod client;
pub mod cluster;
pub mod coverage;
pub mod disk;
mod env;
pub mod executor;
pub mod fiber;
mod judge;
mod keys;
mod knowledge;
pub mod log;
mod nemesis;
mod operator;
mod part;
mod plan;
pub mod raft;
mod recorder;
pub mod run;
mod show;
pub mod time;
pub mod trace;
mod translate;
mod users;
pub mod watchdog;
mod watcher;
mod workload;
mod world;

pub use run::{Report, run};
