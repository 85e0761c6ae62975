//! The faults trial: a real server under a mixed load, one thing after another going wrong, and the
//! verdict on all responses that its clients got.
//!
//! Each case breaks one thing, several times, on one history; then everything heals, and `ground`
//! judges. The storage of the server is made small, so that files are finished, replaced and
//! removed all the time. A case in which the fault was never hit fails.

mod limits;
mod process;
mod slow_disk;
pub(crate) mod strace;

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};

use crate::fault_trial::FaultTrial;
use crate::record::Plan;
use crate::server::{Kind, Options};

/// Break things beneath a loaded server, heal them, and check all responses that its clients got.
#[derive(Args, Debug)]
pub(crate) struct Faults {
    #[arg(long, default_value = "vetch")]
    server: Kind,
    /// Only these cases; all without it.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Case>,
    /// How often the fault happens; every case has a number of its own.
    #[arg(long)]
    rounds: Option<usize>,
    /// Decides what goes wrong when, and what is asked; a run is never quite the same twice.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Further flags for the server.
    #[arg(last = true)]
    flags: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Case {
    /// kill -9 at random moments.
    Kill,
    /// SIGTERM at random moments; how process and streams end is checked too.
    Term,
    /// SIGSTOP for one to five seconds, longer than requests wait and short leases last.
    Pause,
    /// One processor, and the process stopped for moments all the time.
    OneCpu,
    /// A sync fails: the process must stop, saying why.
    SyncError,
    /// A write fails.
    WriteError,
    /// A write finds no space.
    WriteNoSpace,
    /// A sync of a directory fails.
    DirectorySyncError,
    /// Killed exactly at a sync of data.
    KillAtSync,
    /// Killed exactly at a write.
    KillAtWrite,
    /// Killed exactly when a file gets its final name.
    KillAtRename,
    /// Killed exactly at a sync of a file or directory as a whole.
    KillAtDirectorySync,
    /// Killed exactly when a file is removed.
    KillAtRemove,
    /// Syncs of a second, forty writers, compactions five times a second, then kill -9: a
    /// checkpoint captured before a compaction is still waiting for the journal while the
    /// compaction wants to free what it holds.
    SlowDisk,
    /// More connections than descriptors, and then no descriptor to spare at all.
    Descriptors,
    /// The disk fills up and has room again.
    DiskFull,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.to_possible_value().as_ref().map_or("?", |value| value.get_name()))
    }
}

/// What makes files small, so that every second sees many of them come and go.
pub(crate) const SMALL_STORAGE: [&str; 3] =
    ["--journal-segment-bytes=262144", "--checkpoint-bytes=131072", "--checkpoint-interval=1s"];

impl Faults {
    pub(crate) async fn run(&self) -> Result<()> {
        let cases = match self.only.as_slice() {
            [] => Case::value_variants(),
            only => only,
        };
        println!("faults: {} cases on {}, seed {}", cases.len(), self.server.name(), self.seed);
        let begun = Instant::now();
        let mut failed = Vec::new();
        for case in cases {
            println!("{case}:");
            if let Err(error) = self.one(*case).await {
                println!("  FAILED: {error:#}");
                println!(
                    "  again: vetch-tests faults --server {} --only {case} --seed {}",
                    self.server.name(),
                    self.seed
                );
                failed.push(case.to_string());
            }
        }
        println!("faults: {:.1}s", begun.elapsed().as_secs_f64());
        ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
        println!("faults: nothing lost, invented, repeated or out of order");
        Ok(())
    }

    async fn one(&self, case: Case) -> Result<()> {
        let rounds = |usual| self.rounds.unwrap_or(usual);
        match case {
            Case::Kill => self.on_ground(case, async |trial| process::kill(trial, rounds(10)).await).await,
            Case::Term => process::term(self, rounds(3)).await,
            Case::Pause => self.on_ground(case, async |trial| process::pause(trial, rounds(3)).await).await,
            Case::OneCpu => {
                self.on_ground(case, async |trial| process::one_cpu(trial, rounds(60)).await).await
            }
            Case::SlowDisk => slow_disk::run(self, rounds(1)).await,
            Case::Descriptors => limits::descriptors(self, rounds(2)).await,
            Case::DiskFull => limits::disk_full(self, rounds(2)).await,
            _ => {
                let injection = strace::Injection::of(case);
                self.on_ground(case, async |trial| strace::run(trial, &injection, rounds(4)).await).await
            }
        }
    }

    /// Runs a case on a fresh server with the usual load.
    async fn on_ground(
        &self,
        case: Case,
        act: impl AsyncFnOnce(&mut FaultTrial) -> Result<()>,
    ) -> Result<()> {
        let mut trial = self.trial(case, Plan::new(self.seed)).await?;
        let result = act(&mut trial).await;
        trial.conclude(result).await.passed().map(drop)
    }

    async fn trial(&self, case: Case, plan: Plan) -> Result<FaultTrial> {
        FaultTrial::start(&case.to_string(), self.server, self.options(), plan).await
    }

    fn options(&self) -> Options {
        let small = match self.server {
            Kind::Vetch => SMALL_STORAGE.as_slice(),
            Kind::Etcd => &[],
        };
        let flags = small.iter().map(|flag| (*flag).to_owned()).chain(self.flags.iter().cloned());
        Options { flags: flags.collect(), data_dir: None }
    }
}

/// A moment in which nothing happens.
async fn rest(millis: i64) {
    tokio::time::sleep(Duration::from_millis(millis.unsigned_abs())).await;
}
