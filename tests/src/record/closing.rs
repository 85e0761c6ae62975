//! The trial's own questions, first and last: does a long lease live, do short ones end, does a
//! write succeed, what is the whole state, now and at many revisions of the past, and what is the
//! whole history, watched once more?

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use vetch_api::pb;
use vetch_check::{Finish, Hashed, Outcome};
use vetch_model::{Answer, Delete, Keys, Put, Range, Request};

use super::clients::is_long;
use super::send::Way;
use super::shared::{Shared, TIMEOUT};
use super::{LASTING_LEASE, LASTING_TTL, values, watchers};
use crate::client::Client;

/// Into how many steps the readable past is divided.
const LOOKS: i64 = 30;

async fn connect(shared: &Shared) -> Result<Client> {
    connect_to(&shared.endpoints[0]).await
}

async fn connect_to(endpoint: &str) -> Result<Client> {
    Client::connect(endpoint).await.context("the server does not answer any more")
}

async fn ask(shared: &Shared, client: &Client, id: u32, request: Request) -> Result<Outcome> {
    let outcome = shared.perform_within(client, id, request.clone(), Way::Unary, TIMEOUT).await;
    ensure!(outcome != Outcome::Unknown, "a healthy server did not answer {request:?}");
    Ok(outcome)
}

pub(super) async fn grant_lasting_lease(shared: &Shared) -> Result<()> {
    let client = connect(shared).await?;
    let request = Request::LeaseGrant { id: LASTING_LEASE, ttl: LASTING_TTL };
    let outcome = ask(shared, &client, shared.new_client(), request).await?;
    ensure!(matches!(outcome, Outcome::Answered { .. }), "the first lease was not granted: {outcome:?}");
    Ok(())
}

/// The lease has outlived everything with nearly all of its time, and never with more than it was
/// given.
pub(super) async fn check_lasting_lease(shared: &Shared) -> Result<()> {
    let client = connect(shared).await?;
    let request = pb::LeaseTimeToLiveRequest { id: LASTING_LEASE, keys: false };
    let left = client.lease.clone().lease_time_to_live(request).await?.into_inner();
    ensure!(left.granted_ttl == LASTING_TTL, "the lease was granted {LASTING_TTL} and is now {left:?}");
    let elapsed = i64::try_from(shared.now() / 1_000_000_000).unwrap_or(i64::MAX);
    let possible = LASTING_TTL - elapsed - 5..=LASTING_TTL;
    ensure!(possible.contains(&left.ttl), "after {elapsed} s the lease's time is wrong: {left:?}");
    Ok(())
}

