//! Refusals: each must have been right at some moment between call and return.
//!
//! Decided: a future revision, exactly; a compacted one, by whether a compaction that explains it
//! can have come first; a time to live that is too large; a key to keep something of, by whether it
//! was missing at some revision that may have been the newest in that time. For a transaction it is
//! enough that one of its operations, in either branch, is refused rightly. Refusals about leases
//! are judged with the leases.

use vetch_model::{Keys, Op, Refusal, Request};

use crate::compaction::Compactions;
use crate::facts::{all_ops, describe};
use crate::history::{History, Operation, Outcome};
use crate::replay::{Maker, Replayed};
use crate::seen::Seen;
use crate::violation::{Kind, Violation};

/// Above this no lease is granted.
const MAX_LEASE_TTL: i64 = 9_000_000_000;

/// The highest revision that may have been the newest, for any time.
pub(crate) struct Limits {
    /// For each revision from 2 on, a time before which it cannot have been made.
    earliest: Vec<u64>,
}

impl Limits {
    pub(crate) fn new(history: &History, replayed: &Replayed) -> Limits {
        let mut latest = 0;
        let calls = replayed.makers.iter().map(|maker| match maker {
            Maker::Answered(index) | Maker::Unknown(index) => history.operations[*index].called,
            Maker::Expiry(_) => 0,
        });
        let earliest = calls.map(|called| {
            latest = called.max(latest);
            latest
        });
        Limits { earliest: earliest.collect() }
    }

    /// A time before which the revision cannot have been made.
    pub(crate) fn earliest(&self, revision: i64) -> u64 {
        usize::try_from(revision - 2).ok().and_then(|index| self.earliest.get(index)).copied().unwrap_or(0)
    }

    pub(crate) fn newest_by(&self, time: u64) -> i64 {
        1 + self.earliest.partition_point(|&earliest| earliest <= time) as i64
    }
}

pub(crate) fn check(
    history: &History,
    seen: &Seen<'_>,
    replayed: &Replayed,
    limits: &Limits,
    compactions: &Compactions,
) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (index, operation) in history.operations.iter().enumerate() {
        let Outcome::Refused(refusal) = operation.outcome else { continue };
        let oldest = seen.before(operation.called);
        let right = match refusal {
            Refusal::FutureRevision => asks_after(&operation.request, oldest),
            Refusal::Compacted => asks_compacted(index, operation, compactions),
            Refusal::LeaseTtlTooLarge => {
                matches!(operation.request, Request::LeaseGrant { ttl, .. } if ttl > MAX_LEASE_TTL)
            }
            Refusal::KeyNotFound => {
                let newest = limits.newest_by(operation.returned);
                misses_key(&operation.request, replayed, oldest, newest)
            }
            Refusal::LeaseNotFound | Refusal::LeaseExists => continue,
        };
        if !right {
            let text = format!("at no time between: {}", describe(operation));
            violations.push(Violation::new(Kind::WrongRefusal, text));
        }
    }
    violations
}

fn asks_after(request: &Request, newest: i64) -> bool {
    match request {
        Request::Compact { revision } => *revision > newest,
        _ => all_ops(request).iter().any(|op| matches!(op, Op::Range(range) if range.revision > newest)),
    }
}

fn asks_compacted(index: usize, operation: &Operation, compactions: &Compactions) -> bool {
    match operation.request {
        Request::Compact { revision } => {
            revision <= compactions.possible_besides(index, operation.returned).max(0)
        }
        _ => {
            let compacted = compactions.possible_by(operation.returned);
            let ops = all_ops(&operation.request);
            // In a transaction a negative revision is one that was compacted.
            ops.iter()
                .any(|op| matches!(op, Op::Range(range) if range.revision != 0 && range.revision < compacted))
        }
    }
}

/// Whether a put of the request that keeps something can have found nothing to keep.
fn misses_key(request: &Request, replayed: &Replayed, oldest: i64, newest: i64) -> bool {
    let ops = all_ops(request);
    let deletes =
        |key: &[u8]| ops.iter().any(|op| matches!(op, Op::Delete(delete) if delete.keys.contains(key)));
    let model = &replayed.world.model;
    ops.iter().any(|op| match op {
        Op::Put(put) if put.ignore_value || put.ignore_lease => {
            let gone = model.events(&Keys::single(put.key.clone()), oldest + 1, newest);
            model.get(&put.key, oldest).is_none()
                || gone.iter().any(|event| event.deleted)
                || deletes(&put.key)
        }
        Op::Empty => true,
        _ => false,
    })
}
