//! Leases: is there an order of its grants, renewals and ends that explains everything said about a
//! lease?
//!
//! Each lease is judged for itself. What is known of the place of each step are a span of time and
//! a span of revisions; one step comes before another if either span says so (`search`). A lease
//! may end by itself once its time is over: not before the last grant or renewal that was answered
//! was called, plus its time to live. It ends without a trace only where it has no keys; where it
//! has some, the end is a revision of its own.
//!
//! Decided exactly: grants and revokes that were answered or refused, renewals that were answered,
//! puts and transactions that attach keys, ends that made a revision, early ends, and for each
//! lease by itself whether it was rightly in a list of all leases or not.
//!
//! In doubt for the server:
//! * a revision that may have been the lease's end or a deletion of unknown outcome may be either,
//!   for each lease and revision anew;
//! * a transaction that names several leases and is refused because one is missing is not judged;
//! * a renewal of unknown outcome is taken as not made.

mod search;
mod steps;

use vetch_model::Request;

use crate::facts::describe;
use crate::history::History;
use crate::refusal::Limits;
use crate::replay::{Maker, Replayed};
use crate::seen::Seen;
use crate::violation::{Kind, Violation};

use search::{Found, search};
use steps::{Lease, Step, What, collect};

/// What was found of all leases.
pub(crate) struct Judged {
    pub(crate) leases: usize,
    pub(crate) violations: Vec<Violation>,
    /// Revisions whose explanation may be what is wrong, rather than the history.
    pub(crate) suspects: Vec<i64>,
}

pub(crate) fn check(history: &History, seen: &Seen<'_>, replayed: &Replayed, limits: &Limits) -> Judged {
    let leases = collect(history, seen, replayed, limits);
    let mut judged = Judged { leases: leases.len(), violations: Vec::new(), suspects: Vec::new() };
    for (id, lease) in &leases {
        judged.violations.extend(judge(history, replayed, *id, lease, &mut judged.suspects));
    }
    judged
}

fn judge(
    history: &History,
    replayed: &Replayed,
    id: i64,
    lease: &Lease,
    suspects: &mut Vec<i64>,
) -> Option<Violation> {
    let Found::Stuck { at } = search(lease, true)? else {
        return Some(Violation::new(Kind::GaveUp, format!("lease {id}: too many orders to try")));
    };
    // If it would be right without the clock, the clock is what is wrong.
    let kind = if search(lease, false).is_none() { Kind::EarlyExpiry } else { Kind::Lease };
    // A revoke shows a revision whether it made that one or found the lease without keys: it is a
    // guess as well.
    let revoked = lease.steps.iter().enumerate().filter(|(_, step)| step.what == What::Revoke);
    let doubtful = at.iter().copied().chain(revoked.map(|(index, _)| index));
    let made =
        doubtful.map(|step| lease.steps[step].from).filter(|place| place % 2 == 0).map(|place| place / 2);
    let guessed = |revision: &i64| match replayed.maker(*revision) {
        Some(Maker::Answered(index)) => {
            matches!(history.operations[index].request, Request::LeaseRevoke { .. })
        }
        maker => maker.is_some(),
    };
    suspects.extend(made.filter(guessed));
    let steps: Vec<String> = at.iter().map(|&step| step_text(history, &lease.steps[step])).collect();
    Some(Violation::new(kind, format!("lease {id}: none of these can come next: {}", steps.join("; "))))
}

fn step_text(history: &History, step: &Step) -> String {
    match (step.operation, step.what) {
        (Some(index), What::Attach) => format!("attached by {}", describe(&history.operations[index])),
        (Some(index), _) => describe(&history.operations[index]),
        (None, What::Exists) => format!("listed in {}..{}", step.called, step.returned),
        (None, What::Gone) => format!("not listed in {}..{}", step.called, step.returned),
        (None, _) => format!("its end at revision {}, first seen at {}", step.from / 2, step.returned),
    }
}
