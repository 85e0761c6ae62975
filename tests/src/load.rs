//! A workload that remembers: several writers, a reader and a watcher, and everything the server has told them.
//!
//! Every value written is unique, so an event can be traced to the one request that caused it. A request that was not
//! answered may or may not have happened: it is kept as unknown and must match at most one revision.
//!
//! The history is judged by `judge`; what goes wrong with the server meanwhile is the trial's business.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::task::{JoinHandle, JoinSet};
use tonic::{Code, Status};
use vetch_api::mvccpb;
use vetch_api::pb;
use vetch_api::pb::request_op::Request as Op;

use crate::chance::Chance;
use crate::client::Client;

/// What one write does to keys: a new value, or none for a delete.
pub(crate) type Effects = Vec<(String, Option<String>)>;

#[derive(Default)]
pub(crate) struct History {
    /// Writes that were acknowledged, by revision.
    pub(crate) acknowledged: Vec<(i64, Effects)>,
    /// Writes that got no answer.
    pub(crate) unknown: Vec<Effects>,
    /// Versions a reader was shown.
    pub(crate) seen: Vec<mvccpb::KeyValue>,
    /// Events in the order they arrived, across all reconnections.
    pub(crate) events: Vec<mvccpb::Event>,
    /// How the watch streams ended.
    pub(crate) watch_ends: Vec<(Code, String)>,
    /// How unanswered requests failed.
    pub(crate) failures: BTreeMap<String, usize>,
    /// Answers that no server may give, such as a revision going backwards.
    pub(crate) broken: Vec<String>,
}

pub(crate) struct Load {
    shared: Arc<Shared>,
    /// Writers and the reader, which stop when told to.
    clients: JoinSet<()>,
    /// The watcher, which stops once it has seen all they did.
    watcher: JoinHandle<()>,
}

struct Shared {
    endpoint: String,
    stop: AtomicBool,
    stop_watching_at: AtomicI64,
    next_value: AtomicU64,
    keys: usize,
    history: Mutex<History>,
}

