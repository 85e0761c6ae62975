//! The trial of a shared journal's life: it is trimmed behind checkpoints and levels off, a server
//! that is behind the trimmed part starts from another server's checkpoint, and when the journal is
//! nearly full the servers leave the rest free.
//!
//! Three Vetch servers on three NATS servers for each case. What is said of the journal is what
//! NATS itself says.

mod behind;
mod full;
mod large;
mod refill;
mod trimming;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use tokio::task::JoinSet;
use vetch_api::pb;

use crate::client::Client;
use crate::replicas::members::Members;
use crate::replicas::nats::{Journal, STREAM, StreamState};

/// For everything that is waited for.
const TIMEOUT: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Case {
    /// Steady load: the stream levels off. A server that is new then joins.
    Trimming,
    /// Servers that were away come back behind the trim.
    Behind,
    /// A journal that is nearly full, with too few servers to trim it.
    Full,
    /// Requests with more effects than a record of the journal holds.
    Large,
    /// A server that stood alone becomes a cluster, and a cluster goes on with another journal.
    Refill,
}

/// Fill, trim, join and fall behind a shared journal.
#[derive(Args, Debug)]
pub(crate) struct JournalLife {
    /// Only these cases; all without it.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Case>,
}

/// A cluster and its journal.
struct Cluster {
    journal: Journal,
    members: Members,
}

impl JournalLife {
    pub(crate) async fn run(&self) -> Result<()> {
        let cases = match self.only.as_slice() {
            [] => Case::value_variants(),
            only => only,
        };
        for case in cases {
            let begun = Instant::now();
            println!("journal-life: {case:?}");
            match case {
                Case::Trimming => trimming::run().await,
                Case::Behind => behind::run().await,
                Case::Full => full::run().await,
                Case::Large => large::run().await,
                Case::Refill => refill::run().await,
            }
            .with_context(|| format!("case {case:?}"))?;
            println!("journal-life: {case:?}: {:.1}s", begun.elapsed().as_secs_f64());
        }
        Ok(())
    }
}

impl Cluster {
    async fn stream_state(&self) -> Result<StreamState> {
        self.journal.stream_state(STREAM).await
    }

    /// Runs a case, and keeps all files if it fails.
    async fn judge(mut self, outcome: Result<()>) -> Result<()> {
        if outcome.is_err() {
            let journal = self.journal.keep_files().to_path_buf();
            println!("  files are kept in {} and {:?}", journal.display(), self.members.keep_files());
        }
        outcome
    }

    /// Every server has the same state at the same revision.
    async fn all_have_the_same(&self) -> Result<i64> {
        let mut clients = Vec::new();
        for endpoint in self.members.endpoints() {
            clients.push(Client::connect(&endpoint).await?);
        }
        let revision = clients[0].revision().await?;
        let mut hashes = Vec::new();
        for client in &clients {
            let begun = Instant::now();
            let request = pb::HashKvRequest { revision };
            let hash = loop {
                match client.maintenance.clone().hash_kv(request).await {
                    Ok(answer) => break answer.into_inner(),
                    // It has not come that far yet.
                    Err(status) => ensure!(begun.elapsed() < TIMEOUT, "no hash: {status}"),
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            };
            hashes.push((hash.hash, hash.compact_revision));
        }
        ensure!(hashes.iter().all(|hash| *hash == hashes[0]), "servers differ at {revision}: {hashes:?}");
        Ok(revision)
    }
}

/// Puts of values of so many bytes to a few keys, by eight clients, until the time is over. Returns
/// how many were acknowledged.
async fn churn(endpoint: &str, bytes: usize, seconds: u64) -> Result<u64> {
    let until = Instant::now() + Duration::from_secs(seconds);
    let client = Client::connect(endpoint).await?;
    let mut writers = JoinSet::new();
    for writer in 0..8 {
        let mut kv = client.kv.clone();
        writers.spawn(async move {
            let mut done = 0_u64;
            while Instant::now() < until {
                let key = format!("churn/{writer}/{}", done % 20);
                let value = vec![b'a' + writer as u8; bytes];
                let put = pb::PutRequest { key: key.into(), value: value.into(), ..Default::default() };
                // The leader may change meanwhile.
                match kv.put(put).await {
                    Ok(_) => done += 1,
                    Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
                }
            }
            done
        });
    }
    let mut done = 0;
    while let Some(written) = writers.join_next().await {
        done += written?;
    }
    let revision = client.revision().await?;
    let compact = pb::CompactionRequest { revision, physical: false };
    client.kv.clone().compact(compact).await.context("compacting")?;
    Ok(done)
}
