//! Order: what revisions and times alone say, before any state is known.
//!
//! * A write that was answered has a revision of its own.
//! * Whatever was called after a revision had been seen shows at least that revision, and a write
//!   makes a later one.
//!
//! The second rule covers both directions: a revision that was seen before its write was called is
//! reported at the write. Serializable reads are exempt from it; the beginning of a watch is not.

use std::collections::BTreeMap;

use crate::facts::{changed, describe, fits, is_serializable, shorten};
use crate::history::{History, Operation, Outcome, WatchMessage};
use crate::seen::Seen;
use crate::violation::{Kind, Violation};

/// Records that cannot be judged at all.
pub(crate) fn malformed(history: &History) -> Vec<Violation> {
    let bad = |operation: &&Operation| {
        let misfit = operation.answer().is_some_and(|answer| !fits(&operation.request, answer));
        operation.returned < operation.called || misfit || operation.revision().is_some_and(|rev| rev < 1)
    };
    let operations = history.operations.iter().filter(bad);
    operations.map(|operation| Violation::new(Kind::Malformed, describe(operation))).collect()
}

/// The answered writes by their revisions.
pub(crate) fn answered_writes(history: &History) -> Result<BTreeMap<i64, usize>, Vec<Violation>> {
    let mut writes = BTreeMap::new();
    let mut violations = Vec::new();
    for (index, operation) in history.operations.iter().enumerate() {
        let Outcome::Answered { revision, answer } = &operation.outcome else { continue };
        if !changed(answer) {
            continue;
        }
        if let Some(other) = writes.insert(*revision, index) {
            let other = describe(&history.operations[other]);
            let text = format!("revision {revision} was given twice: {other}; and {}", describe(operation));
            violations.push(Violation::new(Kind::DuplicateRevision, text));
        }
    }
    if violations.is_empty() { Ok(writes) } else { Err(violations) }
}

/// The rule of real time for every answer.
pub(crate) fn real_time(history: &History, seen: &Seen<'_>) -> Vec<Violation> {
    let mut violations = Vec::new();
    for operation in &history.operations {
        let Outcome::Answered { revision, answer } = &operation.outcome else { continue };
        if is_serializable(&operation.request) {
            continue;
        }
        let before = seen.before(operation.called);
        let (kind, late) = match changed(answer) {
            true => (Kind::WriteOrder, *revision <= before),
            false => (Kind::StaleRead, *revision < before),
        };
        if late {
            let witness = seen.witness_before(operation.called);
            let text = format!("revision {before} had been seen by {witness}; then {}", describe(operation));
            violations.push(Violation::new(kind, text));
        }
    }
    for leased in &history.leased {
        let before = seen.before(leased.called);
        if leased.revision < before {
            let witness = seen.witness_before(leased.called);
            let text = format!("revision {before} had been seen by {witness}; then {leased:?}");
            violations.push(Violation::new(Kind::StaleRead, text));
        }
    }
    for listed in history.listed.iter().filter(|listed| listed.linearizable) {
        let before = seen.before(listed.called);
        if listed.revision.is_some_and(|revision| revision < before) {
            let witness = seen.witness_before(listed.called);
            let text = format!("revision {before} had been seen by {witness}; then {listed:?}");
            violations.push(Violation::new(Kind::StaleRead, shorten(text, 400)));
        }
    }
    for watch in &history.watches {
        let before = seen.before(watch.called);
        let created = watch.messages.iter().find(|message| matches!(message, WatchMessage::Created { .. }));
        if let Some(created) = created.filter(|created| created.revision() < before) {
            let (client, revision) = (watch.client, created.revision());
            let witness = seen.witness_before(watch.called);
            let text = format!(
                "revision {before} had been seen by {witness}; then client {client}'s watch, asked for at {}, began at {revision}",
                watch.called
            );
            violations.push(Violation::new(Kind::StaleRead, text));
        }
    }
    violations
}