impl Shared {
    fn with<T>(&self, work: impl FnOnce(&mut History) -> T) -> T {
        work(&mut self.history.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    fn unique(&self) -> String {
        format!("v{}", self.next_value.fetch_add(1, Ordering::Relaxed))
    }
}

/// How long a healthy server may take to answer what is outstanding.
const LIMIT: Duration = Duration::from_secs(30);

impl Load {
    /// Starts the writers, one reader and one watcher. They reconnect for as long as they run.
    pub(crate) fn start(endpoint: &str, writers: usize, keys: usize, seed: u64) -> Load {
        let shared = Arc::new(Shared {
            endpoint: endpoint.to_owned(),
            stop: AtomicBool::new(false),
            stop_watching_at: AtomicI64::new(i64::MAX),
            next_value: AtomicU64::new(0),
            keys,
            history: Mutex::default(),
        });
        let mut clients = JoinSet::new();
        for writer in 0..writers {
            clients.spawn(write(shared.clone(), Chance::for_step(seed, writer)));
        }
        clients.spawn(read(shared.clone(), Chance::for_step(seed, writers)));
        let watcher = tokio::spawn(watch(shared.clone()));
        Load { shared, clients, watcher }
    }

    pub(crate) fn acknowledged(&self) -> usize {
        self.shared.with(|history| history.acknowledged.len())
    }

    /// The last revision the watcher has seen whole.
    pub(crate) fn watched(&self) -> i64 {
        self.shared.with(|history| last_revision(&history.events))
    }

    /// Stops the writers, lets the watcher reach the server's present revision, and hands the history over.
    pub(crate) async fn finish(mut self) -> Result<History> {
        self.shared.stop.store(true, Ordering::Relaxed);
        let end = async { while self.clients.join_next().await.is_some() {} };
        ensure!(tokio::time::timeout(LIMIT, end).await.is_ok(), "requests are neither answered nor refused");
        let client = connect(&self.shared.endpoint).await.context("the server does not answer any more")?;
        let revision = client.revision().await?;
        self.shared.stop_watching_at.store(revision, Ordering::Relaxed);
        let finished = tokio::time::timeout(LIMIT, &mut self.watcher).await;
        let watched = self.watched();
        ensure!(finished.is_ok(), "the watcher reached only revision {watched} of {revision}");
        Ok(self.shared.with(std::mem::take))
    }
}

fn last_revision(events: &[mvccpb::Event]) -> i64 {
    events.last().and_then(|event| event.kv.as_ref()).map_or(1, |kv| kv.mod_revision)
}

/// Connects, with patience for a server that is just coming back.
async fn connect(endpoint: &str) -> Option<Client> {
    for _ in 0..400 {
        if let Ok(client) = Client::connect(endpoint).await {
            return Some(client);
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    None
}

async fn write(shared: Arc<Shared>, mut chance: Chance) {
    while !shared.stopped() {
        let Ok(client) = Client::connect(&shared.endpoint).await else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        while !shared.stopped() {
            if write_once(&shared, &client, &mut chance).await.is_err() {
                break;
            }
        }
    }
}

/// One write; an error means that the connection is of no more use.
async fn write_once(shared: &Shared, client: &Client, chance: &mut Chance) -> Result<(), ()> {
    let mut key = || format!("k{}", chance.below(shared.keys));
    let (one, two, three) = (key(), key(), key());
    let mut kv = client.kv.clone();
    let value = shared.unique();
    match chance.below(10) {
        0..=4 => {
            let request =
                pb::PutRequest { key: one.clone().into(), value: value.clone().into(), ..Default::default() };
            let result = kv.put(request).await.map(|response| (response.into_inner().header, true));
            record(shared, vec![(one, Some(value))], result)
        }
        5 => {
            let request = pb::DeleteRangeRequest { key: one.clone().into(), ..Default::default() };
            let result = kv.delete_range(request).await.map(|response| {
                let response = response.into_inner();
                (response.header, response.deleted > 0)
            });
            record(shared, vec![(one, None)], result)
        }
        6..=7 => compare_and_swap(shared, client, one, value).await,
        _ => {
            if one == two || two == three || one == three {
                return Ok(());
            }
            let other = shared.unique();
            let effects = vec![(one, Some(value)), (two, Some(other)), (three, None)];
            let success = effects.iter().map(operation).collect();
            let result = kv.txn(pb::TxnRequest { success, ..Default::default() }).await.map(|response| {
                let response = response.into_inner();
                let deleted = matches!(
                    response.responses.last().and_then(|op| op.response.as_ref()),
                    Some(pb::response_op::Response::ResponseDeleteRange(delete)) if delete.deleted > 0
                );
                (response.header, deleted)
            });
            record_txn(shared, effects, result)
        }
    }
}

fn operation((key, value): &(String, Option<String>)) -> pb::RequestOp {
    let key = key.clone().into();
    let request = match value {
        Some(value) => {
            Op::RequestPut(pb::PutRequest { key, value: value.clone().into(), ..Default::default() })
        }
        None => Op::RequestDeleteRange(pb::DeleteRangeRequest { key, ..Default::default() }),
    };
    pb::RequestOp { request: Some(request) }
}

/// Reads a key and writes it only if nobody else did in between.
async fn compare_and_swap(shared: &Shared, client: &Client, key: String, value: String) -> Result<(), ()> {
    let mut kv = client.kv.clone();
    let request = pb::RangeRequest { key: key.clone().into(), ..Default::default() };
    let Ok(read) = kv.range(request).await else { return Err(()) };
    let current = read.into_inner().kvs.first().map_or(0, |kv| kv.mod_revision);
    let compare = pb::Compare {
        result: 0,
        target: 2,
        key: key.clone().into(),
        target_union: Some(pb::compare::TargetUnion::ModRevision(current)),
        ..Default::default()
    };
    let effects = vec![(key, Some(value))];
    let request = pb::TxnRequest {
        compare: vec![compare],
        success: effects.iter().map(operation).collect(),
        ..Default::default()
    };
    let result = kv.txn(request).await.map(|response| {
        let response = response.into_inner();
        (response.header, response.succeeded)
    });
    record(shared, effects, result)
}

/// The third effect of a transaction is a delete, which leaves no trace when there was nothing to delete.
fn record_txn(
    shared: &Shared,
    mut effects: Effects,
    result: Result<(Option<pb::ResponseHeader>, bool), Status>,
) -> Result<(), ()> {
    match result {
        Ok((header, deleted)) => {
            if !deleted {
                effects.pop();
            }
            record(shared, effects, Ok((header, true)))
        }
        Err(status) => record(shared, effects, Err(status)),
    }
}

/// Keeps what is now known: acknowledged with its revision, without effect, or unknown.
fn record(
    shared: &Shared,
    effects: Effects,
    result: Result<(Option<pb::ResponseHeader>, bool), Status>,
) -> Result<(), ()> {
    shared.with(|history| match result {
        Ok((Some(header), true)) => {
            history.acknowledged.push((header.revision, effects));
            Ok(())
        }
        Ok((Some(_), false)) => Ok(()),
        Ok((None, _)) => {
            history.broken.push(format!("an answer to {effects:?} has no header"));
            Err(())
        }
        Err(status) => {
            *history.failures.entry(format!("{:?}: {}", status.code(), status.message())).or_default() += 1;
            history.unknown.push(effects);
            Err(())
        }
    })
}

/// Whatever a reader is shown must be there for ever, and its revision may never go backwards, not even over a crash.
async fn read(shared: Arc<Shared>, mut chance: Chance) {
    let mut newest = 0;
    while !shared.stopped() {
        let Ok(client) = Client::connect(&shared.endpoint).await else {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        };
        while !shared.stopped() {
            let key = format!("k{}", chance.below(shared.keys));
            let serializable = chance.percent(50);
            let request = pb::RangeRequest { key: key.into(), serializable, ..Default::default() };
            let Ok(response) = client.kv.clone().range(request).await else { break };
            let response = response.into_inner();
            let revision = response.header.as_ref().map_or(0, |header| header.revision);
            shared.with(|history| {
                if revision < newest {
                    history.broken.push(format!("a reader saw revision {newest} and then {revision}"));
                }
                history.seen.extend(response.kvs);
            });
            newest = newest.max(revision);
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

/// One watcher on everything from the first revision on, which resumes after each break where it left off.
async fn watch(shared: Arc<Shared>) {
    loop {
        let resume = shared.with(|history| last_revision(&history.events)) + 1;
        if resume > shared.stop_watching_at.load(Ordering::Relaxed) {
            return;
        }
        let Some(client) = connect(&shared.endpoint).await else { return };
        if let Err(status) = watch_from(&shared, &client, resume).await {
            shared.with(|history| history.watch_ends.push((status.code(), status.message().to_owned())));
        }
    }
}

async fn watch_from(shared: &Shared, client: &Client, resume: i64) -> Result<(), Status> {
    let create = pb::WatchCreateRequest {
        key: "\0".into(),
        range_end: "\0".into(),
        start_revision: resume,
        prev_kv: true,
        ..Default::default()
    };
    let union = pb::watch_request::RequestUnion::CreateRequest(create);
    let (requests, outgoing) = tokio::sync::mpsc::channel(1);
    requests
        .send(pb::WatchRequest { request_union: Some(union) })
        .await
        .map_err(|_| Status::internal("the request channel closed"))?;
    let outgoing = tokio_stream::wrappers::ReceiverStream::new(outgoing);
    let mut responses = client.watch.clone().watch(outgoing).await?.into_inner();
    loop {
        let message = tokio::time::timeout(Duration::from_millis(200), responses.message()).await;
        match message {
            Ok(Ok(Some(response))) => {
                if response.canceled {
                    shared.with(|history| {
                        history.broken.push(format!(
                            "the watch from {resume} was canceled: {:?}, compacted at {}",
                            response.cancel_reason, response.compact_revision
                        ));
                    });
                    return Err(Status::internal("canceled"));
                }
                shared.with(|history| history.events.extend(response.events));
            }
            Ok(Ok(None)) => return Err(Status::ok("the stream ended")),
            Ok(Err(status)) => return Err(status),
            Err(_) => {}
        }
        let seen = shared.with(|history| last_revision(&history.events));
        if seen >= shared.stop_watching_at.load(Ordering::Relaxed) {
            return Ok(());
        }
    }
}
