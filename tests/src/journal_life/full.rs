//! A journal that is nearly full.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use tonic::Status;
use vetch_api::pb;

use super::Cluster;
use super::TIMEOUT;
use crate::client::Client;
use crate::replicas::members::Members;
use crate::replicas::nats::Journal;

/// Three times what the stream may hold, because every replica counts.
const ALLOWED: u64 = 3 * (96 << 20);
const VALUE: usize = 256 << 10;
const NO_SPACE: &str = "etcdserver: mvcc: database space exceeded";

pub(super) async fn run() -> Result<()> {
    let journal = Journal::start_limited(ALLOWED).await?;
    // Nothing is trimmed before there is little room.
    let flags = ["--checkpoint-bytes=1073741824", "--checkpoint-interval=1h"].map(str::to_owned);
    let members = Members::start(&journal.flags(), &flags)?;
    let mut cluster = Cluster { journal, members };
    let outcome = play(&mut cluster).await;
    cluster.judge(outcome).await
}

async fn play(cluster: &mut Cluster) -> Result<()> {
    let leader = cluster.members.leader().await?.at;
    let client = Client::connect(&cluster.members.servers[leader].endpoint()).await?;
    // Reported by everybody before they go: they count.
    put(&client, "small", 10).await?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let others: Vec<usize> = (0..3).filter(|at| *at != leader).collect();
    others.iter().try_for_each(|at| cluster.members.servers[*at].kill())?;
    let refused = fill(&client).await?;
    let held = cluster.stream_state().await?;
    println!("  {} puts, then NOSPACE, with {} KiB in the stream", refused, held.bytes >> 10);
    ensure!(held.bytes < ALLOWED / 4, "the stream was filled");
    // It stays so while the majority is away, and everything that does not grow the state goes on.
    let begun = Instant::now();
    let mut round = 0;
    while begun.elapsed() < Duration::from_secs(15) {
        ensure!(is_full(put(&client, "more", VALUE).await), "a put was taken although nothing was trimmed");
        let revision = client.revision().await?;
        let key = format!("big/{round}");
        let delete = pb::DeleteRangeRequest { key: key.into(), ..Default::default() };
        ensure!(client.kv.clone().delete_range(delete).await?.into_inner().deleted == 1, "{round}");
        if round == 10 {
            client.kv.clone().compact(pb::CompactionRequest { revision, physical: false }).await?;
        }
        round += 1;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    println!("  {round} reads and deletes went on");
    cluster.members.run(&others)?;
    let begun = Instant::now();
    while let Err(status) = put(&client, "again", 10).await {
        ensure!(begun.elapsed() < TIMEOUT, "still refused {TIMEOUT:?} after the majority was back: {status}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    println!(
        "  it was trimmed, and puts were taken, {} ms after the others were back",
        begun.elapsed().as_millis()
    );
    cluster.all_have_the_same().await?;
    cluster.members.all_run()
}

/// Puts until there is no space; returns how many.
async fn fill(client: &Client) -> Result<usize> {
    for count in 0..2 * ALLOWED as usize / VALUE {
        match put(client, &format!("big/{count}"), VALUE).await {
            Ok(()) => {}
            refused if is_full(refused.clone()) => return Ok(count),
            Err(status) => return Err(status.into()),
        }
    }
    anyhow::bail!("everything was taken")
}

fn is_full(put: Result<(), Status>) -> bool {
    put.is_err_and(|status| status.message() == NO_SPACE)
}

async fn put(client: &Client, key: &str, bytes: usize) -> Result<(), Status> {
    let put =
        pb::PutRequest { key: key.to_owned().into(), value: vec![b'x'; bytes].into(), ..Default::default() };
    client.kv.clone().put(put).await.map(drop)
}
