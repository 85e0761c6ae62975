//! The scenarios trial: short plays in which time or several clients matter, on two servers, and
//! the scripts compared.
//!
//! A scenario talks to one server and writes down what it sees, line by line, without ids and
//! times. Both servers must cause the same lines. What does not depend on time is the differential
//! trial's.

mod concurrency;
mod leases;
mod limits;
mod watching;

use std::fmt::Debug;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use clap::Args;
use futures_util::future::BoxFuture;
use tonic::{Response, Status};
use vetch_api::pb;

use crate::client::Client;
use crate::server::{Kind, Options, Server};

/// Compare two servers where time matters: expiry, locks, elections, alarms, progress, limits.
#[derive(Args, Debug)]
pub(crate) struct Scenarios {
    #[arg(long, default_value = "etcd")]
    left: Kind,
    #[arg(long, default_value = "vetch")]
    right: Kind,
    /// Run only scenarios whose name contains this.
    #[arg(long, default_value = "")]
    only: String,
}

/// What a scenario saw.
#[derive(Default)]
struct Script {
    lines: Vec<String>,
}

impl Script {
    fn note(&mut self, line: impl Into<String>) {
        self.lines.push(line.into());
    }

    /// An answer by what the caller picks from it, or the error with code and text.
    fn answer<R>(&mut self, what: &str, result: Result<Response<R>, Status>, pick: impl FnOnce(R) -> String) {
        let text = match result {
            Ok(response) => pick(response.into_inner()),
            Err(status) => format!("error {:?} {:?}", status.code(), status.message()),
        };
        self.note(format!("{what}: {text}"));
    }
}

type Play = fn(Client, &mut Script) -> BoxFuture<'_, Result<()>>;

/// Name, flags beyond the usual, and the play.
const PLAYS: [(&str, &[&str], Play); 19] = [
    ("lease expiry deletes its keys in one revision", &[], leases::expiry),
    ("a kept lease stays", &[], leases::kept_alive),
    ("one keep-alive stream serves many leases", &[], leases::one_stream),
    ("a lock is handed on", &[], concurrency::lock_handed_on),
    ("a lock that no client waits for any more", &[], concurrency::lock_abandoned),
    ("locks with odd leases", &[], concurrency::lock_leases),
    ("an election", &[], concurrency::election),
    ("elections gone wrong", &[], concurrency::election_errors),
    ("a full server", &[], limits::no_space),
    ("a corrupt server", &[], limits::corrupt),
    ("smaller limits", &["--max-txn-ops=5", "--max-request-bytes=2000"], limits::small_limits),
    ("unknown methods and services", &[], limits::unknown_methods),
    ("the health service", &[], limits::health),
    ("leadership of one", &[], limits::leadership),
    ("fragments", &[], watching::fragments),
    ("progress by itself", &["--watch-progress-notify-interval=200ms"], watching::progress_notify),
    ("progress on request", &[], watching::progress_request),
    ("odd watch requests", &[], watching::odd_requests),
    ("a watcher overtaken by compaction", &[], watching::overtaken),
];

impl Scenarios {
    pub(crate) async fn run(&self) -> Result<()> {
        let begun = Instant::now();
        let mut differences = 0;
        let mut count = 0;
        for (name, flags, play) in PLAYS.into_iter().filter(|(name, ..)| name.contains(&self.only)) {
            let (left, right) =
                tokio::join!(perform(self.left, flags, play), perform(self.right, flags, play));
            let (left, right) = (left?, right?);
            count += 1;
            if left == right {
                println!("  same: {name} ({} lines)", left.len());
                continue;
            }
            differences += 1;
            println!("DIFFERENCE: {name}");
            println!(
                "--- {}\n{}\n--- {}\n{}\n",
                self.left.name(),
                left.join("\n"),
                self.right.name(),
                right.join("\n")
            );
        }
        println!("scenarios: {count} played, {differences} differ; {:.1}s", begun.elapsed().as_secs_f64());
        ensure!(differences == 0, "{differences} scenarios differ");
        Ok(())
    }
}

/// Plays on a fresh server. A play that breaks off is a script that ends with the reason.
async fn perform(kind: Kind, flags: &[&str], play: Play) -> Result<Vec<String>> {
    let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
    let server = Server::start_with(kind, Options { flags, data_dir: None })?;
    let client = Client::connect(&server.endpoint()).await?;
    let mut script = Script::default();
    let played = tokio::time::timeout(Duration::from_secs(40), play(client, &mut script)).await;
    match played {
        Ok(Ok(())) => {}
        Ok(Err(error)) => script.note(format!("broke off: {error:#}")),
        Err(_) => script.note("did not end within 40 seconds"),
    }
    Ok(script.lines)
}

fn revision(header: &Option<pb::ResponseHeader>) -> String {
    header.as_ref().map_or("no header".into(), |header| format!("revision {}", header.revision))
}

async fn put(
    client: &Client,
    key: &str,
    value: &str,
    lease: i64,
) -> Result<Response<pb::PutResponse>, Status> {
    let request = pb::PutRequest {
        key: key.to_owned().into(),
        value: value.to_owned().into(),
        lease,
        ..Default::default()
    };
    client.kv.clone().put(request).await
}

async fn grant(client: &Client, ttl: i64, id: i64) -> Result<()> {
    client.lease.clone().lease_grant(pb::LeaseGrantRequest { ttl, id }).await?;
    Ok(())
}

/// Keys under a prefix, with their leases.
async fn keys(client: &Client) -> Result<String> {
    let request = pb::RangeRequest { key: "\0".into(), range_end: "\0".into(), ..Default::default() };
    let kvs = client.kv.clone().range(request).await?.into_inner().kvs;
    let show = |kv: &vetch_api::mvccpb::KeyValue| format!("{}={}", text(&kv.key), text(&kv.value));
    Ok(kvs.iter().map(show).collect::<Vec<_>>().join(" "))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The result, or a note that there is none yet.
async fn soon<T: Debug>(work: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(Duration::from_millis(400), work).await.ok()
}
