//! Servers that are away until the journal was trimmed beyond them: one was killed, one stopped.

use anyhow::{Result, ensure};
use rustix::process::Signal;

use super::House;
use super::journal::Journal;
use super::members::Members;
use super::trimming::{levels_off, load};

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
    let mut house = House { journal, members };
    let outcome = play(&mut house).await;
    house.judge(outcome).await
}

async fn play(house: &mut House) -> Result<()> {
    let writer = house.members.writer().await?.at;
    let others: Vec<usize> = (0..5).filter(|at| *at != writer).collect();
    let (killed, stopped) = (others[0], others[1]);
    let left = [writer, others[2], others[3]];
    load(house, BEFORE, &left).await?;
    let last = house.held().await?.last;
    house.members.servers[killed].kill()?;
    house.members.servers[stopped].signal(Signal::STOP)?;
    let held = load(house, AWAY, &left).await?;
    // While they are waited for it grows.
    levels_off(&held[AWAY - 6..])?;
    let first = house.held().await?.first;
    ensure!(first > last, "the journal was not trimmed beyond the servers that are away: {first} of {last}");
    house.members.servers[stopped].signal(Signal::CONT)?;
    house.members.run(&[killed])?;
    house.members.writer().await?;
    let revision = house.all_have_the_same().await?;
    for at in [killed, stopped] {
        let log = house.members.servers[at].log_of_this_life()?;
        ensure!(
            log.contains("fetching a checkpoint from another server"),
            "server {at} took no checkpoint:\n{log}"
        );
    }
    println!("  servers that were killed and stopped came back by checkpoints, at revision {revision}");
    house.members.all_run()
}
