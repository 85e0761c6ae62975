//! The migration trial: a running etcd moves to Vetch under writers that do not stop.
//!
//! Four plays. *Quiet*: nothing is written meanwhile, so everything clients can see must be the
//! same on both sides, users and roles included. *Live*: writers, leases, deletes and compactions
//! go on, the migrating process is killed on the way, and the cut-over happens beneath the writers.
//! *Torn*: it is killed in the cut-over itself, again and again. *Lost*: it cannot hear the etcd in
//! the middle of it. In all but the first every acknowledged write must be there exactly once, at
//! the revision it was acknowledged with.

mod live;
mod lost;
mod process;
mod quiet;
mod relay;
mod torn;
mod watch_check;
mod writers;

use std::time::Duration;

use anyhow::Result;
use clap::Args;

/// From a running etcd to Vetch: nothing lost, nothing doubled, and how long clients have to wait.
#[derive(Args)]
pub(crate) struct Migrate {
    /// Only these plays: quiet, live, torn, lost.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// The longest that a writer may have to wait at the cut-over, in milliseconds.
    #[arg(long, default_value_t = 1000)]
    most_pause: u64,
    /// Cut-overs that are interrupted by a kill.
    #[arg(long, default_value_t = 6)]
    kills: usize,
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Migrate {
    pub(crate) async fn run(self) -> Result<()> {
        let wanted = |play: &str| self.only.is_empty() || self.only.iter().any(|only| only == play);
        if wanted("quiet") {
            quiet::run().await?;
        }
        if wanted("live") {
            live::run(self.seed, Duration::from_millis(self.most_pause)).await?;
        }
        if wanted("torn") {
            torn::run(self.seed, self.kills).await?;
        }
        if wanted("lost") {
            lost::run(self.seed).await?;
        }
        Ok(())
    }
}
