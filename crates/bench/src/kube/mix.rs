//! What a cluster of N nodes asks of its store in a second, by source.
//!
//! Nodes renew their leases every 10 s and report their state every 5 min; one pod in a hundred
//! nodes is created and one deleted every second. What a pod costs between its creation and its end
//! was counted in a real control plane.

use std::time::{Duration, Instant};

use super::resources::Kind;

/// One kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// Update of an object of that kind.
    Update(Kind),
    CreatePod,
    DeletePod,
    /// A delete that is based on an old state of the pod: refused, and answered with the new one.
    DeleteStale,
    CreateEvent,
    Get(Kind),
    /// Read of the current revision, then the wait until a watch has reached it.
    Consistent,
    /// The next page of a list of all pods.
    Page,
    Grant,
    Compact,
}

/// Classes of the report.
pub(super) const CLASSES: [&str; 14] = [
    "lease update",
    "node update",
    "pod create",
    "pod update",
    "pod delete",
    "other update",
    "event create",
    "get",
    "revision read",
    "consistent read",
    "lease grant",
    "write to event",
    "page of 500 pods",
    "compaction",
];
pub(super) const REVISION: usize = 8;
pub(super) const CONSISTENT: usize = 9;
pub(super) const EVENT: usize = 11;
/// Classes before this one have to be fast.
pub(super) const JUDGED: usize = 11;

impl Ask {
    pub(super) fn class(self) -> usize {
        match self {
            Ask::Update(Kind::Lease) => 0,
            Ask::Update(Kind::Node) => 1,
            Ask::CreatePod => 2,
            Ask::Update(Kind::Pod) => 3,
            Ask::DeletePod | Ask::DeleteStale => 4,
            Ask::Update(_) => 5,
            Ask::CreateEvent => 6,
            Ask::Get(_) => 7,
            Ask::Consistent => REVISION,
            Ask::Grant => 10,
            Ask::Page => 12,
            Ask::Compact => 13,
        }
    }
}

/// Requests of one kind at a fixed rate.
pub(super) struct Source {
    pub(super) ask: Ask,
    every: Duration,
    pub(super) due: Instant,
}

impl Source {
    /// The next one is due an interval later, whatever became of this.
    pub(super) fn advance(&mut self) {
        self.due += self.every;
    }
}

pub(super) struct Rates {
    pub(super) nodes: usize,
    pub(super) apiservers: usize,
    /// Time between two compactions.
    pub(super) compaction: Duration,
}

/// All sources, each beginning at another moment of its interval.
pub(super) fn sources(rates: &Rates, begun: Instant) -> Vec<Source> {
    let nodes = rates.nodes as f64;
    let pods = nodes / 100.0;
    let per_second = [
        (Ask::Update(Kind::Lease), nodes / 10.0),
        (Ask::Update(Kind::Node), nodes / 300.0),
        (Ask::CreatePod, pods),
        // 2.6 updates until a pod runs, 3.9 until it is gone.
        (Ask::Update(Kind::Pod), 6.5 * pods),
        (Ask::DeletePod, pods),
        (Ask::DeleteStale, 0.8 * pods),
        (Ask::CreateEvent, 1.7 * pods + nodes / 1250.0),
        (Ask::Update(Kind::Slice), 1.4 * pods),
        (Ask::Update(Kind::Endpoints), 1.4 * pods),
        (Ask::Update(Kind::Deployment), 0.8 * pods),
        (Ask::Update(Kind::ReplicaSet), 0.8 * pods),
        (Ask::Get(Kind::Pod), 7.1 * pods),
        (Ask::Get(Kind::ServiceAccount), pods),
        (Ask::Consistent, (5.0 + nodes / 200.0).min(50.0)),
        (Ask::Page, 2.0),
        (Ask::Grant, 0.2 * rates.apiservers as f64),
        (Ask::Compact, 1.0 / rates.compaction.as_secs_f64().max(0.1)),
    ];
    let count = per_second.len() as f64;
    let source = |(place, (ask, rate)): (usize, (Ask, f64))| {
        let every = Duration::from_secs_f64(1.0 / rate.max(1e-3));
        Source { ask, every, due: begun + every.mul_f64(place as f64 / count) }
    };
    per_second.into_iter().enumerate().map(source).collect()
}
