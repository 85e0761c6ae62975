//! The cut-over under load, after a way with obstacles.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio_stream::StreamExt;
use vetch_api::pb;

use super::process::Migration;
use super::watch_check::{self, Listener, Story};
use super::writers::{Diary, LEASE, Outcome, Way, Writers};
use crate::client::Client;
use crate::server::{Kind, Options, Server};
use crate::snapshot::image;

/// Long, and never renewed: what is left of it must not grow.
const LONG: i64 = 7778;
const LONG_TTL: i64 = 3600;
/// Renewed all the time.
const KEPT: i64 = 7779;
/// Left alone just before the cut-over, so that it ends after it.
const LET_GO: i64 = 7780;

pub(super) async fn run(seed: u64, most_pause: Duration) -> Result<()> {
    let scratch = tempfile::Builder::new().prefix("vetch-migrate-").tempdir()?;
    let etcd = Server::start(Kind::Etcd)?;
    let source = Client::connect(&etcd.endpoint()).await?;
    fill(&source, 3000).await?;
    for (id, ttl) in [(LEASE, 600), (LONG, LONG_TTL), (KEPT, 20)] {
        source.lease.clone().lease_grant(pb::LeaseGrantRequest { id, ttl }).await?;
    }
    let granted = Instant::now();
    put(&source, "/kept", KEPT).await?;
    let from = source.revision().await? + 1;
    let mut migration = Migration::new(&etcd.endpoint(), scratch.path(), &[])?;
    let at_etcd = Listener::start(&etcd.endpoint(), from);
    let through = Listener::start(&migration.endpoint(), from);
    let ways = [Way::Through, Way::Direct, Way::Through, Way::Direct, Way::Through, Way::Direct];
    let writers = Writers::start(&etcd.endpoint(), &migration.endpoint(), &ways, seed);
    let compactor = tokio::spawn(compact(source.clone(), at_etcd.ear()));

    obstacles(&mut migration, &source, &at_etcd).await?;
    let keeper = tokio::spawn(keep_alive(migration.endpoint()));
    tokio::time::sleep(Duration::from_secs(2)).await;
    compactor.abort();
    source.lease.clone().lease_grant(pb::LeaseGrantRequest { id: LET_GO, ttl: 3 }).await?;
    put(&source, "/let-go", LET_GO).await?;

    let settled = Instant::now();
    migration.cut_over().await?;
    let line = migration.hears("DONE").await?;
    let fence = fence_of(&line)?;
    println!("  {line}");
    let vetch = Client::connect(&migration.endpoint()).await?;
    let (theirs, ours) = (image::hash_kv(&source, fence).await?, image::hash_kv(&vetch, fence).await?);
    ensure!(
        (theirs.hash, theirs.compact_revision) == (ours.hash, ours.compact_revision),
        "{theirs:?} and {ours:?}"
    );
    check_leases(&vetch, granted.elapsed()).await?;

    let after = Listener::start(&migration.endpoint(), fence + 1);
    tokio::time::sleep(Duration::from_secs(6)).await;
    let diaries = writers.stop().await?;
    keeper.abort();
    let last = vetch.revision().await?;
    after.reaches(last).await?;
    through.reaches(last).await?;
    let (before, after, (through, gaps)) = (at_etcd.stop()?.0, after.stop()?.0, through.stop()?);
    let whole = joined(before, after, fence)?;
    watch_check::must_agree(&whole, &through, "a watch by way of Vetch")?;
    let tally = watch_check::check_events(&whole, &diaries)?;
    println!(
        "  {tally:?}; {} revisions, the last {last}; a watch by way of Vetch lost its past {gaps} times",
        whole.len()
    );
    let ends = whole.values().flatten().filter(|(key, value)| key == "/let-go" && value.is_none()).count();
    ensure!(ends == 1, "the key of a lease that ran out was deleted {ends} times");
    check_pauses(&diaries, settled, most_pause)?;
    restarts(migration, &vetch).await
}

/// Killed while it copies, killed while it follows, and overtaken by a compaction.
async fn obstacles(migration: &mut Migration, source: &Client, at_etcd: &Listener) -> Result<()> {
    migration.start()?;
    migration.hears("copying from").await?;
    migration.kill()?;
    refuses_to_serve(migration)?;
    migration.start()?;
    migration.hears("following").await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    migration.kill()?;
    refuses_to_serve(migration)?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    migration.start()?;
    migration.hears("following").await?;
    ensure!(!migration.said()?.contains("copying"), "it copied again instead of going on");
    tokio::time::sleep(Duration::from_millis(500)).await;
    migration.kill()?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    // What it has not seen is gone.
    let revision = source.revision().await?;
    at_etcd.reaches(revision).await?;
    source.kv.clone().compact(pb::CompactionRequest { revision, physical: false }).await?;
    migration.start()?;
    migration.hears("copying from the beginning").await?;
    migration.hears("SAFE to cut over").await?;
    println!("  killed while copying and while following; overtaken by a compaction, and begun anew");
    Ok(())
}

/// A server must not take half a migration for its data.
fn refuses_to_serve(migration: &Migration) -> Result<()> {
    let options = Options { data_dir: Some(migration.data_dir.clone()), ..Options::default() };
    let refusal =
        Server::start_with(Kind::Vetch, options).err().context("a server started on half a migration")?;
    let text = format!("{refusal:#}");
    ensure!(text.contains("a migration that is not finished"), "{text}");
    Ok(())
}

