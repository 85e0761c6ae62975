//! Faults of the process as a whole: killed, asked to end, stopped, starved.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use rustix::process::Signal;
use tonic::Code;

use super::{Case, Faults, rest};
use crate::fault_trial::FaultTrial;
use crate::record::Plan;

pub(super) async fn kill(trial: &mut FaultTrial, rounds: usize) -> Result<()> {
    for round in 1..=rounds {
        let done = trial.work(200, 900, 20).await?;
        trial.server.kill()?;
        // A start that is itself killed leaves a recovery half done.
        if trial.rng.percent(30) {
            trial.server.spawn_under(&[])?;
            rest(trial.rng.between(1, 60)).await;
            trial.server.kill()?;
        }
        let start = trial.server.run()?;
        println!("  round {round}: killed after {done} writes, back in {} ms", start.as_millis());
    }
    trial.work(300, 400, 20).await.map(drop)
}

/// Each round has a history of its own, because how its watches ended is judged as well.
pub(super) async fn term(faults: &Faults, rounds: usize) -> Result<()> {
    for round in 1..=rounds {
        let plan = Plan::new(faults.seed + round as u64);
        let mut trial = faults.trial(Case::Term, plan).await?;
        let result = terminate(&mut trial).await;
        let recording = trial.conclude(result).await.passed()?;
        println!("  requests failed with {:?}", recording.failures);
        for (code, message) in &recording.watch_ends {
            ensure!(ended_cleanly(*code), "a watch ended with {code:?} {message:?}");
        }
    }
    Ok(())
}

async fn terminate(trial: &mut FaultTrial) -> Result<()> {
    trial.work(500, 900, 20).await?;
    let begun = Instant::now();
    let status = trial.server.terminate()?;
    check_end(status, begun.elapsed())?;
    println!("  ended in {} ms with {status}", begun.elapsed().as_millis());
    trial.server.run()?;
    trial.work(200, 300, 20).await.map(drop)
}

/// etcd hands the signal on to itself once it has cleaned up, so the process ends by SIGTERM.
fn check_end(status: ExitStatus, took: Duration) -> Result<()> {
    let by_signal = status.signal() == Some(15) || status.code() == Some(143);
    ensure!(by_signal, "the process ended with {status}, where etcd's ends by SIGTERM");
    ensure!(took < Duration::from_secs(10), "it took {took:?} to stop");
    Ok(())
}

/// A client resumes its watch on these codes and gives up on others; an error of the connection
/// counts as Unavailable or Unknown in this client library.
fn ended_cleanly(code: Code) -> bool {
    matches!(code, Code::Unavailable | Code::Unknown | Code::Cancelled | Code::Ok)
}

/// Clients give up while the process stands still. What it answers when it goes on must be true
/// then, not before.
pub(super) async fn pause(trial: &mut FaultTrial, rounds: usize) -> Result<()> {
    for round in 1..=rounds {
        let done = trial.work(300, 900, 20).await?;
        let stopped = trial.rng.between(1_000, 5_000);
        trial.server.signal(Signal::STOP)?;
        rest(stopped).await;
        trial.server.signal(Signal::CONT)?;
        println!("  round {round}: after {done} writes stopped for {stopped} ms");
    }
    trial.work(500, 600, 20).await.map(drop)
}

/// One processor for all its threads, and the process stopped for a few milliseconds again and
/// again.
pub(super) async fn one_cpu(trial: &mut FaultTrial, rounds: usize) -> Result<()> {
    trial.work(200, 400, 20).await?;
    trial.server.kill()?;
    trial.server.run_under(&["taskset", "-c", "0"].map(str::to_owned))?;
    let before = trial.recorder.acknowledged();
    for _ in 0..rounds {
        rest(trial.rng.between(5, 80)).await;
        trial.server.signal(Signal::STOP)?;
        rest(trial.rng.between(1, 60)).await;
        trial.server.signal(Signal::CONT)?;
    }
    let done = trial.recorder.acknowledged() - before;
    println!("  {done} writes between {rounds} stops");
    trial.work(200, 300, 20).await?;
    trial.server.kill()?;
    trial.server.run().map(drop)
}
