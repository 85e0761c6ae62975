//! The churn trial: few keys, endless updates, compaction every few seconds. Memory and disk must
//! level off.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Args;
use vetch_api::pb;

use crate::client::Client;
use crate::server::{Kind, Options, Server};
use vetch_testkit::random::Rng;

/// Update few keys for long with periodic compaction, and watch memory and disk.
#[derive(Args, Debug)]
pub(crate) struct Churn {
    #[arg(long, default_value = "vetch")]
    server: Kind,
    /// Updates in all; an hour of a busy cluster is a few million.
    #[arg(long, env = "VETCH_CHURN_UPDATES", default_value_t = 300_000)]
    updates: u64,
    #[arg(long, default_value_t = 1_000)]
    keys: usize,
    #[arg(long, default_value_t = 512)]
    value_bytes: usize,
    #[arg(long, default_value_t = 64)]
    writers: usize,
    /// Seconds between compactions; each keeps only what was written since the one before.
    #[arg(long, default_value_t = 2)]
    compact_seconds: u64,
    /// Further flags for the server.
    #[arg(last = true)]
    flags: Vec<String>,
}

/// One look at the server.
struct Sample {
    updates: u64,
    resident: u64,
    disk: u64,
}

impl Churn {
    pub(crate) async fn run(&self) -> Result<()> {
        let Churn { updates, keys, value_bytes, .. } = self;
        println!(
            "churn: {updates} updates of {keys} keys with {value_bytes} bytes on {}",
            self.server.name()
        );
        let server = Server::start_with(self.server, Options { flags: self.flags.clone(), data_dir: None })?;
        let done = Arc::new(AtomicU64::new(0));
        let begun = Instant::now();
        let mut writers = tokio::task::JoinSet::new();
        let mut clients = Vec::new();
        for _ in 0..4 {
            clients.push(Client::connect(&server.endpoint()).await?);
        }
        for writer in 0..self.writers {
            let client = clients[writer % clients.len()].clone();
            let write = update(client, done.clone(), *updates, *keys, *value_bytes, writer);
            writers.spawn(write);
        }
        let samples = self.observe(&server, &done, begun).await?;
        while let Some(result) = writers.join_next().await {
            result??;
        }
        let seconds = begun.elapsed().as_secs_f64();
        println!("churn: {updates} updates in {seconds:.1}s, {:.0}/s", *updates as f64 / seconds);
        flat("memory", &samples, |sample| sample.resident)?;
        flat("disk", &samples, |sample| sample.disk)
    }

    /// Compacts and samples until all updates are done.
    async fn observe(&self, server: &Server, done: &AtomicU64, begun: Instant) -> Result<Vec<Sample>> {
        let client = Client::connect(&server.endpoint()).await?;
        let mut samples = Vec::new();
        let mut keep_from = 0;
        let mut next_compaction = Instant::now() + Duration::from_secs(self.compact_seconds);
        let interval = Duration::from_millis(500);
        while done.load(Ordering::Relaxed) < self.updates {
            tokio::time::sleep(interval).await;
            if Instant::now() >= next_compaction {
                next_compaction += Duration::from_secs(self.compact_seconds);
                if keep_from > 1 {
                    let request = pb::CompactionRequest { revision: keep_from, physical: false };
                    client.kv.clone().compact(request).await?;
                }
                keep_from = client.revision().await?;
            }
            let updates = done.load(Ordering::Relaxed);
            let sample = Sample { updates, resident: server.resident()?, disk: server.disk_use() };
            if samples.len() % 10 == 0 {
                println!(
                    "  {:6.1}s {:>9} updates, {:>5} MiB resident, {:>5} MiB on disk",
                    begun.elapsed().as_secs_f64(),
                    sample.updates,
                    sample.resident >> 20,
                    sample.disk >> 20
                );
            }
            samples.push(sample);
        }
        Ok(samples)
    }
}

async fn update(
    client: Client,
    done: Arc<AtomicU64>,
    updates: u64,
    keys: usize,
    value_bytes: usize,
    writer: usize,
) -> Result<()> {
    let mut rng = Rng::for_step(1, writer);
    let mut kv = client.kv.clone();
    while done.fetch_add(1, Ordering::Relaxed) < updates {
        let key = format!("/registry/leases/node-{:05}", rng.below(keys));
        let mut value = vec![b'.'; value_bytes];
        value[..8].copy_from_slice(&rng.draw().to_be_bytes());
        kv.put(pb::PutRequest { key: key.into(), value: value.into(), ..Default::default() }).await?;
    }
    Ok(())
}

/// Flat: the highest of the last third is not far above the highest of the third before it. Both
/// saw compactions, so a leak of even a few per cent of what was written would show, while the
/// sawtooth between compactions does not.
fn flat(what: &str, samples: &[Sample], measure: impl Fn(&Sample) -> u64) -> Result<()> {
    ensure!(samples.len() >= 12, "only {} samples: too short a run to judge", samples.len());
    let third = samples.len() / 3;
    let peak = |part: &[Sample]| part.iter().map(&measure).max().unwrap_or(0);
    let (middle, last) = (peak(&samples[third..2 * third]), peak(&samples[2 * third..]));
    println!("  {what}: peak {} MiB in the middle, {} MiB at the end", middle >> 20, last >> 20);
    let allowed = middle + middle / 5 + (24 << 20);
    ensure!(last <= allowed, "{what} grows: from {} to {} MiB", middle >> 20, last >> 20);
    Ok(())
}
