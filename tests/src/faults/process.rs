//! Faults of the process as a whole: killed, asked to end, stopped, starved.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use rustix::process::Signal;
use tonic::Code;

use super::{Case, Faults, rest};
use crate::ground::Ground;
use crate::record::Plan;

pub(super) async fn kill(ground: &mut Ground, rounds: usize) -> Result<()> {
    for round in 1..=rounds {
        let done = ground.work(200, 900, 20).await?;
        ground.server.kill()?;
        // A start that is itself killed leaves a recovery half done.
        if ground.rng.percent(30) {
            ground.server.spawn_under(&[])?;
            rest(ground.rng.between(1, 60)).await;
            ground.server.kill()?;
        }
        let start = ground.server.run()?;
        println!("  round {round}: killed after {done} writes, back in {} ms", start.as_millis());
    }
    ground.work(300, 400, 20).await.map(drop)
}

/// Each round has a history of its own, because how its watches ended is judged as well.
pub(super) async fn term(faults: &Faults, rounds: usize) -> Result<()> {
    for round in 1..=rounds {
        let plan = Plan::new(faults.seed + round as u64);
        let mut ground = faults.ground(Case::Term, plan).await?;
        let result = terminate(&mut ground).await;
        let recording = ground.conclude(result).await.passed()?;
        println!("  requests failed with {:?}", recording.failures);
        for (code, message) in &recording.watch_ends {
            ensure!(ended_cleanly(*code), "a watch ended with {code:?} {message:?}");
        }
    }
    Ok(())
}

async fn terminate(ground: &mut Ground) -> Result<()> {
    ground.work(500, 900, 20).await?;
    let begun = Instant::now();
    let status = ground.server.terminate()?;
    check_end(status, begun.elapsed())?;
    println!("  ended in {} ms with {status}", begun.elapsed().as_millis());
    ground.server.run()?;
    ground.work(200, 300, 20).await.map(drop)
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
pub(super) async fn pause(ground: &mut Ground, rounds: usize) -> Result<()> {
    for round in 1..=rounds {
        let done = ground.work(300, 900, 20).await?;
        let stopped = ground.rng.between(1_000, 5_000);
        ground.server.signal(Signal::STOP)?;
        rest(stopped).await;
        ground.server.signal(Signal::CONT)?;
        println!("  round {round}: after {done} writes stopped for {stopped} ms");
    }
    ground.work(500, 600, 20).await.map(drop)
}

/// One processor for all its threads, and the process stopped for a few milliseconds again and
/// again.
pub(super) async fn one_cpu(ground: &mut Ground, rounds: usize) -> Result<()> {
    ground.work(200, 400, 20).await?;
    ground.server.kill()?;
    ground.server.run_under(&["taskset", "-c", "0"].map(str::to_owned))?;
    let before = ground.recorder.acknowledged();
    for _ in 0..rounds {
        rest(ground.rng.between(5, 80)).await;
        ground.server.signal(Signal::STOP)?;
        rest(ground.rng.between(1, 60)).await;
        ground.server.signal(Signal::CONT)?;
    }
    let done = ground.recorder.acknowledged() - before;
    println!("  {done} writes between {rounds} stops");
    ground.work(200, 300, 20).await?;
    ground.server.kill()?;
    ground.server.run().map(drop)
}
