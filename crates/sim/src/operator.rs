//! What operators ask: lists of leases and alarms, status, the keys of a lease. All of it is
//! recorded.
//!
//! Clients also raise alarms, each of a member of its own that is no server: those no server raises
//! or lowers by itself.

use std::rc::Rc;

use vetch_check::{Alarm, Listing, Outcome};
use vetch_node::Node;
use vetch_node::error::NodeError;
use vetch_node::types::{AlarmAction, AlarmSelector};
use vetch_store::request::AlarmKind;

use crate::coverage::Rare;
use crate::env::Env;
use crate::time::MILLI;
use crate::trace::say;
use crate::translate;
use crate::workload::Memory;

/// The number of NOSPACE in the API.
const NO_SPACE: i32 = 1;
/// Members of clients' alarms have numbers from here on.
const MEMBERS: u64 = 1_000;

/// One look at something. It must come, and agree with itself.
pub(crate) async fn around(env: &Rc<Env>, node: &Node, client: u32, memory: &Memory) {
    let what = memory.borrow_mut().rng().below(10);
    match what {
        0..=2 => status(env, node),
        3..=5 => leases(env, node).await,
        6 if memory.borrow_mut().rng().one_in(3) => raise_alarm(env, node, u64::from(client)).await,
        6 | 7 => alarms(env, node),
        _ => keys_of_a_lease(env, node, memory).await,
    }
}

/// What one server of several says: its status, and all leases if it writes.
pub(crate) async fn at_server(env: &Rc<Env>, node: &Node) {
    status(env, node);
    leases(env, node).await;
}

/// A server of several answers for itself, as far as it has come.
fn status(env: &Env, node: &Node) {
    let called = env.recorder.borrow_mut().stamp(env.now());
    let status = node.status();
    if status.compact_revision > status.revision {
        env.violation(format!("compacted beyond the newest revision: {status:?}"));
    }
    // As a server shows it: at least a page.
    let db_size = i64::try_from(status.live_bytes.max(4096)).unwrap_or(i64::MAX);
    let leader = node.identity().member_id;
    let listing = Listing::Status { db_size, db_size_in_use: 0, leader, term: status.term };
    let linearizable = !env.plan.in_cluster;
    env.recorder.borrow_mut().listed(called, env.now(), status.revision, linearizable, listing);
}

/// Only who writes can list leases, so this is never behind.
async fn leases(env: &Rc<Env>, node: &Node) {
    let called = env.recorder.borrow_mut().stamp(env.now());
    let Ok(ids) = node.leases().await else { return };
    if !ids.is_empty() {
        env.hit(Rare::LeasesListed);
    }
    say!(env.trace, "leases: {ids:?}");
    env.recorder.borrow_mut().listed(called, env.now(), node.revision(), true, Listing::Leases { ids });
}

fn alarms(env: &Env, node: &Node) {
    let called = env.recorder.borrow_mut().stamp(env.now());
    let of_clients = node.alarms().into_iter().filter(|alarm| alarm.member >= MEMBERS);
    let alarms: Vec<Alarm> = of_clients.map(|alarm| Alarm { member: alarm.member, kind: NO_SPACE }).collect();
    if !alarms.is_empty() {
        env.hit(Rare::AlarmListed);
    }
    let listing = Listing::Alarms { alarms };
    let linearizable = !env.plan.in_cluster;
    env.recorder.borrow_mut().listed(called, env.now(), node.revision(), linearizable, listing);
}

/// Raises an alarm for a short time, in which no client can add data.
async fn raise_alarm(env: &Rc<Env>, node: &Node, client: u64) {
    env.knowledge.borrow_mut().alarms.insert(client);
    change_alarm(env, node, client, true).await;
    env.clock.sleep(MILLI).await;
    alarms(env, node);
    lower_alarm(env, node, client).await;
}

/// Lowers the alarm of a client, if it may be raised.
pub(crate) async fn lower_alarm(env: &Rc<Env>, node: &Node, client: u64) {
    if !env.knowledge.borrow().alarms.contains(&client) {
        return;
    }
    if let Outcome::Answered { .. } = change_alarm(env, node, client, false).await {
        env.knowledge.borrow_mut().alarms.remove(&client);
        alarms(env, node);
    }
}

/// Lowers whatever alarms of clients are raised. A raise of unknown outcome may have come behind
/// its lowering, so the server is asked.
pub(crate) async fn lower_all_alarms(env: &Rc<Env>, node: &Node) {
    let raised: Vec<u64> =
        node.alarms().iter().filter_map(|alarm| alarm.member.checked_sub(MEMBERS)).collect();
    for client in raised {
        env.knowledge.borrow_mut().alarms.insert(client);
        lower_alarm(env, node, client).await;
    }
}

async fn change_alarm(env: &Rc<Env>, node: &Node, client: u64, raised: bool) -> Outcome {
    let member = MEMBERS + client;
    let alarm = Alarm { member, kind: NO_SPACE };
    let place = env.recorder.borrow_mut().alarm(env.now(), alarm, raised);
    let action = if raised { AlarmAction::Activate } else { AlarmAction::Deactivate };
    let changed = node.alarm(action, AlarmSelector { member, kind: Some(AlarmKind::NoSpace) }).await;
    let outcome = done(env, changed.map(|_| node.revision()));
    say!(env.trace, "alarm of {member} raised {raised}: {outcome:?}");
    env.recorder.borrow_mut().alarm_changed(env.now(), place, &outcome);
    outcome
}

/// The outcome of something that has no answer but that it is done.
pub(crate) fn done(env: &Env, result: Result<i64, NodeError>) -> Outcome {
    match result {
        Ok(revision) => Outcome::Answered { revision, answer: vetch_model::Answer::Compact },
        Err(error) => translate::not_served(&error).unwrap_or_else(|error| {
            env.violation(format!("a well-formed request was refused: {error}"));
            Outcome::Unknown
        }),
    }
}

async fn keys_of_a_lease(env: &Rc<Env>, node: &Node, memory: &Memory) {
    let known: Vec<i64> = env.knowledge.borrow().leases.iter().copied().collect();
    if known.is_empty() {
        return;
    }
    let id = *memory.borrow_mut().rng().pick(&known);
    let called = env.recorder.borrow_mut().stamp(env.now());
    let Ok(Some(info)) = node.lease_time_to_live(id, true).await else { return };
    say!(env.trace, "lease {id}: {info:?}");
    if info.ttl > info.granted_ttl {
        env.violation(format!("lease {id} has {} s left of {}", info.ttl, info.granted_ttl));
    }
    env.recorder.borrow_mut().leased(called, env.now(), id, &info);
}
