//! Trimming under steady load, and a server that comes later.

use std::time::Instant;

use anyhow::{Result, ensure};

use super::{Cluster, churn};
use crate::replicas::members::Members;
use crate::replicas::nats::Journal;

const VALUE: usize = 4 << 10;
/// Rounds of load, and seconds of each.
const ROUNDS: usize = 12;
const SECONDS: u64 = 4;

pub(super) async fn run() -> Result<()> {
    let journal = Journal::start().await?;
    let members = Members::start(&journal.flags(), &[])?;
    let mut cluster = Cluster { journal, members };
    let outcome = play(&mut cluster).await;
    cluster.judge(outcome).await
}

async fn play(cluster: &mut Cluster) -> Result<()> {
    cluster.members.leader().await?;
    let held = load(cluster, ROUNDS, &[0, 1, 2]).await?;
    levels_off(&held)?;
    ensure!(cluster.stream_state().await?.first > 1, "nothing was trimmed");
    joins(cluster).await
}

/// Bytes of the stream after each round.
pub(super) async fn load(cluster: &mut Cluster, rounds: usize, servers: &[usize]) -> Result<Vec<u64>> {
    let mut held = Vec::new();
    let (mut done, begun) = (0, Instant::now());
    for round in 0..rounds {
        let server = &cluster.members.servers[servers[round % servers.len()]];
        done += churn(&server.endpoint(), VALUE, SECONDS).await?;
        held.push(cluster.stream_state().await?.bytes);
    }
    let rate = done as f64 / begun.elapsed().as_secs_f64();
    let kib: Vec<u64> = held.iter().map(|bytes| bytes >> 10).collect();
    let written = (done * VALUE as u64) >> 10;
    println!("  {done} puts, {rate:.0}/s, {written} KiB; the stream held {kib:?} KiB");
    Ok(held)
}

/// The second half holds no more than half as much again as the first did.
pub(super) fn levels_off(held: &[u64]) -> Result<()> {
    let (first, second) = held.split_at(held.len() / 2);
    let most = |half: &[u64]| half.iter().copied().max().unwrap_or(0);
    ensure!(most(second) <= most(first) * 3 / 2, "the stream grows: {held:?}");
    Ok(())
}

/// A server with nothing starts from another's checkpoint.
async fn joins(cluster: &mut Cluster) -> Result<()> {
    let begun = Instant::now();
    cluster.members.add(&cluster.journal.flags(), &[])?;
    let revision = cluster.all_have_the_same().await?;
    let log = cluster.members.servers[3].log_of_this_life()?;
    ensure!(log.contains("fetching a checkpoint from another server"), "it took no checkpoint:\n{log}");
    println!("  a new server had revision {revision} after {} ms", begun.elapsed().as_millis());
    Ok(())
}
