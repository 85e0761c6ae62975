//! Simulated clients of the key-value and lease services.
//!
//! A client sends one request at a time, waits for the answer up to a timeout, and records it. The
//! server may end at any time; the outcome of the request in flight is then unknown.

use std::rc::Rc;

use vetch_check::Outcome;
use vetch_model::{Answer, OpAnswer, Ranged, Refusal, Request, TxnAnswer};
use vetch_node::Node;
use vetch_node::error::NodeError;
use vetch_node::types::{HashKv, RangeEnd};
use vetch_store::request::RangeRequest;
use vetch_store::{StoreError, Validated, validate};

use crate::coverage::Rare;
use crate::env::{Env, Phase};
use crate::executor::without_delay;
use crate::operator;
use crate::show::Show;
use crate::time::{MILLI, SECOND};
use crate::trace::say;
use crate::translate;
use crate::workload::{How, MAX_OPS, Memory};
use vetch_testkit::{to_model, to_store};

/// Sends requests until the load is over or the run has had enough.
pub(crate) async fn run(env: Rc<Env>, node: Node, client: u32, memory: Memory) {
    while env.phase.get() == Phase::Load {
        let think = memory.borrow_mut().rng().skewed(1, env.plan.think_nanos);
        env.clock.sleep(think).await;
        if env.phase.get() != Phase::Load || env.knowledge.borrow().answers >= env.plan.requests {
            break;
        }
        operator::lower_alarm(&env, &node, u64::from(client)).await;
        if memory.borrow_mut().rng().percent(2) {
            let known = env.knowledge.borrow().revision;
            let revision = if memory.borrow_mut().rng().percent(50) { 0 } else { known };
            hash(&env, &node, revision).await;
            continue;
        }
        if memory.borrow_mut().rng().percent(4) {
            operator::around(&env, &node, client, &memory).await;
            continue;
        }
        let (request, how) = memory.borrow_mut().request(&env.plan, &env.knowledge.borrow());
        let timeout = match memory.borrow_mut().rng().below(20) {
            0 => MILLI,
            1 => 100 * MILLI,
            _ => 20 * SECOND,
        };
        let outcome = call(&env, &node, client, request.clone(), how, timeout).await;
        if let Outcome::Answered { revision, answer } = &outcome {
            memory.borrow_mut().learn(&request, *revision, answer);
        }
        // Retry later, as the error asks for.
        if outcome == Outcome::NotDone {
            env.clock.sleep(10 * MILLI).await;
        }
    }
}

/// Sends one request and records what becomes of it.
pub(crate) async fn call(
    env: &Rc<Env>,
    node: &Node,
    client: u32,
    request: Request,
    how: How,
    timeout: u64,
) -> Outcome {
    say!(env.trace, "client {client} asks {how:?} {}", Show(&request));
    let served = async { serve(env, node, &request, how).await.map_err(|error| not_served(env, &error)) };
    record(env, client, &request, timeout, served).await
}

/// Records a request and what becomes of it.
pub(crate) async fn record(
    env: &Rc<Env>,
    client: u32,
    request: &Request,
    timeout: u64,
    served: impl Future<Output = Result<(i64, Answer), Outcome>>,
) -> Outcome {
    let called = env.now();
    let place = env.recorder.borrow_mut().call(called, client, request.clone());
    let outcome = match env.clock.timeout(timeout, served).await {
        Some(Ok((revision, answer))) => Outcome::Answered { revision, answer },
        Some(Err(outcome)) => outcome,
        None => {
            env.hit(Rare::ClientTimeout);
            Outcome::Unknown
        }
    };
    say!(env.trace, "client {client} gets {}", Show(&outcome));
    env.recorder.borrow_mut().answer(env.now(), place, outcome.clone());
    digest(env, request, &outcome);
    outcome
}

pub(crate) fn not_served(env: &Env, error: &NodeError) -> Outcome {
    match error {
        NodeError::TooManyRequests => env.hit(Rare::Overload),
        NodeError::NoSpace => env.hit(Rare::NoSpaceAnswered),
        NodeError::Timeout => env.hit(Rare::ServerTimeout),
        _ => {}
    }
    translate::not_served(error).unwrap_or_else(|error| {
        env.violation(format!("a well-formed request was refused: {error}"));
        Outcome::Unknown
    })
}

/// Has a request served by one server.
pub(crate) async fn serve(
    env: &Rc<Env>,
    node: &Node,
    request: &Request,
    how: How,
) -> Result<(i64, Answer), NodeError> {
    Ok(match request {
        Request::Range(range) => {
            let request = validate::range(to_store::range(range))?;
            match how {
                How::Streamed(bytes) => streamed(env, node, request, bytes).await?,
                _ => {
                    let before = (env.knowledge.borrow().writes, env.knowledge.borrow().compacted);
                    let response = node.range(request).await;
                    watch_scan(env, before, response.as_ref().err());
                    let response = response?;
                    (response.revision, Answer::Range(to_model::ranged(&response)))
                }
            }
        }
        Request::Put(put) => {
            let response = node.put(validate::put(to_store::put(put))?).await?;
            (response.revision, Answer::Put { prev_kv: response.prev_kv.as_ref().map(to_model::key_value) })
        }
        Request::Delete(delete) => {
            let response = node.delete_range(validate::delete_range(to_store::delete(delete))?).await?;
            (response.revision, Answer::Delete(to_model::deleted(&response)))
        }
        Request::Txn(txn) => {
            let response = node.txn(validate::txn(to_store::txn(txn), MAX_OPS)?).await?;
            (response.revision, Answer::Txn(to_model::txn_answer(&response)))
        }
        Request::Compact { revision } => {
            (node.compact(*revision, how == How::Physical).await?, Answer::Compact)
        }
        Request::LeaseGrant { id, ttl } => {
            let granted = node.lease_grant(*id, *ttl).await?;
            (granted.revision, Answer::LeaseGrant { id: granted.id, ttl: granted.ttl })
        }
        Request::LeaseRevoke { id } => (node.lease_revoke(*id).await?, Answer::LeaseRevoke),
        Request::LeaseKeepAlive { id } => {
            // The header is made first, as the server does it.
            let revision = node.confirmed_revision().await?;
            (revision, Answer::LeaseKeepAlive { ttl: node.lease_keep_alive(*id).await? })
        }
    })
}

