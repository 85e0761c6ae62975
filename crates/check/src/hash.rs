//! HashKV: one state has one hash, before and after every restart, and it is the specification's.

use std::collections::BTreeMap;

use vetch_model::Model;

use crate::compaction::Compactions;
use crate::history::{Hashed, History};
use crate::violation::{Kind, Violation};

/// Whether compactions can have been as the hashes say. That the hashes are right is judged while replaying.
pub(crate) fn check(history: &History, compactions: &Compactions) -> Vec<Violation> {
    let mut violations = Vec::new();
    for hash in &history.hashes {
        let compacted = hash.compact_revision.max(0);
        let why = if compacted > 0 && !compactions.is_possible(compacted) {
            "nobody compacted there".to_owned()
        } else if compacted < compactions.certain_by(hash.called) {
            format!("{} was compacted before", compactions.certain_by(hash.called))
        } else {
            continue;
        };
        violations.push(Violation::new(Kind::Hash, format!("{}: {why}", text(hash))));
    }
    violations
}

/// Compares a hash with the specification's, which must have come at least as far.
pub(crate) fn compare(hash: &Hashed, model: &Model) -> Result<(), Violation> {
    let compacted = if hash.compact_revision <= 0 { -1 } else { hash.compact_revision };
    let expected = model.hash_kv(hash.revision, compacted);
    if hash.hash == expected {
        return Ok(());
    }
    let text = format!("{}: the specification's hash is {expected:08x}", text(hash));
    Err(Violation::new(Kind::Hash, text))
}

/// What needs no specification: what was said of one state must be one thing.
pub(crate) fn contradictions(history: &History) -> Vec<Violation> {
    let mut known: BTreeMap<(i64, i64), &Hashed> = BTreeMap::new();
    let mut violations = Vec::new();
    for hash in &history.hashes {
        let first = *known.entry((hash.revision, hash.compact_revision)).or_insert(hash);
        if first.hash != hash.hash {
            violations.push(Violation::new(Kind::Hash, format!("{} but {}", text(first), text(hash))));
        }
    }
    violations
}

fn text(hash: &Hashed) -> String {
    let Hashed { called, returned, revision, compact_revision, hash } = hash;
    format!("[{called}..{returned}] hash {hash:08x} at revision {revision}, compacted {compact_revision}")
}
