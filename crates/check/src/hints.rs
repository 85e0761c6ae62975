//! Hints: which explanations to try, by what grants and renewals say about leases.
//!
//! Only what is impossible by itself is ruled out; leases are judged whole when all revisions are
//! explained.

use std::collections::BTreeMap;

use vetch_model::{Answer, Request};

use crate::facts::granted_lease;
use crate::history::{History, Outcome};

/// How long before its time a lease may seem to end because of a coarse clock, in nanoseconds.
const CLOCK_GRAIN: u64 = 1_000_000;

#[derive(Debug, Clone, Copy)]
struct Life {
    /// The revision shown by the answer; None if the outcome is unknown.
    shown: Option<i64>,
    called: u64,
    until: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Hints {
    grants: BTreeMap<i64, Vec<Life>>,
    renewals: BTreeMap<i64, Vec<Life>>,
}

impl Hints {
    pub(crate) fn new(history: &History) -> Hints {
        let mut hints = Hints::default();
        for operation in &history.operations {
            let shown = operation.revision();
            let life = |ttl: i64| {
                let time = u64::try_from(ttl).unwrap_or(0).saturating_mul(1_000_000_000);
                let until = operation.called.saturating_add(time).saturating_sub(CLOCK_GRAIN);
                Life { shown, called: operation.called, until }
            };
            match (&operation.request, &operation.outcome) {
                (Request::LeaseGrant { ttl, .. }, Outcome::Answered { .. } | Outcome::Unknown) => {
                    if let Some(id) = granted_lease(operation) {
                        hints.grants.entry(id).or_default().push(life(*ttl));
                    }
                }
                (
                    Request::LeaseKeepAlive { id },
                    Outcome::Answered { answer: Answer::LeaseKeepAlive { ttl }, .. },
                ) if *ttl > 0 => hints.renewals.entry(*id).or_default().push(life(*ttl)),
                _ => {}
            }
        }
        hints
    }

    /// Whether a request for the lease was called before `time`.
    pub(crate) fn granted_by(&self, id: i64, time: u64) -> bool {
        self.grants.get(&id).is_some_and(|grants| grants.iter().any(|grant| grant.called <= time))
    }

    /// Whether the lease may have run out in `revision`, which was first seen at `seen`.
    pub(crate) fn may_end(&self, id: i64, revision: i64, seen: u64) -> bool {
        let lives = |of: &BTreeMap<i64, Vec<Life>>| of.get(&id).cloned().unwrap_or_default();
        let grants = lives(&self.grants);
        let before = |life: &&Life| life.shown.is_some_and(|shown| shown < revision);
        let renewals = lives(&self.renewals);
        // A renewal that shows this revision or a later one was made after it.
        let last = grants.iter().chain(&renewals).filter(before).map(|life| life.until).max();
        grants.iter().any(|grant| grant.until <= seen) && last.is_none_or(|last| last <= seen)
    }
}