/// After the cut-over it is a data directory like any other, for the same command and for an
/// ordinary server.
async fn restarts(mut migration: Migration, vetch: &Client) -> Result<()> {
    let before = image::hash_kv(vetch, 0).await?;
    migration.terminate()?;
    migration.start()?;
    migration.hears("DONE already").await?;
    migration.hears(crate::server::READY).await?;
    let again = Client::connect(&migration.endpoint()).await?;
    let after = image::hash_kv(&again, 0).await?;
    ensure!(
        (before.hash, before.hash_revision) == (after.hash, after.hash_revision),
        "{before:?} and {after:?}"
    );
    migration.terminate()?;
    let options = Options { data_dir: Some(migration.data_dir.clone()), ..Options::default() };
    let server = Server::start_with(Kind::Vetch, options)?;
    let after = image::hash_kv(&Client::connect(&server.endpoint()).await?, 0).await?;
    ensure!(before.hash == after.hash, "a restart changed HashKV");
    Ok(())
}

pub(super) async fn fill(client: &Client, keys: usize) -> Result<()> {
    for key in 0..keys {
        let (key, value) = (format!("/fill/{key:05}").into(), format!("f{key}-{}", "y".repeat(1000)).into());
        client.kv.clone().put(pb::PutRequest { key, value, ..Default::default() }).await?;
    }
    Ok(())
}

async fn put(client: &Client, key: &str, lease: i64) -> Result<()> {
    let (key, value) = (key.to_owned().into(), key.to_owned().into());
    client.kv.clone().put(pb::PutRequest { key, value, lease, ..Default::default() }).await?;
    Ok(())
}

/// Compacts behind the writers' backs until it is stopped.
async fn compact(client: Client, heard: impl Fn() -> i64 + Send + 'static) {
    loop {
        tokio::time::sleep(Duration::from_millis(700)).await;
        // Refused once in a while, when nothing was written.
        let request = pb::CompactionRequest { revision: heard() - 200, physical: false };
        let _ = client.kv.clone().compact(request).await;
    }
}

/// Renews a lease by way of Vetch, come what may.
async fn keep_alive(endpoint: String) {
    loop {
        if let Ok(client) = Client::connect(&endpoint).await {
            let ticks = tokio_stream::iter(std::iter::repeat(())).throttle(Duration::from_secs(1));
            let requests = ticks.map(|()| pb::LeaseKeepAliveRequest { id: KEPT });
            if let Ok(answers) = client.lease.clone().lease_keep_alive(requests).await {
                let mut answers = answers.into_inner();
                while let Ok(Some(_)) = answers.message().await {}
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn check_leases(vetch: &Client, since: Duration) -> Result<()> {
    let ask = |id| async move {
        let request = pb::LeaseTimeToLiveRequest { id, keys: true };
        anyhow::Ok(vetch.lease.clone().lease_time_to_live(request).await?.into_inner())
    };
    let long = ask(LONG).await?;
    let expected = LONG_TTL - i64::try_from(since.as_secs())?;
    ensure!((long.ttl - expected).abs() <= 3, "lease with {} s left instead of {expected}", long.ttl);
    let kept = ask(KEPT).await?;
    ensure!(kept.granted_ttl == 20 && kept.ttl > 10 && kept.keys.len() == 1, "the kept lease: {kept:?}");
    Ok(())
}

/// At which revision the truth changed.
pub(super) fn fence_of(line: &str) -> Result<i64> {
    let (_, rest) = line.split_once("revision ").with_context(|| format!("no revision in {line:?}"))?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Ok(digits.parse()?)
}

/// What etcd told up to the fence, and what Vetch told from there on.
pub(super) fn joined(mut before: Story, after: Story, fence: i64) -> Result<Story> {
    let beyond: Vec<i64> = before.range(fence + 1..).map(|(&revision, _)| revision).collect();
    ensure!(beyond.is_empty(), "etcd was written to behind the fence at {fence}: {beyond:?}");
    before.extend(after);
    watch_check::must_be_dense(&before)?;
    Ok(before)
}

/// How long writers got no answer around the cut-over, by the way they came.
fn check_pauses(diaries: &[Diary], settled: Instant, most: Duration) -> Result<()> {
    for way in [Way::Through, Way::Direct] {
        let mut longest = Duration::ZERO;
        for diary in diaries.iter().filter(|diary| diary.way == way) {
            let late: Vec<_> = diary.attempts.iter().filter(|attempt| attempt.ended > settled).collect();
            let failed = late.iter().find(|attempt| match attempt.outcome {
                Outcome::Acknowledged(_) => false,
                Outcome::Fenced => way == Way::Through,
                Outcome::Unknown => true,
            });
            ensure!(failed.is_none(), "a request failed at the cut-over: {failed:?}");
            let answered: Vec<Instant> = late
                .iter()
                .filter(|attempt| matches!(attempt.outcome, Outcome::Acknowledged(_)))
                .map(|attempt| attempt.ended)
                .collect();
            ensure!(answered.len() > 20, "a writer was hardly ever answered after the cut-over");
            let begun = late.first().map_or(settled, |first| first.begun);
            let times = std::iter::once(begun).chain(answered);
            let times: Vec<Instant> = times.collect();
            let pause = times.windows(2).map(|two| two[1] - two[0]).max().unwrap_or_default();
            longest = longest.max(pause);
        }
        println!("  write pause, {way:?}: {} ms", longest.as_millis());
        ensure!(longest < most, "a writer had to wait for {longest:?}");
    }
    Ok(())
}
