//! Clients of keys and leases: they connect, make requests, and connect again when the server went
//! away.

use std::sync::Arc;
use std::time::Duration;

use vetch_check::Outcome;
use vetch_model::{Answer, Delete, Keys, Op, Put, Request, Txn};

use super::send::Way;
use super::shared::Shared;
use super::traffic::{self, Memory};
use super::values;
use crate::client::Client;
use vetch_testkit::random::Rng;

/// Where a client turns to. It stays with one server of a cluster for as long as that is of use,
/// then goes to the next.
pub(super) struct Place(usize);

impl Place {
    pub(super) fn new(client: u32) -> Place {
        Place(client as usize)
    }

    pub(super) fn next<'a>(&mut self, shared: &'a Shared) -> &'a str {
        self.0 += 1;
        &shared.endpoints[self.0 % shared.endpoints.len()]
    }
}

/// Connects until it works or the recording stops.
pub(super) async fn connect(shared: &Shared, place: &mut Place) -> Option<Client> {
    while !shared.stopped() {
        let attempt = tokio::time::timeout(Duration::from_secs(2), shared.connect(place.next(shared)));
        if let Ok(Ok(client)) = attempt.await {
            return Some(client);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    None
}

/// Reads and writes keys, one request after the other.
pub(super) async fn keys(shared: Arc<Shared>, mut rng: Rng) {
    let id = shared.new_client();
    let mut memory = Memory::new();
    let mut place = Place::new(id);
    while let Some(client) = connect(&shared, &mut place).await {
        while !shared.stopped() {
            sometimes_abandon(&shared, &client, id, &mut rng).await;
            let (request, way) = traffic::request(&shared, &mut rng, &memory);
            let outcome = shared.perform(&client, id, request, way).await;
            traffic::learn(&mut memory, &outcome);
            match outcome {
                Outcome::Unknown => {
                    tokio::time::sleep(shared.plan.pause_after_failure).await;
                    break;
                }
                Outcome::NotDone => tokio::time::sleep(Duration::from_millis(50)).await,
                _ => tokio::time::sleep(shared.plan.pause).await,
            }
        }
    }
}

/// Now and then asks for a lot and goes away in the middle of the answer.
async fn sometimes_abandon(shared: &Shared, client: &Client, id: u32, rng: &mut Rng) {
    if !shared.plan.only_writes && rng.percent(1) {
        let after = Duration::from_micros(rng.between(50, 4_000));
        shared.abandon(client, id, traffic::long_read(), after).await;
    }
}

/// Grants leases, attaches keys, renews, revokes or lets them run out.
pub(super) async fn leases(shared: Arc<Shared>, mut rng: Rng) {
    let id = shared.new_client();
    let mut place = Place::new(id);
    while let Some(client) = connect(&shared, &mut place).await {
        while !shared.stopped() {
            sometimes_abandon(&shared, &client, id, &mut rng).await;
            if one_lease(&shared, &client, id, &mut rng).await.is_none() {
                tokio::time::sleep(shared.plan.pause_after_failure).await;
                break;
            }
        }
    }
}

/// Whether a lease with this id was granted more time than a trial lasts.
pub(super) fn is_long(lease: i64) -> bool {
    lease % 5 == 0
}

/// The life of one lease as its client leads it. None: the connection is of no more use.
async fn one_lease(shared: &Shared, client: &Client, id: u32, rng: &mut Rng) -> Option<()> {
    let lease = shared.new_lease();
    let ttl = if is_long(lease) { 60 } else { rng.between(2, 4) };
    let known = async |request| match shared.perform(client, id, request, Way::Unary).await {
        Outcome::Unknown => None,
        outcome => Some(outcome),
    };
    known(Request::LeaseGrant { id: lease, ttl }).await?;
    let own = format!("/locks/{lease}");
    for index in 0..rng.between(1, 3) {
        let value = values::name(shared.new_value(), 0);
        let put = Put { lease, ..Put::new(format!("{own}/{index}"), value) };
        known(Request::Put(put)).await?;
    }
    if rng.percent(30) {
        // A key that others write as well, and by that take off the lease.
        let put = Put { lease, ..traffic::new_put(shared, rng, b"/registry/leases/000".to_vec()) };
        known(Request::Txn(Txn { success: vec![Op::Put(put)], ..Txn::default() })).await?;
    }
    for _ in 0..rng.below(4) {
        tokio::time::sleep(Duration::from_millis(rng.between(100, 900) as u64)).await;
        let renewed = known(Request::LeaseKeepAlive { id: lease }).await?;
        if matches!(renewed, Outcome::Answered { answer: Answer::LeaseKeepAlive { ttl: 0 }, .. }) {
            return Some(());
        }
    }
    match rng.below(10) {
        0..=3 => known(Request::LeaseRevoke { id: lease }).await?,
        4..=5 => {
            known(Request::Delete(Delete { keys: Keys::between(own.clone(), own + "0"), prev_kv: false }))
                .await?
        }
        // No client revokes it: the server has to.
        _ => return Some(()),
    };
    Some(())
}

/// Compacts behind the watcher of everything, so that its events have no gap.
pub(super) async fn compactor(shared: Arc<Shared>, mut rng: Rng) {
    let Some(interval) = shared.plan.compact_every else { return };
    let id = shared.new_client();
    let mut place = Place::new(id);
    while let Some(client) = connect(&shared, &mut place).await {
        while !shared.stopped() {
            tokio::time::sleep(interval).await;
            sometimes_abandon(&shared, &client, id, &mut rng).await;
            let revision = shared.watched() - shared.plan.compact_behind;
            if revision <= shared.compacted().max(1) {
                continue;
            }
            let outcome = shared.perform(&client, id, Request::Compact { revision }, Way::Unary).await;
            if outcome == Outcome::Unknown {
                break;
            }
        }
    }
}
