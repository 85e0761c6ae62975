//! What all clients of one recording share: the clock, the history as it grows, and when to stop.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tonic::Code;
use vetch_api::pb;
use vetch_check::{History, Operation, Outcome, Watched};
use vetch_model::{Refusal, Request};

use super::Plan;
use super::send::{Way, send, wrote};
use super::translate;
use crate::client::Client;

pub(super) struct Shared {
    /// Of one server, or of all servers of a cluster.
    pub(super) endpoints: Vec<String>,
    pub(super) plan: Plan,
    begun: Instant,
    stop: AtomicBool,
    /// Watchers go on until they have got this revision.
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
    /// The cluster and its members, as every header must name them.
    cluster: Option<u64>,
    members: BTreeSet<u64>,
    /// Who acknowledged writes, from when on.
    writers: Vec<(u64, u64)>,
}

/// A request without an answer for longer than this, on a healthy server, counts as a hang.
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);

impl Shared {
    pub(super) fn new(endpoints: Vec<String>, plan: Plan) -> Shared {
        Shared {
            endpoints,
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

    /// Checks what the history leaves out of a header: the identity never changes. Answers the
    /// revision.
    pub(super) fn saw_header(&self, header: Option<&pb::ResponseHeader>) -> i64 {
        let Some(header) = header else {
            self.broke("an answer without a header".to_owned());
            return 0;
        };
        self.revision.fetch_max(header.revision, Ordering::Relaxed);
        self.note(|notes| {
            let known = *notes.cluster.get_or_insert(header.cluster_id);
            let is_new = notes.members.insert(header.member_id);
            if known != header.cluster_id || is_new && notes.members.len() > self.endpoints.len() {
                notes
                    .broken
                    .push(format!("the server was {known}, {:?} and became {header:?}", notes.members));
            }
        });
        header.revision
    }

    /// Whether several servers answer, each as far as it has come where that is allowed.
    pub(super) fn in_cluster(&self) -> bool {
        self.endpoints.len() > 1
    }

    /// Writes down who acknowledged a write, if it was not the same as the last time.
    fn wrote_at(&self, returned: u64, member: u64) {
        self.note(|notes| {
            if notes.writers.last().is_none_or(|(_, last)| *last != member) {
                notes.writers.push((returned, member));
            }
        });
    }

    /// When another server than `member` first acknowledged a write after `since`.
    pub(super) fn first_write_by_another(&self, member: u64, since: u64) -> Option<u64> {
        self.note(|notes| {
            let other = notes.writers.iter().find(|(at, writer)| *at > since && *writer != member);
            other.map(|(at, _)| *at)
        })
    }

    pub(super) async fn connect(&self, endpoint: &str) -> anyhow::Result<Client> {
        Client::connect_with(endpoint, self.plan.keep_alive).await
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
        self.perform_with_text(client, id, request, way, limit).await.0
    }

    /// The same, with the words in which it failed.
    pub(super) async fn perform_with_text(
        &self,
        client: &Client,
        id: u32,
        request: Request,
        way: Way,
        limit: Duration,
    ) -> (Outcome, Option<String>) {
        let called = self.now();
        let result = tokio::time::timeout(limit, send(client, &request, way)).await;
        let returned = self.now();
        let mut member = None;
        let mut words = None;
        let outcome = match result {
            Ok(Ok((header, answer))) => {
                member = header.as_ref().map(|header| header.member_id);
                Outcome::Answered { revision: self.saw_header(header.as_ref()), answer }
            }
            Ok(Err(status)) => {
                let outcome = translate::failure(&status);
                let text = format!("{:?}: {}", status.code(), status.message());
                if !matches!(outcome, Outcome::Refused(_)) {
                    self.failed(text.clone());
                }
                words = Some(text);
                match outcome {
                    // A server that is behind does not know of what another one has shown.
                    Outcome::Refused(Refusal::FutureRevision)
                        if self.in_cluster() && is_serializable(&request) =>
                    {
                        Outcome::NotDone
                    }
                    outcome => outcome,
                }
            }
            Err(_) => {
                self.failed("no answer in time".to_owned());
                Outcome::Unknown
            }
        };
        if wrote(&outcome) {
            self.acknowledged.fetch_add(1, Ordering::Relaxed);
            self.wrote_at(returned, member.unwrap_or_default());
        }
        if let (Request::Compact { revision }, Outcome::Answered { .. }) = (&request, &outcome) {
            self.compacted.fetch_max(*revision, Ordering::Relaxed);
        }
        let operation = Operation { client: id, called, returned, request, outcome: outcome.clone() };
        self.note(|notes| notes.history.operations.push(operation));
        (outcome, words)
    }

    /// Sends a request whose answer is long and lets go of it before it is all there. What it did
    /// is not known.
    pub(super) async fn abandon(&self, client: &Client, id: u32, request: Request, after: Duration) {
        let called = self.now();
        // Dropping the call is what tells the server.
        let _ = tokio::time::timeout(after, send(client, &request, Way::Unary)).await;
        let (returned, outcome) = (self.now(), Outcome::Unknown);
        let operation = Operation { client: id, called, returned, request, outcome };
        self.note(|notes| notes.history.operations.push(operation));
    }

    fn failed(&self, how: String) {
        self.note(|notes| *notes.failures.entry(how).or_default() += 1);
    }
}

fn is_serializable(request: &Request) -> bool {
    matches!(request, Request::Range(range) if range.serializable)
}