/// A range in chunks, put together again.
async fn streamed(
    env: &Rc<Env>,
    node: &Node,
    request: Validated<RangeRequest>,
    bytes: usize,
) -> Result<(i64, Answer), NodeError> {
    let before = (env.knowledge.borrow().writes, env.knowledge.borrow().compacted);
    let newest = request.revision <= 0;
    let mut stream = node.range_stream(request, bytes);
    let mut kvs = Vec::new();
    loop {
        let chunk = match stream.next().await {
            Some(chunk) => chunk,
            None => {
                env.violation("a streamed range ended without its end".to_owned());
                return Err(NodeError::Stopped);
            }
        };
        watch_scan(env, before, chunk.as_ref().err());
        // A stream cannot begin anew once it has begun, so compaction may end one of the newest, as
        // in etcd. What it would have shown is not known then.
        if newest && matches!(chunk, Err(NodeError::Store(StoreError::Compacted))) {
            return Err(NodeError::Stopped);
        }
        let chunk = chunk?;
        kvs.extend(to_model::key_values(&chunk.kvs));
        if let Some(RangeEnd { revision, more, count }) = chunk.end {
            return Ok((revision, Answer::Range(Ranged { kvs, more, count })));
        }
        // The reader takes its time, and others get theirs: now and then enough for a compaction.
        env.clock.sleep(if kvs.len() % 3 == 1 { 2 * MILLI } else { 1 }).await;
    }
}

/// Notes what happened while a range was being read.
fn watch_scan(env: &Env, (writes, compacted): (u64, i64), error: Option<&NodeError>) {
    let knowledge = env.knowledge.borrow();
    if knowledge.writes > writes {
        env.hit(Rare::WrittenInScan);
    }
    if knowledge.compacted > compacted && error.is_some() {
        env.hit(Rare::CompactedInScan);
    }
}

/// Enters an outcome into the book.
fn digest(env: &Env, request: &Request, outcome: &Outcome) {
    let mut knowledge = env.knowledge.borrow_mut();
    match outcome {
        Outcome::Answered { revision, answer } => {
            knowledge.answers += 1;
            note(env, request, answer);
            match (request, answer) {
                (Request::LeaseRevoke { .. }, _) if *revision > knowledge.revision => {
                    env.hit(Rare::LeaseRevokedKeys)
                }
                (Request::Compact { revision }, _) => {
                    knowledge.compacted = knowledge.compacted.max(*revision)
                }
                (Request::Delete(_), Answer::Delete(deleted)) if deleted.deleted > 0 => {
                    knowledge.deleted_at(*revision);
                }
                (_, Answer::LeaseGrant { id, .. }) => {
                    knowledge.leases.insert(*id);
                }
                _ => {}
            }
            knowledge.saw_revision(*revision);
            if !matches!(request, Request::Range(_)) {
                knowledge.writes += 1;
            }
        }
        Outcome::Refused(refusal) => {
            knowledge.answers += 1;
            match refusal {
                Refusal::Compacted => env.hit(Rare::CompactedRead),
                Refusal::FutureRevision => env.hit(Rare::FutureRead),
                _ => {}
            }
        }
        Outcome::NotDone => {}
        Outcome::Unknown => {
            if let Request::Compact { revision } = request
                && *revision <= knowledge.revision
            {
                knowledge.compacted = knowledge.compacted.max(*revision);
            }
        }
    }
}

fn note(env: &Env, request: &Request, answer: &Answer) {
    match (request, answer) {
        (Request::Compact { .. }, _) if env.in_checkpoint.get() => env.hit(Rare::CompactedInCheckpoint),
        (Request::Put(_), _) if env.space_again.replace(false) => env.hit(Rare::SpaceReturned),
        (Request::Delete(_), Answer::Delete(deleted)) if env.disk_full.get() && deleted.deleted > 0 => {
            env.hit(Rare::DeletedWhileFull);
        }
        (Request::Txn(_), Answer::Txn(txn)) => {
            let wrote = |txn: &TxnAnswer| txn.responses.iter().any(|op| matches!(op, OpAnswer::Put { .. }));
            if !txn.succeeded && wrote(txn) {
                env.hit(Rare::TxnElse);
            }
            if txn.responses.iter().any(|op| matches!(op, OpAnswer::Txn(inner) if wrote(inner))) {
                env.hit(Rare::TxnNested);
            }
        }
        _ => {}
    }
}

/// Asks for a hash of history and records it.
pub(crate) async fn hash(env: &Rc<Env>, node: &Node, revision: i64) -> Option<HashKv> {
    let called = env.recorder.borrow_mut().stamp(env.now());
    let hash = without_delay(node.hash_kv(revision)).await.ok()?;
    say!(env.trace, "{hash:?}");
    env.recorder.borrow_mut().hash(called, env.now(), &hash);
    Some(hash)
}
