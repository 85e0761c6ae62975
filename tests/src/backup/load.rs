//! Load: bursts of clients that race, and quiet moments in between.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::task::JoinSet;
use tokio_stream::StreamExt;
use vetch_api::pb::auth_client::AuthClient;
use vetch_api::{mvccpb, pb};
use vetch_model::{Compare, CompareResult, CompareTarget, Delete, Keys, Op, Put, Request, Txn};

use super::history::{History, Quiet};
use crate::client::Client;
use crate::record::translate;
use vetch_testkit::random::Rng;

/// Under this, each client's own key with the number of its last write.
const LOG: &str = "/log/";
const CLIENTS: u64 = 8;
const KEYS: usize = 40;

pub(super) struct Load {
    pub(super) history: History,
    /// Writes without an answer, by their number.
    unknown: BTreeMap<u64, Txn>,
    next: Arc<AtomicU64>,
    leases: Vec<i64>,
    next_lease: i64,
    pub(super) value_bytes: usize,
}

/// One write and what became of it: the revision, if there was an answer.
type Sent = (u64, Txn, Option<i64>);

impl Load {
    pub(super) fn new() -> Load {
        let next = Arc::new(AtomicU64::new(1));
        Load {
            history: History::default(),
            unknown: BTreeMap::new(),
            next,
            leases: Vec::new(),
            next_lease: 7000,
            value_bytes: 300,
        }
    }

    /// Clients write at once until `stop` is raised or the server is gone.
    pub(super) async fn burst(
        &mut self,
        endpoint: &str,
        rng: &mut Rng,
        stop: Arc<AtomicBool>,
    ) -> Result<Vec<(u64, i64)>> {
        let mut clients = JoinSet::new();
        for index in 0..CLIENTS {
            let client = Client::connect(endpoint).await?;
            let writer = Writer {
                client,
                index,
                rng: Rng::split_mix(rng.draw()),
                next: Arc::clone(&self.next),
                leases: self.leases.clone(),
                stop: Arc::clone(&stop),
                value_bytes: self.value_bytes,
            };
            clients.spawn(writer.run());
        }
        let mut answered = Vec::new();
        while let Some(sent) = clients.join_next().await {
            for (number, txn, revision, at) in sent? {
                match revision {
                    Some(revision) => {
                        answered.push((at, revision));
                        self.history.write(revision, Request::Txn(txn))?;
                    }
                    None => {
                        self.unknown.insert(number, txn);
                    }
                }
            }
        }
        Ok(answered)
    }

    /// Finds out what became of writes without an answer: their revisions tell their numbers.
    pub(super) async fn settle(&mut self, client: &Client) -> Result<()> {
        let newest = client.revision().await?;
        let known = (2..=newest).find(|&revision| !self.history.knows(revision));
        if let Some(first) = known {
            for (revision, events) in watched(client, first, newest).await? {
                if self.history.knows(revision) {
                    continue;
                }
                let log = events.iter().find(|kv| kv.key.starts_with(LOG.as_bytes()));
                let log = log.with_context(|| format!("revision {revision} has no number"))?;
                let number: u64 = std::str::from_utf8(&log.value)?.parse()?;
                let txn = self.unknown.remove(&number);
                let txn =
                    txn.with_context(|| format!("write {number} made revision {revision} uninvited"))?;
                self.history.write(revision, Request::Txn(txn))?;
            }
        }
        // What has not happened by now never will: the server that was asked is gone.
        self.unknown.clear();
        let missing = (2..=newest).find(|&revision| !self.history.knows(revision));
        ensure!(missing.is_none(), "revision {missing:?} was made by no request");
        ensure!(self.history.newest() == newest, "the server has lost revisions behind {newest}");
        Ok(())
    }

    /// Leases, users and a compaction, one after the other, while no other client writes.
    pub(super) async fn quiet(&mut self, client: &Client, rng: &mut Rng) -> Result<()> {
        for _ in 0..rng.between(1, 3) {
            let (id, ttl) = (self.next_lease, rng.between(4_000, 9_000));
            self.next_lease += 1;
            client.lease.clone().lease_grant(pb::LeaseGrantRequest { id, ttl }).await?;
            self.history.quiet(self.history.newest(), Quiet::Request(Request::LeaseGrant { id, ttl }));
            self.leases.push(id);
        }
        if self.leases.len() > 4 {
            let id = self.leases.remove(rng.below(self.leases.len()));
            let before = self.history.newest();
            let answer = client.lease.clone().lease_revoke(pb::LeaseRevokeRequest { id }).await?.into_inner();
            let revision = answer.header.context("no header")?.revision;
            let request = Request::LeaseRevoke { id };
            if revision == before {
                self.history.quiet(before, Quiet::Request(request));
            } else {
                self.history.write(revision, request)?;
            }
        }
        let name = format!("user-{}", self.next_lease);
        let request =
            pb::AuthUserAddRequest { name: name.clone(), password: "p".into(), ..Default::default() };
        AuthClient::new(client.channel.clone()).user_add(request).await?;
        self.history.quiet(self.history.newest(), Quiet::User(name));
        self.compact(client, rng).await
    }

