//! Bugs that etcd has had, as tests: each is named after its issue there and fails if this server
//! had it too. And bugs of our own.
//!
//! They run the node's own parts step by step on a disk that loses power on request, so that the
//! moment that matters can be chosen. What they have in common with real processes and real disks
//! is shown by the trials in `tests`.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod crashes;
mod leases;
mod reads;
mod rot;
mod snapshots;
mod stepped_node;
mod watches;