/// Revokes what would outlast the trial, and waits for the rest to run out.
pub(super) async fn end_leases(shared: &Shared) -> Result<()> {
    let client = connect(shared).await?;
    let id = shared.new_client();
    let begun = Instant::now();
    loop {
        let response = client.lease.clone().lease_leases(pb::LeaseLeasesRequest {}).await?.into_inner();
        let mut left: Vec<i64> = response.leases.iter().map(|lease| lease.id).collect();
        left.retain(|lease| *lease != LASTING_LEASE);
        if left.is_empty() {
            return Ok(());
        }
        ensure!(begun.elapsed() < TIMEOUT, "leases of a few seconds do not run out: {left:?}");
        for lease in left.into_iter().filter(|lease| is_long(*lease)) {
            ask(shared, &client, id, Request::LeaseRevoke { id: lease }).await?;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// A write that has to succeed; only a server that is just getting well may refuse it for a while.
/// Answers its revision.
pub(super) async fn write_once(shared: &Shared) -> Result<i64> {
    let client = connect(shared).await?;
    let id = shared.new_client();
    let begun = Instant::now();
    loop {
        let put = Put::new("/last", values::name(shared.new_value(), 0));
        match ask(shared, &client, id, Request::Put(put)).await? {
            Outcome::Answered { revision, .. } => return Ok(revision),
            other if begun.elapsed() > TIMEOUT => bail!("the last write does not succeed: {other:?}"),
            _ => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

/// Deletes all keys of one kind until there were some, because other clients may have been quicker.
pub(super) async fn delete_something(shared: &Shared) -> Result<()> {
    let client = connect(shared).await?;
    let id = shared.new_client();
    for kind in ["pods", "nodes", "leases"].iter().cycle().take(60) {
        let keys = Keys::between(format!("/registry/{kind}/"), format!("/registry/{kind}0"));
        match ask(shared, &client, id, Request::Delete(Delete { keys, prev_kv: false })).await? {
            Outcome::Answered { answer: Answer::Delete(deleted), .. } if deleted.deleted > 0 => return Ok(()),
            Outcome::Answered { .. } => tokio::time::sleep(Duration::from_millis(20)).await,
            other => bail!("a delete was not done: {other:?}"),
        }
    }
    bail!("there was never anything to delete")
}

/// A write and a read of it by way of one server. True if both were answered.
pub(super) async fn serves(shared: &Shared, endpoint: &str, id: u32) -> bool {
    let Ok(client) = connect_to(endpoint).await else { return false };
    let key = format!("/serves/{id}");
    let put = Put::new(key.clone(), values::name(shared.new_value(), 0));
    for request in [Request::Put(put), Request::Range(Range::new(Keys::single(key)))] {
        let outcome = shared.perform(&client, id, request, Way::Unary).await;
        if !matches!(outcome, Outcome::Answered { .. }) {
            return false;
        }
    }
    true
}

/// A write that may succeed.
pub(super) async fn probe(shared: &Shared, endpoint: &str, id: u32) {
    let Ok(client) = shared.connect(endpoint).await else { return };
    let put = Put::new(format!("/probe/{id}"), values::name(shared.new_value(), 0));
    shared.perform(&client, id, Request::Put(put), Way::Unary).await;
}

/// A write that must not succeed: in which words it is refused, within `limit`.
pub(super) async fn write_fails(shared: &Shared, endpoint: &str, id: u32, limit: Duration) -> Result<String> {
    let client = connect_to(endpoint).await?;
    let put = Put::new("/refused", values::name(shared.new_value(), 0));
    let (outcome, words) = shared.perform_with_text(&client, id, Request::Put(put), Way::Unary, limit).await;
    ensure!(
        !matches!(outcome, Outcome::Answered { .. }),
        "a write was acknowledged by {endpoint}: {outcome:?}"
    );
    words.with_context(|| format!("{endpoint} neither took nor refused a write within {limit:?}"))
}

/// A write that must succeed. Answers its revision.
pub(super) async fn write_to(shared: &Shared, endpoint: &str, id: u32, key: &str) -> Result<i64> {
    let client = connect_to(endpoint).await?;
    let put = Put::new(key, values::name(shared.new_value(), 0));
    match ask(shared, &client, id, Request::Put(put)).await? {
        Outcome::Answered { revision, .. } => Ok(revision),
        other => bail!("a write was not done: {other:?}"),
    }
}

/// A read of all keys from what this very server has.
pub(super) async fn reads_here(shared: &Shared, endpoint: &str, id: u32) -> Result<()> {
    let client = connect_to(endpoint).await?;
    let range = Request::Range(Range { serializable: true, ..Range::new(Keys::all()) });
    let outcome = shared.perform_within(&client, id, range, Way::Unary, TIMEOUT).await;
    ensure!(matches!(outcome, Outcome::Answered { .. }), "a serializable read failed: {outcome:?}");
    Ok(())
}

/// Waits until a server has everything that any server has shown.
pub(super) async fn catch_up(shared: &Shared, endpoint: &str) -> Result<()> {
    let client = connect_to(endpoint).await?;
    let begun = Instant::now();
    loop {
        let status = client.maintenance.clone().status(pb::StatusRequest {}).await?.into_inner();
        let revision = status.header.context("a status without a header")?.revision;
        if revision >= shared.revision() {
            return Ok(());
        }
        ensure!(
            begun.elapsed() < TIMEOUT,
            "{endpoint} is still at revision {revision} of {}",
            shared.revision()
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// HashKV of everything. It goes into the history only if the history knows every value in full.
pub(super) async fn hash(shared: &Shared, endpoint: &str) -> Result<Hashed> {
    let client = connect_to(endpoint).await?;
    let called = shared.now();
    let request = pb::HashKvRequest::default();
    let response = client.maintenance.clone().hash_kv(request).await.context("HashKV")?.into_inner();
    let hashed = Hashed {
        called,
        returned: shared.now(),
        revision: response.hash_revision,
        compact_revision: response.compact_revision,
        hash: response.hash,
    };
    if shared.plan.large_percent == 0 {
        shared.note(|notes| notes.history.hashes.push(hashed));
    }
    Ok(hashed)
}

/// Reads everything, at many revisions, and watches the whole history once more.
pub(super) async fn read_everything(shared: &Shared) -> Result<()> {
    let client = connect(shared).await?;
    let id = shared.new_client();
    let (first, revision) = (shared.compacted().max(1), shared.revision());
    let step = usize::try_from((revision - first) / LOOKS).unwrap_or(0).max(1);
    for at in (first..=revision).step_by(step) {
        ask(shared, &client, id, Request::Range(Range { revision: at, ..Range::new(Keys::all()) })).await?;
    }
    let range = shared.note(|notes| notes.history.operations.len());
    let newest = ask(shared, &client, id, Request::Range(Range::new(Keys::all()))).await?;
    let Outcome::Answered { revision: newest, .. } = newest else { bail!("the last read was not answered") };
    shared.stop_watching_at(newest);
    for endpoint in &shared.endpoints {
        let client = connect_to(endpoint).await?;
        let again = tokio::time::timeout(TIMEOUT, watchers::again(shared, &client, first));
        let watch = again.await.context("a fresh watcher never reached the present")??;
        shared.note(|notes| notes.history.finish = Some(Finish { range, watch }));
    }
    Ok(())
}
