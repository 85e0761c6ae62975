//! What all clients of one recording share: the clock, the history as it grows, and when to stop.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tonic::Code;
use vetch_api::pb;
use vetch_check::{History, Operation, Outcome, Watched};
use vetch_model::Request;

use super::Plan;
use super::send::{Way, send, wrote};
use super::translate;
use crate::client::Client;

pub(super) struct Shared {
    pub(super) endpoint: String,
    pub(super) plan: Plan,
    begun: Instant,
    stop: AtomicBool,
    /// Watchers go on until they have been told of this revision.
    stop_watching_at: AtomicI64,
    next_value: AtomicU64,
    next_client: AtomicU32,
    next_lease: AtomicI64,
    /// The newest revision that any answer named.
    revision: AtomicI64,
    /// The newest revision that the watcher of everything has seen whole.
    watched: AtomicI64,
    compacted: AtomicI64,
    acknowledged: AtomicUsize,
    notes: Mutex<Notes>,
}

/// What has been written down so far.
#[derive(Default)]
pub(super) struct Notes {
    pub(super) history: History,
    /// How watch streams ended.
    pub(super) watch_ends: Vec<(Code, String)>,
    /// How requests failed that were not refused by a rule.
    pub(super) failures: BTreeMap<String, usize>,
    /// What no server may say and the history has no word for.
    pub(super) broken: Vec<String>,
    /// Cluster and member, as every header must name them.
    identity: Option<(u64, u64)>,
}

/// A request without an answer for longer than this, on a healthy server, counts as a hang.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

impl Shared {
    pub(super) fn new(endpoint: String, plan: Plan) -> Shared {
        Shared {
            endpoint,
            plan,
            begun: Instant::now(),
            stop: AtomicBool::new(false),
            stop_watching_at: AtomicI64::new(i64::MAX),
            next_value: AtomicU64::new(1),
            next_client: AtomicU32::new(1),
            next_lease: AtomicI64::new(1_000),
            revision: AtomicI64::new(1),
            watched: AtomicI64::new(1),
            compacted: AtomicI64::new(0),
            acknowledged: AtomicUsize::new(0),
            notes: Mutex::default(),
        }
    }

    /// Nanoseconds on the recording's clock.
    pub(super) fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).expect("no trial lasts five hundred years")
    }

    pub(super) fn note<T>(&self, work: impl FnOnce(&mut Notes) -> T) -> T {
        work(&mut self.notes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    pub(super) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(super) fn stop_watching_at(&self, revision: i64) {
        self.stop_watching_at.store(revision, Ordering::Relaxed);
    }

    pub(super) fn last_to_watch(&self) -> i64 {
        self.stop_watching_at.load(Ordering::Relaxed)
    }

    pub(super) fn new_client(&self) -> u32 {
        self.next_client.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn new_value(&self) -> u64 {
        self.next_value.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn new_lease(&self) -> i64 {
        self.next_lease.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn revision(&self) -> i64 {
        self.revision.load(Ordering::Relaxed)
    }

    pub(super) fn watched(&self) -> i64 {
        self.watched.load(Ordering::Relaxed)
    }

    pub(super) fn saw_everything_to(&self, revision: i64) {
        self.watched.fetch_max(revision, Ordering::Relaxed);
    }

    pub(super) fn compacted(&self) -> i64 {
        self.compacted.load(Ordering::Relaxed)
    }

    pub(super) fn acknowledged(&self) -> usize {
        self.acknowledged.load(Ordering::Relaxed)
    }

    /// Writes a watch down that has ended, and answers its place in the history.
    pub(super) fn keep_watch(&self, watched: Watched) -> usize {
        self.note(|notes| {
            notes.history.watches.push(watched);
            notes.history.watches.len() - 1
        })
    }

    /// Writes down what no server may do and the history has no word for.
    pub(super) fn broke(&self, what: String) {
        self.note(|notes| notes.broken.push(what));
    }

    /// Checks what the history leaves out of a header: the identity never changes. Answers the revision.
    pub(super) fn saw_header(&self, header: Option<&pb::ResponseHeader>) -> i64 {
        let Some(header) = header else {
            self.broke("an answer without a header".to_owned());
            return 0;
        };
        self.revision.fetch_max(header.revision, Ordering::Relaxed);
        let identity = (header.cluster_id, header.member_id);
        self.note(|notes| match notes.identity {
            Some(known) if known != identity => {
                notes.broken.push(format!("the server was {known:?} and became {identity:?}"));
            }
            _ => notes.identity = Some(identity),
        });
        header.revision
    }

    /// Sends one request, writes down what became of it, and answers that.
    pub(super) async fn perform(&self, client: &Client, id: u32, request: Request, way: Way) -> Outcome {
        self.perform_within(client, id, request, way, self.plan.request_timeout).await
    }

    pub(super) async fn perform_within(
        &self,
        client: &Client,
        id: u32,
        request: Request,
        way: Way,
        limit: Duration,
    ) -> Outcome {
        let called = self.now();
        let result = tokio::time::timeout(limit, send(client, &request, way)).await;
        let returned = self.now();
        let outcome = match result {
            Ok(Ok((header, answer))) => {
                Outcome::Answered { revision: self.saw_header(header.as_ref()), answer }
            }
            Ok(Err(status)) => {
                let outcome = translate::failure(&status);
                if !matches!(outcome, Outcome::Refused(_)) {
                    self.failed(format!("{:?}: {}", status.code(), status.message()));
                }
                outcome
            }
            Err(_) => {
                self.failed("no answer in time".to_owned());
                Outcome::Unknown
            }
        };
        if wrote(&outcome) {
            self.acknowledged.fetch_add(1, Ordering::Relaxed);
        }
        if let (Request::Compact { revision }, Outcome::Answered { .. }) = (&request, &outcome) {
            self.compacted.fetch_max(*revision, Ordering::Relaxed);
        }
        let operation = Operation { client: id, called, returned, request, outcome: outcome.clone() };
        self.note(|notes| notes.history.operations.push(operation));
        outcome
    }

    fn failed(&self, how: String) {
        self.note(|notes| *notes.failures.entry(how).or_default() += 1);
    }
}
