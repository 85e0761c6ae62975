//! The recorder: a mixed load of many clients on a real server, and everything that the server sent
//! them.
//!
//! Clients of keys, clients of leases, a compactor, one who looks at lists, watchers and one
//! watcher of everything run until `finish`, however often the server goes away meanwhile. What
//! they got is a `vetch_check::History`, which `verdict` judges. A request without an answer
//! is recorded as unknown: it may have happened or not.
//!
//! Not here: what goes wrong with the server meanwhile, which is the trial's business.

mod clients;
mod closing;
mod operator_calls;
mod send;
mod shared;
mod traffic;
pub(crate) mod translate;
mod values;
mod watchers;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::task::JoinSet;
use tonic::Code;
use vetch_check::{Hashed, History};

use shared::{Shared, TIMEOUT};
use vetch_testkit::random::Rng;

/// Who does what, and how much of it.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) key_clients: usize,
    pub(crate) lease_clients: usize,
    pub(crate) watchers: usize,
    pub(crate) keys: usize,
    /// How long a client rests between two requests.
    pub(crate) pause: Duration,
    /// And after one whose outcome is unknown: the fewer there are, the more certain is the
    /// judgement.
    pub(crate) pause_after_failure: Duration,
    pub(crate) request_timeout: Duration,
    /// How often clients ask whether their connection still leads anywhere; it may be cut without a
    /// word.
    pub(crate) keep_alive: Option<Duration>,
    pub(crate) compact_every: Option<Duration>,
    /// How many revisions behind the watcher of everything is compacted.
    pub(crate) compact_behind: i64,
    /// Nothing but puts and deletes of single keys.
    pub(crate) only_writes: bool,
    /// How many in a hundred values are large, and how large.
    pub(crate) large_percent: usize,
    pub(crate) large_bytes: usize,
}

impl Plan {
    pub(crate) fn new(seed: u64) -> Plan {
        Plan {
            seed,
            key_clients: 8,
            lease_clients: 3,
            watchers: 6,
            keys: 40,
            pause: Duration::from_millis(1),
            pause_after_failure: Duration::ZERO,
            request_timeout: Duration::from_millis(1_000),
            keep_alive: None,
            compact_every: Some(Duration::from_millis(300)),
            compact_behind: 100,
            only_writes: false,
            large_percent: 0,
            large_bytes: 0,
        }
    }
}

/// A lease that is granted first and must outlive everything.
const LASTING_LEASE: i64 = 1;
const LASTING_TTL: i64 = 1_000;

/// A finished recording.
#[derive(Default)]
pub(crate) struct Recording {
    pub(crate) history: History,
    /// How the watch streams ended.
    pub(crate) watch_ends: Vec<(Code, String)>,
    /// How requests failed that no rule refused.
    pub(crate) failures: BTreeMap<String, usize>,
    /// What no server may say and the history has no word for.
    pub(crate) broken: Vec<String>,
    pub(crate) acknowledged: usize,
}

pub(crate) struct Recorder {
    shared: Arc<Shared>,
    clients: JoinSet<()>,
    watchers: JoinSet<()>,
}

impl Recorder {
    /// Starts all clients. They reconnect for as long as they run.
    pub(crate) async fn start(endpoints: Vec<String>, plan: Plan) -> Result<Recorder> {
        let shared = Arc::new(Shared::new(endpoints, plan));
        closing::grant_lasting_lease(&shared).await?;
        let plan = &shared.plan;
        let mut clients = JoinSet::new();
        let mut watchers = JoinSet::new();
        let mut tasks = 0;
        let mut rng = || {
            tasks += 1;
            Rng::for_step(plan.seed, tasks)
        };
        watchers.spawn(watchers::everything(shared.clone()));
        for _ in 0..plan.watchers {
            watchers.spawn(watchers::some(shared.clone(), rng()));
        }
        for _ in 0..plan.key_clients {
            clients.spawn(clients::keys(shared.clone(), rng()));
        }
        for _ in 0..plan.lease_clients {
            clients.spawn(clients::leases(shared.clone(), rng()));
        }
        clients.spawn(clients::compactor(shared.clone(), rng()));
        if !plan.only_writes {
            clients.spawn(operator_calls::around(shared.clone(), rng()));
        }
        Ok(Recorder { shared, clients, watchers })
    }

