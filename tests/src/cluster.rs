//! The cluster trial: three servers on one journal of three NATS servers, each on a host of its own
//! in a network that can be cut, under a mixed load by way of all of them; one thing after another
//! going wrong, and the verdict on all responses, of all servers.
//!
//! Every client stays with one server until that is of no use, and goes on at the next; watches go
//! on behind the last response they got, on another server. After each fault every server has to
//! take a write again. In the end all have to have the same state, each has to tell the whole story
//! once more, and `crates/check` judges as for one server. What a server may answer from its own
//! state is judged as such: serializable reads, and where a watch from now on begins.

mod as_one;
mod breaking;
mod network;
mod outage;
mod partitions;
mod processes;
mod times;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, bail, ensure};
use clap::{Args, ValueEnum};
use vetch_check::Hashed;
use vetch_testkit::random::Rng;

use crate::fault_trial::{broken_promises, save};
use crate::record::{Plan, Recorder, Recording};
use crate::replicas::members::Members;
use crate::replicas::nats::Journal;
use breaking::Fault;
use network::{Host, JOURNAL, Network, SERVERS};
use times::Times;

/// For everything that is waited for.
const LIMIT: Duration = Duration::from_secs(60);
/// How often a client asks whether its connection still leads anywhere.
const KEEP_ALIVE: Duration = Duration::from_secs(1);

/// Break servers of a cluster, its journal and the network between them under load, and judge
/// all responses that its clients got.
#[derive(Args, Debug)]
pub(crate) struct Cluster {
    /// Only these faults; all without it.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Fault>,
    /// How often each fault happens.
    #[arg(long, default_value_t = 1)]
    rounds: usize,
    /// Many short runs instead of one, each of a new cluster and with faults of its own, which its
    /// seed chooses.
    #[arg(long)]
    runs: Option<u64>,
    /// No further fault of a run after this many seconds.
    #[arg(long, default_value_t = 1200)]
    seconds: u64,
    /// Decides the order of faults, when they happen, and what is asked; a run is never quite the
    /// same twice. The runs of many have this and the following seeds.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Further flags for the servers.
    #[arg(last = true)]
    flags: Vec<String>,
}

/// Where faults happen.
struct Field {
    network: Network,
    journal: Journal,
    members: Members,
    recorder: Recorder,
    rng: Rng,
    times: Times,
    /// What happened so far; printed as it happens, or only if the run fails.
    story: Vec<String>,
    aloud: bool,
}

/// How a run ended.
struct Verdict {
    times: Times,
    acknowledged: usize,
    result: Result<()>,
}

impl Cluster {
    pub(crate) async fn run(&self) -> Result<()> {
        if let Some(code) = network::enter()? {
            std::process::exit(code);
        }
        let network = Network::build()?;
        match self.runs {
            None => self.one(network).await,
            Some(runs) => self.many(network, runs).await,
        }
    }

    /// One run with every fault.
    async fn one(&self, network: Network) -> Result<()> {
        println!("cluster: three servers on a journal of three, seed {}", self.seed);
        let begun = Instant::now();
        let mut field = self.field(network, self.seed, true).await?;
        let result = self.all_of_it(&mut field, begun).await;
        let Verdict { times, result, .. } = field.conclude(result).await;
        times.lines().iter().for_each(|line| println!("{line}"));
        println!("cluster: {:.1}s", begun.elapsed().as_secs_f64());
        if result.is_err() {
            println!("  again: vetch-tests cluster --seed {} --rounds {}", self.seed, self.rounds);
        } else {
            println!("cluster: nothing lost, invented, repeated or out of order");
        }
        result
    }

    async fn all_of_it(&self, field: &mut Field, begun: Instant) -> Result<()> {
        field.reads_are_answered_where_they_are_asked().await?;
        if self.only.is_empty() {
            field.behaves_as_one().await?;
        }
        self.every_fault(field, begun).await
    }

    async fn every_fault(&self, field: &mut Field, begun: Instant) -> Result<()> {
        for _ in 0..self.rounds {
            let mut faults = self.faults();
            while !faults.is_empty() {
                if begun.elapsed() > Duration::from_secs(self.seconds) {
                    return Ok(());
                }
                let fault = faults.swap_remove(field.rng.below(faults.len()));
                field.suffer(fault).await.map_err(|error| error.context(format!("fault {fault}")))?;
            }
        }
        field.work(20).await.map(drop)
    }