    async fn compact(&mut self, client: &Client, rng: &mut Rng) -> Result<()> {
        let newest = self.history.newest();
        let compacted = self.history.until_after(newest)?.model.compact_revision();
        let revision = newest - rng.between(0, 30);
        if revision <= compacted.max(1) {
            return Ok(());
        }
        client.kv.clone().compact(pb::CompactionRequest { revision, physical: false }).await?;
        self.history.quiet(newest, Quiet::Request(Request::Compact { revision }));
        Ok(())
    }
}

struct Writer {
    client: Client,
    index: u64,
    rng: Rng,
    next: Arc<AtomicU64>,
    leases: Vec<i64>,
    stop: Arc<AtomicBool>,
    value_bytes: usize,
}

impl Writer {
    async fn run(mut self) -> Vec<(u64, Txn, Option<i64>, u64)> {
        let mut sent = Vec::new();
        while !self.stop.load(Ordering::Relaxed) {
            let (number, txn, revision) = self.write().await;
            let is_answered = revision.is_some();
            sent.push((number, txn, revision, now()));
            if !is_answered {
                break;
            }
        }
        sent
    }

    async fn write(&mut self) -> Sent {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let txn = self.txn(number);
        let request = translate::txn(&txn);
        let answer = tokio::time::timeout(Duration::from_secs(20), self.client.kv.clone().txn(request)).await;
        let header = answer.ok().and_then(Result::ok).and_then(|answer| answer.into_inner().header);
        (number, txn, header.map(|header| header.revision))
    }

    /// A put, a put on a lease, a delete or a choice between them; in any case the number of the
    /// write with it.
    fn txn(&mut self, number: u64) -> Txn {
        let key = format!("/k/{:02}", self.rng.below(KEYS));
        let length = self.rng.below(self.value_bytes);
        let mut put = Put::new(key.clone(), format!("{number} {}", "x".repeat(length)));
        let log = Op::Put(Put::new(format!("{LOG}{}", self.index), number.to_string()));
        let delete = Op::Delete(Delete { keys: Keys::single(key.clone()), prev_kv: false });
        let range = Delete { keys: Keys::between(key.clone(), format!("{key}~")), prev_kv: false };
        match self.rng.below(10) {
            0 => Txn { success: vec![log, delete], ..Txn::default() },
            1 => Txn { success: vec![Op::Delete(range), log], ..Txn::default() },
            2..4 => Txn {
                compare: vec![Compare {
                    keys: Keys::single(key),
                    result: CompareResult::Greater,
                    target: CompareTarget::Version(2),
                }],
                success: vec![delete, log.clone()],
                failure: vec![Op::Put(put), log],
            },
            4 if !self.leases.is_empty() => {
                put.lease = *self.rng.pick(&self.leases);
                Txn { success: vec![Op::Put(put), log], ..Txn::default() }
            }
            _ => Txn { success: vec![Op::Put(put), log], ..Txn::default() },
        }
    }
}

/// What each revision changed.
async fn watched(client: &Client, from: i64, upto: i64) -> Result<BTreeMap<i64, Vec<mvccpb::KeyValue>>> {
    let create = pb::WatchCreateRequest {
        key: vec![0].into(),
        range_end: vec![0].into(),
        start_revision: from,
        ..Default::default()
    };
    let union = pb::watch_request::RequestUnion::CreateRequest(create);
    let request = pb::WatchRequest { request_union: Some(union) };
    let requests = tokio_stream::once(request).chain(tokio_stream::pending());
    let mut stream = client.watch.clone().watch(requests).await?.into_inner();
    let mut watched: BTreeMap<i64, Vec<mvccpb::KeyValue>> = BTreeMap::new();
    let collect = async {
        while watched.keys().next_back().is_none_or(|&revision| revision < upto) {
            let answer = stream.message().await?.context("the watch ended")?;
            if answer.canceled {
                bail!("the watch was cancelled: {}", answer.cancel_reason);
            }
            for kv in answer.events.into_iter().filter_map(|event| event.kv) {
                watched.entry(kv.mod_revision).or_default().push(kv);
            }
        }
        Ok(watched)
    };
    tokio::time::timeout(Duration::from_secs(30), collect).await.context("the past was not watched")?
}

/// Milliseconds since 1970.
pub(super) fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}
