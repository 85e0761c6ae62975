//! The trial of a fault: one server, one recording, and the check at the end.
//!
//! A trial lets the load work, breaks something, heals it, and calls `conclude`. That makes sure
//! that the server is well again (answers, takes a write, lets all watchers catch up), that one
//! more clean restart changes nothing, and that everything every client was ever told fits
//! together. Whatever fails, the history, the log and the data stay on disk.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use vetch_check::{Hashed, History, Report, Violation};

use crate::client::Client;
use crate::record::{Plan, Recorder, Recording};
use crate::server::{Kind, Options, Server};
use vetch_testkit::random::Rng;

pub(crate) struct FaultTrial {
    pub(crate) server: Server,
    pub(crate) recorder: Recorder,
    pub(crate) rng: Rng,
    name: String,
    seed: u64,
    begun: Instant,
    /// The trial is itself on trial: its failure is no news, and nothing of it is kept.
    pub(crate) must_fail: bool,
}

/// How a trial ended.
pub(crate) struct Conclusion {
    pub(crate) recording: Recording,
    /// What the history proves the server to have done wrong.
    pub(crate) violations: Vec<Violation>,
    error: Option<anyhow::Error>,
}

impl Conclusion {
    /// The recording, if everything was as it should be.
    pub(crate) fn passed(self) -> Result<Recording> {
        match self.error {
            Some(error) => Err(error),
            None => Ok(self.recording),
        }
    }
}

impl FaultTrial {
    /// Starts a server and the load on it.
    pub(crate) async fn start(name: &str, kind: Kind, options: Options, plan: Plan) -> Result<FaultTrial> {
        let seed = plan.seed;
        let server = Server::start_with(kind, options)?;
        let recorder = Recorder::start(vec![server.endpoint()], plan).await?;
        let rng = Rng::split_mix(seed);
        Ok(FaultTrial {
            server,
            recorder,
            rng,
            name: name.to_owned(),
            seed,
            begun: Instant::now(),
            must_fail: false,
        })
    }

    /// Lets the load work for a while, and until `least` writes were acknowledged meanwhile: an
    /// idle run proves nothing.
    pub(crate) async fn work(&mut self, low_ms: i64, high_ms: i64, least: usize) -> Result<usize> {
        const LIMIT: Duration = Duration::from_secs(30);
        let before = self.recorder.acknowledged();
        let begun = Instant::now();
        tokio::time::sleep(Duration::from_millis(self.rng.between(low_ms, high_ms) as u64)).await;
        loop {
            let done = self.recorder.acknowledged() - before;
            if done >= least {
                return Ok(done);
            }
            ensure!(self.server.alive(), "the server has ended by itself:\n{}", self.server.log_tail()?);
            ensure!(begun.elapsed() < LIMIT, "only {done} writes in {LIMIT:?}, of {least} at least");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Judges everything. `result` is how the trial went so far; the record is kept if anything is
    /// wrong.
    pub(crate) async fn conclude(mut self, result: Result<()>) -> Conclusion {
        let result = match result {
            Ok(()) => self.close().await,
            failed => failed,
        };
        let log = self.server.log_tail().unwrap_or_default();
        let seconds = self.begun.elapsed().as_secs_f64();
        let recording = self.recorder.take();
        // Also what a failed trial has recorded may tell more than that it failed.
        let judged = judge_history(&recording.history);
        let violations = judged.as_ref().err().cloned().unwrap_or_default();
        let error = match (result, judged) {
            (Err(error), _) => Some(error),
            (Ok(()), Err(violations)) => Some(broken_promises(&violations)),
            (Ok(()), Ok(report)) if !report.finished => Some(anyhow!("the final state was not recorded")),
            (Ok(()), Ok(_)) if !recording.broken.is_empty() => {
                Some(anyhow!("clients saw what may not be: {:?}", recording.broken))
            }
            (Ok(()), Ok(_)) => None,
        };
        println!("  {}: {} writes acknowledged in {seconds:.1}s", self.name, recording.acknowledged);
        let error = error.map(|error| {
            if self.must_fail {
                return error;
            }
            println!("  end of the server's log:\n{log}");
            println!("  requests failed with {:?}", recording.failures);
            self.keep(&recording.history);
            error.context(format!("{} with seed {}", self.name, self.seed))
        });
        Conclusion { recording, violations, error }
    }

    /// Leaves everything on disk that may help to find out what went wrong.
    fn keep(&mut self, history: &History) {
        let directory = self.server.keep_files();
        let path = directory.join("history.jsonl");
        println!("  files are kept in {}", directory.display());
        match save(history, &path) {
            Ok(()) => println!("  judge the history again: vetch-tests judge {}", path.display()),
            Err(error) => println!("  the history could not be saved: {error:#}"),
        }
    }

    /// The server is well, and stays the same over one more clean restart.
    async fn close(&mut self) -> Result<()> {
        self.recorder.settle().await?;
        healthy(&self.server).await?;
        let before = self.recorder.hash().await?;
        self.server.terminate()?;
        self.server.run()?;
        let after = self.recorder.hash().await?;
        let hash = |hashed: &Hashed| (hashed.revision, hashed.compact_revision, hashed.hash);
        ensure!(hash(&before) == hash(&after), "a clean restart changed {before:?} to {after:?}");
        self.recorder.close().await
    }
}

/// The health service says that the server serves.
async fn healthy(server: &Server) -> Result<()> {
    let client = Client::connect(&server.endpoint()).await?;
    let request = vetch_api::health::HealthCheckRequest::default();
    let status = client.health.clone().check(request).await.context("asking for health")?.into_inner().status;
    ensure!(status == 1, "the server says that it is not well: {status}");
    Ok(())
}

pub(crate) fn save(history: &History, path: &Path) -> Result<()> {
    history.save(BufWriter::new(File::create(path)?)).context("saving the history")
}

/// Judges a history and prints how much it held, or every promise that was broken.
pub(crate) fn judge_history(history: &History) -> Result<Report, Vec<Violation>> {
    const SHOWN: usize = 10;
    const WIDTH: usize = 400;
    let begun = Instant::now();
    let judged = vetch_check::check(history);
    match &judged {
        Ok(report) => {
            let lines: Vec<String> = report.to_string().lines().map(|line| format!("  {line}")).collect();
            println!("{}\n  judged in {:.1}s", lines.join("\n"), begun.elapsed().as_secs_f64());
        }
        Err(violations) => {
            for violation in violations.iter().take(SHOWN) {
                println!("  {}", violation.to_string().chars().take(WIDTH).collect::<String>());
            }
        }
    }
    judged
}

/// Says in one line what is wrong with a history.
pub(crate) fn broken_promises(violations: &[Violation]) -> anyhow::Error {
    match violations.first() {
        Some(first) => anyhow!("{} promises were broken, the first: {first}", violations.len()),
        None => anyhow!("promises were broken"),
    }
}
