//! The slow disk: every sync takes up to more than a second, many clients write large values and
//! delete them, compaction follows at their heels, and then the process is killed.
//!
//! The shape is that of a mistake once made: a checkpoint waits until the journal has made durable
//! what it captured, and on such a disk it waits for long. Had compaction freed versions meanwhile,
//! the checkpoint would have missed them.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::strace;
use super::{Case, Faults};
use crate::record::Plan;

pub(super) async fn run(faults: &Faults, rounds: usize) -> Result<()> {
    strace::require()?;
    let plan = Plan {
        key_clients: 40,
        lease_clients: 1,
        watchers: 2,
        keys: 160,
        pause: Duration::ZERO,
        request_timeout: Duration::from_secs(30),
        compact_every: Some(Duration::from_millis(200)),
        compact_behind: 0,
        only_writes: true,
        large_percent: 100,
        large_bytes: 150_000,
        ..Plan::new(faults.seed)
    };
    let mut options = faults.options();
    // One checkpoint after the other, so that there is always one that waits; its size needs no
    // small journal.
    options.flags.retain(|flag| !super::SMALL_STORAGE.contains(&flag.as_str()));
    let flags = ["--checkpoint-bytes=1048576", "--checkpoint-interval=1s", "--log-level=debug"];
    options.flags.extend(flags.map(str::to_owned));
    let name = Case::SlowDisk.to_string();
    let mut trial = crate::fault_trial::FaultTrial::start(&name, faults.server, options, plan).await?;
    let result = async {
        for round in 1..=rounds {
            trial.server.kill()?;
            let delay = trial.rng.between(200, 1_200);
            let wrapper = strace::wrapper("fdatasync", &format!("delay_enter={}:when=12+", delay * 1_000));
            trial.server.run_under(&wrapper)?;
            let done = trial.work(9_000, 11_000, 100).await?;
            let checkpoints = trial.server.log_of_this_life()?.matches("checkpoint taken").count();
            trial.server.kill()?;
            println!(
                "  round {round}: syncs of {delay} ms, {done} writes, {checkpoints} checkpoints, killed"
            );
            ensure!(checkpoints > 0, "no checkpoint was taken, so nothing was tried");
            trial.server.run()?;
        }
        Ok(())
    };
    let result = result.await;
    trial.conclude(result).await.passed().map(drop)
}
