//! The cluster trial: three servers on one journal of three NATS servers, under a mixed load by way of all of them, one
//! thing after another going wrong, and the judgement of all that clients were told by whichever server.
//!
//! Every client stays with one server until that is of no use, and goes on at the next; watches go on behind the last
//! thing they were told, on another server. After each fault every server has to take a write again. In the end all have
//! to have the same state, each has to tell the whole story once more, and `crates/check` judges as for one server.
//! What a server may answer from its own state is judged as such: serializable reads, and where a watch from now on begins.

mod breaking;
mod journal;
mod members;

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use clap::{Args, ValueEnum};
use vetch_check::Hashed;

use crate::chance::Chance;
use crate::ground::{broken_promises, judge_history, save};
use crate::record::{Plan, Recorder};
use breaking::Fault;
use journal::Journal;
use members::Members;

/// For everything that is waited for.
const LIMIT: Duration = Duration::from_secs(60);

/// Break servers of a cluster, and of its journal, under load, and judge everything its clients were told.
#[derive(Args, Debug)]
pub(crate) struct Cluster {
    /// Only these faults; all without it.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Fault>,
    /// How often each fault happens.
    #[arg(long, default_value_t = 1)]
    rounds: usize,
    /// No further fault after this many seconds.
    #[arg(long, default_value_t = 600)]
    seconds: u64,
    /// Decides the order of faults, when they happen, and what is asked; a run is never quite the same twice.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Further flags for the servers.
    #[arg(last = true)]
    flags: Vec<String>,
}

/// Where faults happen.
struct Field {
    journal: Journal,
    members: Members,
    recorder: Recorder,
    chance: Chance,
    failovers: Vec<Duration>,
}

impl Cluster {
    pub(crate) async fn run(&self) -> Result<()> {
        println!("cluster: three servers on a journal of three, seed {}", self.seed);
        let begun = Instant::now();
        let mut field = self.field().await?;
        let result = match self.suffer(&mut field, begun).await {
            Ok(()) => field.close().await,
            failed => failed,
        };
        let result = field.judge(result);
        println!("cluster: {:.1}s", begun.elapsed().as_secs_f64());
        if result.is_err() {
            println!("  again: vetch-tests cluster --seed {} --rounds {}", self.seed, self.rounds);
        } else {
            println!("cluster: nothing lost, invented, repeated or out of order");
        }
        result
    }

    async fn field(&self) -> Result<Field> {
        let journal = Journal::start().await?;
        let members = Members::start(&journal.flags(), &self.flags)?;
        let plan = Plan { pause_after_failure: Duration::from_millis(200), ..Plan::new(self.seed) };
        members.writer().await?;
        let recorder = Recorder::start(members.endpoints(), plan).await?;
        Ok(Field { journal, members, recorder, chance: Chance::new(self.seed), failovers: Vec::new() })
    }

    async fn suffer(&self, field: &mut Field, begun: Instant) -> Result<()> {
        for _ in 0..self.rounds {
            let mut faults = match self.only.as_slice() {
                [] => Fault::value_variants().to_vec(),
                only => only.to_vec(),
            };
            while !faults.is_empty() {
                if begun.elapsed() > Duration::from_secs(self.seconds) {
                    return Ok(());
                }
                let fault = faults.swap_remove(field.chance.below(faults.len()));
                field.suffer(fault).await.map_err(|error| error.context(format!("fault {fault}")))?;
            }
        }
        field.work(20).await.map(drop)
    }
}

impl Field {
    /// Lets the load work for a moment, and until `least` writes were acknowledged: an idle run proves nothing.
    async fn work(&mut self, least: usize) -> Result<usize> {
        let before = self.recorder.acknowledged();
        self.rest(300, 900).await;
        self.writes_since(before, least, "writes before the next fault").await
    }

    async fn writes_since(&mut self, before: usize, least: usize, what: &str) -> Result<usize> {
        let begun = Instant::now();
        loop {
            let done = self.recorder.acknowledged() - before;
            if done >= least {
                return Ok(done);
            }
            self.members.all_run()?;
            ensure!(begun.elapsed() < LIMIT, "waited {LIMIT:?} for {what}: {done} of {least}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    async fn rest(&mut self, low: i64, high: i64) {
        let millis = self.chance.between(low, high).unsigned_abs();
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }

    /// Everything is well, and every server has the same.
    async fn close(&mut self) -> Result<()> {
        self.members.writer().await?;
        self.recorder.settle().await?;
        let hashes = self.recorder.hashes().await?;
        let state = |hashed: &Hashed| (hashed.revision, hashed.compact_revision, hashed.hash);
        ensure!(
            hashes.iter().all(|hashed| state(hashed) == state(&hashes[0])),
            "the servers have different states: {hashes:?}"
        );
        self.recorder.close().await?;
        self.members.all_run()
    }

    fn judge(&mut self, result: Result<()>) -> Result<()> {
        let recording = self.recorder.take();
        let judged = judge_history(&recording.history);
        let result = match (result, judged) {
            (Err(error), _) => Err(error),
            (Ok(()), Err(violations)) => Err(broken_promises(&violations)),
            (Ok(()), Ok(report)) if !report.finished => Err(anyhow!("the final state was not recorded")),
            (Ok(()), Ok(_)) if !recording.broken.is_empty() => {
                Err(anyhow!("clients saw what may not be: {:?}", recording.broken))
            }
            (Ok(()), Ok(_)) => Ok(()),
        };
        println!(
            "  {} writes acknowledged, requests failed with {:?}",
            recording.acknowledged, recording.failures
        );
        self.failovers.sort_unstable();
        if let (Some(median), Some(most)) =
            (self.failovers.get(self.failovers.len().saturating_sub(1) / 2), self.failovers.last())
        {
            let (count, median, most) = (self.failovers.len(), median.as_millis(), most.as_millis());
            println!(
                "  from the loss of the writer to a write by another one, of {count}: p50 {median} ms, max {most} ms"
            );
        }
        if result.is_err() {
            let journal = self.journal.keep_files().to_path_buf();
            let history = journal.join("history.jsonl");
            println!("  files are kept in {} and {:?}", journal.display(), self.members.keep_files());
            match save(&recording.history, &history) {
                Ok(()) => println!("  judge the history again: vetch-tests judge {}", history.display()),
                Err(error) => println!("  the history could not be saved: {error:#}"),
            }
        }
        result
    }
}
