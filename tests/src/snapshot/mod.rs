//! The snapshot trial: etcd's data goes into Vetch and comes out again, by snapshots and by data
//! directories.
//!
//! What is compared on both sides is everything a client can ask for: the keys at every revision
//! that can still be read, all events since the compaction with their previous values, HashKV at
//! each of these revisions, leases with their keys, users and roles. The tools on the way are
//! etcd's own wherever there are any.

mod cluster;
pub(crate) mod content;
pub(crate) mod image;
mod killed;
mod large;
mod load;
mod tools;
mod ways;

use anyhow::Result;
use clap::Args;

/// Take etcd's data into Vetch and out again, and compare everything.
#[derive(Args, Debug)]
pub(crate) struct Snapshot {
    /// Only the figures of a large store: how long, how much memory, how slow writers get.
    #[arg(long)]
    large: bool,
    /// Keys of the large store.
    #[arg(long, default_value_t = 1_000_000)]
    keys: usize,
    #[arg(long, default_value_t = 1_024)]
    value_bytes: usize,
    /// Only etcds that are killed under load, and whose logs Vetch takes over.
    #[arg(long)]
    killed: bool,
    /// How many of them.
    #[arg(long, default_value_t = 8)]
    rounds: u64,
    /// The first of as many seeds.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Snapshot {
    pub(crate) async fn run(&self) -> Result<()> {
        if self.large {
            return large::run(self.keys, self.value_bytes).await;
        }
        if !self.killed {
            ways::run().await?;
        }
        killed::run(self.rounds, self.seed).await?;
        cluster::with_an_old_database().await?;
        cluster::killed_at_once().await
    }
}
