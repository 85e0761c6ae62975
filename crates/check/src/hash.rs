//! HashKV: one state has one hash, before and after every restart, and it is the specification's.
//!
//! At a revision that was compacted a server may remember, until it ends, what the compaction
//! found: the hash of before, with the compaction of before.

use std::collections::BTreeMap;

use vetch_model::{Model, Request};

use crate::compaction::Compactions;
use crate::history::{Hashed, History};
use crate::violation::{Kind, Violation};

/// Whether compactions can have been as the hashes say. That the hashes are right is judged while
/// replaying.
pub(crate) fn check(history: &History, compactions: &Compactions) -> Vec<Violation> {
    let mut violations = Vec::new();
    for hash in &history.hashes {
        let compacted = hash.compact_revision.max(0);
        let why = if compacted > 0 && !compactions.is_possible(compacted) {
            "no request compacted there".to_owned()
        } else if compacted < compactions.certain_by(hash.called) && !compactions.is_possible(hash.revision) {
            format!("{} was compacted before", compactions.certain_by(hash.called))
        } else {
            continue;
        };
        violations.push(Violation::new(Kind::Hash, format!("{}: {why}", text(hash))));
    }
    violations
}

/// Compares a hash with the specification's, which must have come at least as far.
pub(crate) fn compare(history: &History, hash: &Hashed, model: &Model) -> Result<(), Violation> {
    let compacted = if hash.compact_revision <= 0 { -1 } else { hash.compact_revision };
    let expected = model.hash_kv(hash.revision, compacted);
    if hash.hash == expected {
        return Ok(());
    }
    let may_be_remembered = compacted < hash.revision && is_compacted_at(history, hash.revision);
    if may_be_remembered && hash.hash == model.hash_in_compaction(hash.revision, compacted) {
        return Ok(());
    }
    let text = format!("{}: the specification's hash is {expected:08x}", text(hash));
    Err(Violation::new(Kind::Hash, text))
}

/// Whether anybody asked for a compaction there.
fn is_compacted_at(history: &History, at: i64) -> bool {
    history
        .operations
        .iter()
        .any(|asked| matches!(asked.request, Request::Compact { revision } if revision == at))
}

/// What needs no specification: what was said of one state must be one thing. What a compaction
/// found may be another than what was said before it, by an oddity that only the specification
/// knows.
pub(crate) fn contradictions(history: &History) -> Vec<Violation> {
    let mut known: BTreeMap<(i64, i64), &Hashed> = BTreeMap::new();
    let mut violations = Vec::new();
    for hash in &history.hashes {
        let first = *known.entry((hash.revision, hash.compact_revision)).or_insert(hash);
        if first.hash != hash.hash && !is_compacted_at(history, hash.revision) {
            violations.push(Violation::new(Kind::Hash, format!("{} but {}", text(first), text(hash))));
        }
    }
    violations
}

fn text(hash: &Hashed) -> String {
    let Hashed { called, returned, revision, compact_revision, hash } = hash;
    format!("[{called}..{returned}] hash {hash:08x} at revision {revision}, compacted {compact_revision}")
}