    /// Writes acknowledged so far.
    pub(crate) fn acknowledged(&self) -> usize {
        self.shared.acknowledged()
    }

    /// Stops the clients and lets every watcher reach the present. The server must be well again:
    /// that it answers, that leases run out, that a write succeeds and that all watchers catch up
    /// is checked here.
    pub(crate) async fn settle(&mut self) -> Result<()> {
        self.shared.stop();
        let end = async { while self.clients.join_next().await.is_some() {} };
        ensure!(
            tokio::time::timeout(TIMEOUT, end).await.is_ok(),
            "requests are neither answered nor refused"
        );
        closing::end_leases(&self.shared).await?;
        let revision = closing::write_once(&self.shared).await?;
        self.shared.stop_watching_at(revision);
        let end = async { while self.watchers.join_next().await.is_some() {} };
        let caught_up = tokio::time::timeout(TIMEOUT, end).await.is_ok();
        self.watchers.abort_all();
        let (late, watched) = (self.watchers.len(), self.shared.watched());
        ensure!(
            caught_up,
            "{late} watchers did not get revision {revision}; the one of everything is at {watched}"
        );
        Ok(())
    }

    /// Deletes something that is there; the server must let it, whatever else it refuses.
    pub(crate) async fn delete_something(&self) -> Result<()> {
        closing::delete_something(&self.shared).await
    }

    /// HashKV of everything, now.
    pub(crate) async fn hash(&self) -> Result<Hashed> {
        closing::hash(&self.shared, &self.shared.endpoints[0]).await
    }

    /// HashKV of each server of a cluster, once it has everything.
    pub(crate) async fn hashes(&self) -> Result<Vec<Hashed>> {
        let mut hashes = Vec::new();
        for endpoint in &self.shared.endpoints {
            closing::catch_up(&self.shared, endpoint).await?;
            hashes.push(closing::hash(&self.shared, endpoint).await?);
        }
        Ok(hashes)
    }

    /// Whether a write and a read of it succeed by way of one server.
    pub(crate) async fn serves(&self, endpoint: &str) -> bool {
        closing::serves(&self.shared, endpoint, self.shared.new_client()).await
    }

    /// Sends a write to one server without waiting for its outcome.
    pub(crate) fn probe(&mut self, endpoint: &str) {
        let (shared, endpoint) = (Arc::clone(&self.shared), endpoint.to_owned());
        let id = shared.new_client();
        self.clients.spawn(async move { closing::probe(&shared, &endpoint, id).await });
    }

    /// Reads from what one server has, whatever became of the others.
    pub(crate) async fn reads_here(&self, endpoint: &str) -> Result<()> {
        closing::reads_here(&self.shared, endpoint, self.shared.new_client()).await
    }

    /// A write that must not succeed: in which words it is refused, within `limit`.
    pub(crate) async fn write_fails(&self, endpoint: &str, limit: Duration) -> Result<String> {
        closing::write_fails(&self.shared, endpoint, self.shared.new_client(), limit).await
    }

    /// A write of `key` that must succeed. Answers its revision.
    pub(crate) async fn write_to(&self, endpoint: &str, key: &str) -> Result<i64> {
        closing::write_to(&self.shared, endpoint, self.shared.new_client(), key).await
    }

    /// The time on the recording's clock.
    pub(crate) fn now(&self) -> Duration {
        Duration::from_nanos(self.shared.now())
    }

    /// When another server than `member` first acknowledged a write after `since`.
    pub(crate) fn first_write_by_another(&self, member: u64, since: Duration) -> Option<Duration> {
        let since = u64::try_from(since.as_nanos()).ok()?;
        self.shared.first_write_by_another(member, since).map(Duration::from_nanos)
    }

    /// Reads everything that is left, now and in the past, once more. Nothing may happen to the
    /// server any more.
    pub(crate) async fn close(&self) -> Result<()> {
        closing::read_everything(&self.shared).await?;
        closing::check_lasting_lease(&self.shared).await
    }

    /// The recording as far as it has come.
    pub(crate) fn take(&mut self) -> Recording {
        self.clients.abort_all();
        self.watchers.abort_all();
        let notes = self.shared.note(std::mem::take);
        Recording {
            history: notes.history,
            watch_ends: notes.watch_ends,
            failures: notes.failures,
            broken: notes.broken,
            acknowledged: self.shared.acknowledged(),
        }
    }
}
