//! The journal on real NATS servers: three processes on loopback that sync before they acknowledge.
//! `scripts/test nats` runs it; without nats-server (`scripts/nats.sh`) nothing here can run, so
//! the tests are not among the usual ones.

mod cluster;
mod faults;
mod replica_threads;
mod speed;
mod suite;
