//! The etcd cannot be heard in the middle of the cut-over: it goes on as if nothing had been, and a
//! second attempt works.

use std::time::Duration;

use anyhow::{Result, ensure};
use vetch_api::pb;

use super::live::{fence_of, fill, joined};
use super::process::Migration;
use super::relay::Relay;
use super::watch_check::{self, Listener};
use super::writers::{LEASE, Way, Writers};
use crate::client::Client;
use crate::server::{Kind, Server};

/// Longer than a call may take.
const SILENCE: Duration = Duration::from_millis(5500);

pub(super) async fn run(seed: u64) -> Result<()> {
    let scratch = tempfile::Builder::new().prefix("vetch-migrate-").tempdir()?;
    let etcd = Server::start(Kind::Etcd)?;
    let source = Client::connect(&etcd.endpoint()).await?;
    fill(&source, 100).await?;
    source.lease.clone().lease_grant(pb::LeaseGrantRequest { id: LEASE, ttl: 600 }).await?;
    let relay = Relay::start(&format!("127.0.0.1:{}", etcd.port)).await?;
    let mut migration = Migration::new(&relay.endpoint(), scratch.path(), &[])?;
    let at_etcd = Listener::start(&etcd.endpoint(), source.revision().await? + 1);
    migration.start()?;
    migration.hears("SAFE to cut over").await?;
    let writers = Writers::start(&etcd.endpoint(), &migration.endpoint(), &[Way::Through, Way::Direct], seed);
    tokio::time::sleep(Duration::from_millis(500)).await;
    migration.request()?;
    while !migration.said()?.contains("cutting over;") {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    relay.cut();
    tokio::time::sleep(SILENCE).await;
    relay.mend();
    let line = migration.hears("THE CUT-OVER FAILED").await?;
    println!("  {}", line.split(". The etcd").next().unwrap_or_default());
    // The request to fence may arrive after everybody has given up on it; then it is taken down a
    // moment later.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let alarms = source.maintenance.clone().alarm(pb::AlarmRequest::default()).await?.into_inner().alarms;
    ensure!(alarms.is_empty() && !migration.is_done(), "the etcd was left fenced: {alarms:?}");
    let before = source.revision().await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    ensure!(source.revision().await? > before + 20, "the etcd does not go on");
    let is_late = migration.said()?.contains("has come up late");
    println!(
        "  the fence came up {}",
        if is_late { "late, and was taken down" } else { "in time, or not at all" }
    );

    migration.cut_over().await?;
    let fence = fence_of(&migration.hears("DONE").await?)?;
    let after = Listener::start(&migration.endpoint(), fence + 1);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let diaries = writers.stop().await?;
    let last = Client::connect(&migration.endpoint()).await?.revision().await?;
    after.reaches(last).await?;
    let whole = joined(at_etcd.stop()?.0, after.stop()?.0, fence)?;
    let tally = watch_check::check_events(&whole, &diaries)?;
    println!("  the etcd went on, and was left for good at revision {fence}; the last is {last}; {tally:?}");
    Ok(())
}
