//! Servers that are away until the journal was trimmed beyond them: one was killed, one stopped.

use anyhow::{Result, ensure};
use rustix::process::Signal;

use super::Cluster;
use super::trimming::{levels_off, load};
use crate::replicas::members::Members;
use crate::replicas::nats::Journal;

/// Rounds of load before, and while they are away: longer than a server that was not heard of is
/// waited for.
const BEFORE: usize = 2;
const AWAY: usize = 36;

pub(super) async fn run() -> Result<()> {
    let journal = Journal::start().await?;
    let mut members = Members::start(&journal.flags(), &[])?;
    // Three of five are a majority.
    members.add(&journal.flags(), &[])?;
    members.add(&journal.flags(), &[])?;
    let mut cluster = Cluster { journal, members };
    let outcome = play(&mut cluster).await;
    cluster.judge(outcome).await
}

async fn play(cluster: &mut Cluster) -> Result<()> {
    let leader = cluster.members.leader().await?.at;
    let others: Vec<usize> = (0..5).filter(|at| *at != leader).collect();
    let (killed, stopped) = (others[0], others[1]);
    let left = [leader, others[2], others[3]];
    load(cluster, BEFORE, &left).await?;
    let last = cluster.stream_state().await?.last;
    cluster.members.servers[killed].kill()?;
    cluster.members.servers[stopped].signal(Signal::STOP)?;
    let held = load(cluster, AWAY, &left).await?;
    // While they are waited for it grows.
    levels_off(&held[AWAY - 6..])?;
    let first = cluster.stream_state().await?.first;
    ensure!(first > last, "the journal was not trimmed beyond the servers that are away: {first} of {last}");
    cluster.members.servers[stopped].signal(Signal::CONT)?;
    cluster.members.run(&[killed])?;
    cluster.members.leader().await?;
    let revision = cluster.all_have_the_same().await?;
    for at in [killed, stopped] {
        let log = cluster.members.servers[at].log_of_this_life()?;
        ensure!(
            log.contains("fetching a checkpoint from another server"),
            "server {at} took no checkpoint:\n{log}"
        );
    }
    println!("  servers that were killed and stopped came back by checkpoints, at revision {revision}");
    cluster.members.all_run()
}
