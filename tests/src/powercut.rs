//! The power-cut trial: the server runs on a real file system whose power is cut under load, again
//! and again, and nothing it ever acknowledged is lost.
//!
//! The file system is ext4 in a file, and the cut is its own shutdown call: what was not synced
//! never reaches the image. kill -9 proves nothing of the kind, because the kernel keeps what a
//! dead process has written.
//!
//! A copy of a mount in another mount namespace keeps the file system alive behind its unmounting,
//! shut down as it is. So the trial has a mount namespace of its own, while others are made and
//! left outside of it all the time.
//!
//! `--expect-loss` tests the trial: a server that does not sync must be found out.

mod namespace;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};

use crate::fault_trial::FaultTrial;
use crate::faults::{SMALL_STORAGE, strace};
use crate::mount::Mount;
use crate::record::Plan;
use crate::server::{Kind, Options};

/// Cut the power of the server's file system under load, and judge what it remembers.
#[derive(Args, Debug)]
pub(crate) struct PowerCut {
    #[arg(long, default_value = "vetch")]
    server: Kind,
    #[arg(long, env = "VETCH_POWER_CUTS", default_value_t = 5)]
    cuts: usize,
    /// Decides when the power goes and what is asked.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Deceive the server about what is durable; the trial passes if it notices what that costs.
    #[arg(long, value_enum)]
    expect_loss: Option<Deception>,
    /// Further flags for the server.
    #[arg(last = true)]
    flags: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Deception {
    /// The server runs without syncs.
    NoSync,
    /// The server syncs, and the calls do nothing.
    LyingDisk,
}

/// How the file system is mounted, in turn.
const OPTIONS: [&str; 4] =
    ["data=ordered", "data=writeback", "data=ordered,commit=1", "data=writeback,commit=300,noauto_da_alloc"];

impl PowerCut {
    pub(crate) async fn run(&self) -> Result<()> {
        if !namespace::is_own() {
            return namespace::run_in_own();
        }
        println!("powercut: {} cuts under {}, seed {}", self.cuts, self.server.name(), self.seed);
        let begun = Instant::now();
        let mut mount = Mount::ext4(2_048, OPTIONS[0])?;
        let mut flags = self.flags.clone();
        if self.expect_loss == Some(Deception::NoSync) {
            flags.push("--unsafe-no-fsync".to_owned());
        }
        // A deceived server shall lose writes, not find its files damaged; so it makes no new
        // files.
        if self.server == Kind::Vetch && self.expect_loss.is_none() && !self.seed.is_multiple_of(4) {
            flags.extend(SMALL_STORAGE.map(str::to_owned));
        }
        let options = Options { flags, data_dir: Some(mount.path().join("data")) };
        let plan = Plan { request_timeout: Duration::from_millis(2_000), ..Plan::new(self.seed) };
        let mut trial = FaultTrial::start("powercut", self.server, options, plan).await?;
        trial.must_fail = self.expect_loss.is_some();
        let result = self.cut_again_and_again(&mut trial, &mut mount).await;
        let conclusion = trial.conclude(result).await;
        let seconds = begun.elapsed().as_secs_f64();
        if let Some(deception) = self.expect_loss {
            let first = conclusion.violations.first();
            let first =
                first.with_context(|| format!("{deception:?} was not noticed: this trial proves nothing"))?;
            println!("powercut: {deception:?} was noticed: {first}; {seconds:.1}s");
            return Ok(());
        }
        let acknowledged = conclusion.passed().with_context(|| self.again())?.acknowledged;
        println!(
            "powercut: {} cuts, {acknowledged} writes acknowledged, none lost; {seconds:.1}s",
            self.cuts
        );
        Ok(())
    }

    fn again(&self) -> String {
        let PowerCut { cuts, seed, .. } = self;
        format!("again: vetch-tests powercut --server {} --cuts {cuts} --seed {seed}", self.server.name())
    }

    fn wrapper(&self) -> Vec<String> {
        match self.expect_loss {
            Some(Deception::LyingDisk) => strace::wrapper("fsync,fdatasync,sync_file_range", "retval=0"),
            _ => Vec::new(),
        }
    }

    async fn cut_again_and_again(&self, trial: &mut FaultTrial, mount: &mut Mount) -> Result<()> {
        if self.expect_loss == Some(Deception::LyingDisk) {
            strace::require()?;
            trial.server.kill()?;
            trial.server.run_under(&self.wrapper())?;
        }
        for cut in 1..=self.cuts {
            if self.expect_loss.is_some() {
                mount.sync()?;
            }
            let done = trial.work(300, 1_800, 20).await?;
            mount.cut()?;
            self.end_server(trial)?;
            mount.unmount()?;
            let options = OPTIONS[cut % OPTIONS.len()];
            mount.mount(options)?;
            let start = trial.server.run_under(&self.wrapper())?;
            println!("  cut {cut}: after {done} writes, back in {} ms on {options}", start.as_millis());
        }
        trial.work(300, 400, 20).await.map(drop)
    }

    /// Without its disk the server has to give up by itself, unless it never asks for a sync.
    fn end_server(&self, trial: &mut FaultTrial) -> Result<()> {
        let deceived = self.expect_loss.is_some() || self.server == Kind::Etcd;
        if deceived || trial.rng.percent(50) {
            return trial.server.kill();
        }
        let status = trial.server.wait_exit(Duration::from_secs(10)).context("its disk is gone")?;
        ensure!(status.code() == Some(1), "without its disk it ended with {status}");
        let log = trial.server.log_of_this_life()?;
        ensure!(!log.contains("panicked"), "it panicked:\n{}", trial.server.log_tail()?);
        Ok(())
    }
}
