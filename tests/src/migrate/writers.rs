//! Writers that remember what they were told.
//!
//! Every value is written once in the whole trial, so where it turns up tells which request it came
//! from. A writer has keys of its own. One kind talks to Vetch from the beginning, which passes it
//! on; the other talks to etcd until that refuses it, and to Vetch from then on, as clients do
//! whose configuration is changed at that moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::task::JoinHandle;
use tonic::{Code, Status};
use vetch_api::pb;
use vetch_api::pb::request_op::Request;

use crate::client::Client;
use vetch_testkit::random::Rng;

/// Keys of one writer.
const KEYS: usize = 12;
/// The lease that some keys are attached to.
pub(super) const LEASE: i64 = 7777;

/// What a request would do: keys, with their values or none for a delete.
pub(super) type Changes = Vec<(String, Option<String>)>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Done, at this revision.
    Acknowledged(i64),
    /// Refused by the fence: not done.
    Fenced,
    /// The answer never came.
    Unknown,
}

#[derive(Debug, Clone)]
pub(super) struct Attempt {
    pub(super) changes: Changes,
    pub(super) outcome: Outcome,
    pub(super) begun: Instant,
    pub(super) ended: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// Always by Vetch.
    Through,
    /// By etcd as long as that takes writes.
    Direct,
}

/// All attempts of one writer, in order.
pub(super) struct Diary {
    pub(super) way: Way,
    pub(super) attempts: Vec<Attempt>,
}

pub(super) struct Writers {
    stop: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<Diary>>,
}

impl Writers {
    pub(super) fn start(etcd: &str, vetch: &str, ways: &[Way], seed: u64) -> Writers {
        let stop = Arc::new(AtomicBool::new(false));
        let mut tasks = Vec::new();
        for (number, &way) in ways.iter().enumerate() {
            let writer = Writer {
                name: format!("w{number}"),
                endpoint: if way == Way::Direct { etcd.to_owned() } else { vetch.to_owned() },
                vetch: vetch.to_owned(),
                rng: Rng::for_step(seed, number),
                stop: Arc::clone(&stop),
                count: 0,
            };
            tasks.push(tokio::spawn(writer.write(way)));
        }
        Writers { stop, tasks }
    }

    pub(super) async fn stop(self) -> Result<Vec<Diary>> {
        self.stop.store(true, Ordering::Relaxed);
        let mut diaries = Vec::new();
        for task in self.tasks {
            diaries.push(task.await.context("a writer failed")?);
        }
        Ok(diaries)
    }
}

struct Writer {
    name: String,
    endpoint: String,
    vetch: String,
    rng: Rng,
    stop: Arc<AtomicBool>,
    count: usize,
}

impl Writer {
    async fn write(mut self, way: Way) -> Diary {
        let mut diary = Diary { way, attempts: Vec::new() };
        let mut client = None;
        while !self.stop.load(Ordering::Relaxed) {
            if client.is_none() {
                let connecting =
                    tokio::time::timeout(Duration::from_secs(1), Client::connect(&self.endpoint));
                client = connecting.await.ok().and_then(Result::ok);
            }
            let Some(connected) = &client else {
                tokio::time::sleep(Duration::from_millis(20)).await;
                continue;
            };
            let attempt = self.attempt(connected).await;
            match attempt.outcome {
                Outcome::Acknowledged(_) => {}
                Outcome::Fenced => {
                    self.endpoint = self.vetch.clone();
                    client = None;
                }
                Outcome::Unknown => client = None,
            }
            diary.attempts.push(attempt);
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
        diary
    }

    async fn attempt(&mut self, client: &Client) -> Attempt {
        let changes = self.changes();
        let success = changes.iter().map(|(key, value)| self.operation(key, value.as_deref())).collect();
        let request = pb::TxnRequest { success, ..Default::default() };
        let begun = Instant::now();
        let mut kv = client.kv.clone();
        let answer = tokio::time::timeout(Duration::from_secs(10), kv.txn(request)).await;
        let outcome = match answer {
            Ok(Ok(answer)) => {
                Outcome::Acknowledged(answer.into_inner().header.map_or(0, |header| header.revision))
            }
            Ok(Err(status)) if is_fence(&status) => Outcome::Fenced,
            Ok(Err(_)) | Err(_) => Outcome::Unknown,
        };
        Attempt { changes, outcome, begun, ended: Instant::now() }
    }

    /// One put, or several changes that belong together. There is always at least one put.
    fn changes(&mut self) -> Changes {
        let mut changes: Changes = Vec::new();
        let first = self.rng.below(KEYS);
        let more = if self.rng.percent(40) { 1 + self.rng.below(3) } else { 0 };
        for place in 0..=more {
            let key = format!("/{}/{:02}", self.name, (first + place) % KEYS);
            self.count += 1;
            let value = format!("{}-{}-{}", self.name, self.count, "x".repeat(self.rng.below(200)));
            let deletes = place > 0 && self.rng.percent(40);
            changes.push((key, (!deletes).then_some(value)));
        }
        changes
    }

    /// Every third key hangs on the lease.
    fn operation(&self, key: &str, value: Option<&str>) -> pb::RequestOp {
        let request = match value {
            Some(value) => {
                let is_leased = key.as_bytes().last().is_some_and(|last| last % 3 == 0);
                let lease = if is_leased { LEASE } else { 0 };
                let (key, value) = (key.to_owned().into(), value.to_owned().into());
                Request::RequestPut(pb::PutRequest { key, value, lease, ..Default::default() })
            }
            None => Request::RequestDeleteRange(pb::DeleteRangeRequest {
                key: key.to_owned().into(),
                ..Default::default()
            }),
        };
        pb::RequestOp { request: Some(request) }
    }
}

fn is_fence(status: &Status) -> bool {
    status.code() == Code::DataLoss && status.message().contains("corrupt cluster")
}