    /// Many runs, with faults as each one's seed chooses them.
    async fn many(&self, network: Network, runs: u64) -> Result<()> {
        println!("cluster: {runs} runs of {} s, seeds from {}", self.seconds, self.seed);
        let (mut times, mut bad, mut writes) = (Times::default(), Vec::new(), 0);
        for seed in self.seed..self.seed + runs {
            let begun = Instant::now();
            let mut field = self.field(network, seed, false).await?;
            let mut faults = Vec::new();
            let result = self.some_faults(&mut field, &mut faults).await;
            let verdict = field.conclude(result).await;
            let names: Vec<String> = faults.iter().map(ToString::to_string).collect();
            let (names, took) = (names.join(", "), begun.elapsed().as_secs_f64());
            let how = match &verdict.result {
                Ok(()) => "clean".to_owned(),
                Err(error) => {
                    bad.push(seed);
                    format!("NOT CLEAN: {error:#}")
                }
            };
            println!("  seed {seed}: {how}; {names}; {} writes, {took:.0}s", verdict.acknowledged);
            writes += verdict.acknowledged;
            times.add(verdict.times);
        }
        times.lines().iter().for_each(|line| println!("{line}"));
        println!("cluster: {} of {runs} runs clean, {writes} writes acknowledged", runs - bad.len() as u64);
        match bad.as_slice() {
            [] => Ok(()),
            [first, ..] => {
                bail!("seeds {bad:?} were not clean; again: vetch-tests cluster --runs 1 --seed {first}")
            }
        }
    }

    async fn some_faults(&self, field: &mut Field, happened: &mut Vec<Fault>) -> Result<()> {
        let begun = Instant::now();
        let faults = self.faults();
        while begun.elapsed() < Duration::from_secs(self.seconds) {
            let fault = *field.rng.pick(&faults);
            happened.push(fault);
            field.suffer(fault).await.map_err(|error| error.context(format!("fault {fault}")))?;
        }
        field.work(20).await.map(drop)
    }

    fn faults(&self) -> Vec<Fault> {
        match self.only.as_slice() {
            [] => Fault::value_variants().to_vec(),
            only => only.to_vec(),
        }
    }

    async fn field(&self, network: Network, seed: u64, aloud: bool) -> Result<Field> {
        network.heal()?;
        let journal = Journal::start_on_hosts(JOURNAL.map(Host::site)).await?;
        let sites = SERVERS.map(Host::site);
        let members = Members::start_on_hosts(&sites, &journal.flags(), &self.flags)?;
        let plan = Plan {
            pause_after_failure: Duration::from_millis(200),
            keep_alive: Some(KEEP_ALIVE),
            ..Plan::new(seed)
        };
        members.leader().await?;
        let recorder = Recorder::start(members.endpoints(), plan).await?;
        let (rng, times) = (Rng::split_mix(seed), Times::default());
        Ok(Field { network, journal, members, recorder, rng, times, story: Vec::new(), aloud })
    }
}

impl Field {
    fn say(&mut self, what: String) {
        match self.aloud {
            true => println!("{what}"),
            false => self.story.push(what),
        }
    }

    /// Lets the load work for a moment, and until `least` writes were acknowledged: an idle run
    /// proves nothing.
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
        let millis = self.rng.between(low, high).unsigned_abs();
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }

    /// Everything is well, and every server has the same.
    async fn close(&mut self) -> Result<()> {
        self.members.leader().await?;
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

    /// Judges everything. `result` is how the run went so far; the record is kept if anything is
    /// wrong.
    async fn conclude(mut self, result: Result<()>) -> Verdict {
        let result = match result {
            Ok(()) => self.close().await,
            failed => failed,
        };
        let recording = self.recorder.take();
        let result = self.judge(&recording, result);
        if result.is_err() {
            self.story.iter().for_each(|line| println!("{line}"));
            self.keep(&recording);
        }
        Verdict { times: self.times, acknowledged: recording.acknowledged, result }
    }

    fn judge(&mut self, recording: &Recording, result: Result<()>) -> Result<()> {
        let judged = vetch_check::check(&recording.history);
        match &judged {
            Ok(report) => report.to_string().lines().for_each(|line| self.say(format!("  {line}"))),
            Err(violations) => violations.iter().take(10).for_each(|violation| {
                self.say(format!("  {}", violation.to_string().chars().take(400).collect::<String>()));
            }),
        }
        let (acknowledged, failures) = (recording.acknowledged, &recording.failures);
        self.say(format!("  {acknowledged} writes acknowledged, requests failed with {failures:?}"));
        match (result, judged) {
            (Err(error), _) => Err(error),
            (Ok(()), Err(violations)) => Err(broken_promises(&violations)),
            (Ok(()), Ok(report)) if !report.finished => Err(anyhow!("the final state was not recorded")),
            (Ok(()), Ok(_)) if !recording.broken.is_empty() => {
                Err(anyhow!("clients saw what may not be: {:?}", recording.broken))
            }
            (Ok(()), Ok(_)) => Ok(()),
        }
    }

    /// Leaves everything on disk that may help to find out what went wrong.
    fn keep(&mut self, recording: &Recording) {
        let journal: PathBuf = self.journal.keep_files().to_path_buf();
        let history = journal.join("history.jsonl");
        println!("  files are kept in {} and {:?}", journal.display(), self.members.keep_files());
        match save(&recording.history, &history) {
            Ok(()) => println!("  judge the history again: vetch-tests judge {}", history.display()),
            Err(error) => println!("  the history could not be saved: {error:#}"),
        }
    }
}
