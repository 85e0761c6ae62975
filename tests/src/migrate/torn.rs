//! Killed in the cut-over: who is the truth is clear at every moment, and the same command goes on.

use std::time::Duration;

use anyhow::{Result, ensure};
use vetch_api::pb;

use super::live::{fence_of, fill, joined};
use super::process::Migration;
use super::watch_check::{self, Listener};
use super::writers::{LEASE, Way, Writers};
use crate::client::Client;
use crate::server::{Kind, Server};
use crate::snapshot::image;
use vetch_testkit::random::Rng;

pub(super) async fn run(seed: u64, kills: usize) -> Result<()> {
    let scratch = tempfile::Builder::new().prefix("vetch-migrate-").tempdir()?;
    let etcd = Server::start(Kind::Etcd)?;
    let source = Client::connect(&etcd.endpoint()).await?;
    fill(&source, 300).await?;
    source.lease.clone().lease_grant(pb::LeaseGrantRequest { id: LEASE, ttl: 600 }).await?;
    let mut migration = Migration::new(&etcd.endpoint(), scratch.path(), &[])?;
    let at_etcd = Listener::start(&etcd.endpoint(), source.revision().await? + 1);
    let ways = [Way::Through, Way::Direct, Way::Through, Way::Direct];
    let writers = Writers::start(&etcd.endpoint(), &migration.endpoint(), &ways, seed);

    let ends = interrupt(&mut migration, &source, seed, kills).await?;
    println!("  killed in the cut-over; it left behind: {ends:?}");
    if !migration.is_done() {
        migration.start()?;
        migration.hears("following").await?;
        // Goes on by itself if the fence stands; asked once more it makes no difference.
        migration.cut_over().await?;
        migration.hears("DONE").await?;
    } else {
        migration.start()?;
        migration.hears(crate::server::READY).await?;
    }
    let fence = done_at(&migration)?;
    let vetch = Client::connect(&migration.endpoint()).await?;
    let (theirs, ours) = (image::hash_kv(&source, fence).await?, image::hash_kv(&vetch, fence).await?);
    ensure!(theirs.hash == ours.hash, "HashKV differs at the fence: {theirs:?} and {ours:?}");
    let after = Listener::start(&migration.endpoint(), fence + 1);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let diaries = writers.stop().await?;
    let last = vetch.revision().await?;
    ensure!(last > fence, "no client wrote after the cut-over");
    after.reaches(last).await?;
    let whole = joined(at_etcd.stop()?.0, after.stop()?.0, fence)?;
    let tally = watch_check::check_events(&whole, &diaries)?;
    println!("  done at revision {fence}, the last is {last}; {tally:?}");
    Ok(())
}

/// Asks for the cut-over and kills the process in the middle of it, up to `kills` times. Says what
/// each left behind.
async fn interrupt(
    migration: &mut Migration,
    source: &Client,
    seed: u64,
    kills: usize,
) -> Result<Vec<&'static str>> {
    let mut rng = Rng::split_mix(seed);
    let mut ends = Vec::new();
    for round in 1..=kills {
        migration.start()?;
        migration.hears("following").await?;
        migration.request()?;
        while !migration.said()?.contains("cutting over;") {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // Later and later: the first ones are unlikely to come when it is done already.
        let micros = u64::try_from(rng.between(0, 5_000) * i64::try_from(round)?)?;
        tokio::time::sleep(Duration::from_micros(micros)).await;
        migration.kill()?;
        let alarms = source.maintenance.clone().alarm(pb::AlarmRequest::default()).await?.into_inner().alarms;
        ends.push(match (migration.is_done(), alarms.is_empty()) {
            (true, false) => "done",
            (true, true) => anyhow::bail!("the migration is done, and etcd takes writes"),
            (false, true) => "not fenced",
            (false, false) => "fenced",
        });
        if migration.is_done() {
            break;
        }
    }
    Ok(ends)
}

fn done_at(migration: &Migration) -> Result<i64> {
    let story = migration.story()?;
    // Killed right after it was done, it may not have come to say so; the next life does.
    let line = story.lines().rfind(|line| line.contains("DONE")).unwrap_or_default();
    fence_of(line)
}
