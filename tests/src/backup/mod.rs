//! Backups of a loaded server that is killed again and again, to a directory and to a real
//! S3-compatible server, and the way back: what is restored must be, in everything a client can
//! see, what the specification says about that revision.
//!
//! Besides: a store that is away for a while, uploads that are torn by a kill, gaps, flipped bits
//! in any object, pruning, a second server on a copy of the data.

mod compare;
mod gateway;
mod history;
mod load;
mod scenarios;
mod store;
mod tools;

use anyhow::Result;
use clap::Args;

use vetch_testkit::random::Rng;

/// Back up a loaded server while it is killed, restore at random points, compare with the
/// specification.
#[derive(Args)]
pub(crate) struct Backup {
    /// Where a run begins; the same seed asks for the same things.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Lives of the server, each ended by kill -9, for each kind of store.
    #[arg(long, default_value_t = 4)]
    lives: usize,
    /// Restores compared with the specification, for each kind of store.
    #[arg(long, default_value_t = 6)]
    restores: usize,
    /// Only plays of these names, separated by commas: directory, bucket, gap, torn, copy.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
}

impl Backup {
    pub(crate) async fn run(self) -> Result<()> {
        let mut rng = Rng::split_mix(self.seed);
        let wanted = |name: &str| self.only.is_empty() || self.only.iter().any(|only| only == name);
        if wanted("directory") {
            scenarios::past(store::Store::directory()?, &mut rng, self.lives, self.restores).await?;
        }
        if wanted("bucket") {
            scenarios::past(store::Store::bucket()?, &mut rng, self.lives, self.restores).await?;
        }
        if wanted("gap") {
            scenarios::gap(&mut rng).await?;
        }
        if wanted("torn") {
            scenarios::torn(&mut rng).await?;
        }
        if wanted("copy") {
            scenarios::copy(&mut rng).await?;
        }
        println!("backup: passed with seed {}", self.seed);
        Ok(())
    }
}
