//! Sightings: every version of every key that anybody saw, as a test of explanations.
//!
//! A version tells of the past: how often the key was put since it was created, and that it was not
//! deleted meanwhile. When it was seen tells of what came after it: until then the key did not
//! change. So a wrong explanation of a revision is often found at once, and not only when some
//! later answer contradicts it.

use std::collections::{BTreeMap, BTreeSet};

use vetch_model::{Answer, Event, KeyValue, Op, OpAnswer, Request, Txn, TxnAnswer};

use crate::facts::{changed, puts};
use crate::history::{History, Operation, Outcome};

#[derive(Debug, Clone, Copy)]
struct Sighting {
    created: i64,
    version: i64,
    /// The last revision at which it was seen to be the newest.
    until: i64,
}

/// What is known of one key.
#[derive(Debug, Default)]
struct Known {
    /// By the revision of the version.
    versions: BTreeMap<i64, Sighting>,
    /// Revisions at which it was there, in some version.
    there: BTreeSet<i64>,
    /// The revisions in which answered requests put it.
    puts: BTreeSet<i64>,
    /// Whether a request of unknown outcome may have put it as well.
    may_be_put: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Sightings(BTreeMap<Vec<u8>, Known>);

impl Sightings {
    pub(crate) fn new(history: &History, writes: &BTreeMap<i64, usize>) -> Sightings {
        let mut sightings = Sightings::default();
        for operation in &history.operations {
            match &operation.outcome {
                Outcome::Answered { revision, answer } => {
                    sightings.answer(&operation.request, answer, *revision);
                }
                Outcome::Unknown => {
                    for put in puts(&operation.request) {
                        sightings.of(&put.key).may_be_put = true;
                    }
                }
                Outcome::Refused(_) | Outcome::NotDone => {}
            }
        }
        for event in
            history.watches.iter().flat_map(|watch| &watch.messages).flat_map(|message| message.events())
        {
            sightings.event(event);
        }
        for (&revision, &index) in writes {
            for key in keys_put(&history.operations[index]) {
                sightings.of(&key).puts.insert(revision);
            }
        }
        sightings
    }

    fn of(&mut self, key: &[u8]) -> &mut Known {
        if !self.0.contains_key(key) {
            self.0.insert(key.to_vec(), Known::default());
        }
        self.0.get_mut(key).expect("it was put there")
    }

    /// Versions that were the newest ones at a revision.
    fn see<'a>(&mut self, kvs: impl IntoIterator<Item = &'a KeyValue>, at: i64) {
        for kv in kvs {
            let until = at.max(kv.mod_revision);
            let sighting = Sighting { created: kv.create_revision, version: kv.version, until };
            let seen = self.of(&kv.key).versions.entry(kv.mod_revision).or_insert(sighting);
            seen.until = seen.until.max(until);
        }
    }

    fn event(&mut self, event: &Event) {
        let revision = event.kv.mod_revision;
        self.see(event.prev_kv.as_ref(), revision - 1);
        if event.deleted {
            self.of(&event.kv.key).there.insert(revision - 1);
        } else {
            self.see(Some(&event.kv), revision);
        }
    }

    fn answer(&mut self, request: &Request, answer: &Answer, revision: i64) {
        // What a request that changed something read may be from before it.
        let at = if changed(answer) { revision - 1 } else { revision };
        match (request, answer) {
            (Request::Range(range), Answer::Range(ranged)) => self.see(&ranged.kvs, past(range.revision, at)),
            (_, Answer::Put { prev_kv }) => self.see(prev_kv, at),
            (_, Answer::Delete(deleted)) => self.see(&deleted.prev_kvs, at),
            (Request::Txn(txn), Answer::Txn(answer)) => self.txn(txn, answer, at),
            _ => {}
        }
    }

    fn txn(&mut self, txn: &Txn, answer: &TxnAnswer, at: i64) {
        let branch = if answer.succeeded { &txn.success } else { &txn.failure };
        for (op, answer) in branch.iter().zip(&answer.responses) {
            match (op, answer) {
                (Op::Range(range), OpAnswer::Range(ranged)) => {
                    self.see(&ranged.kvs, past(range.revision, at))
                }
                (_, OpAnswer::Put { prev_kv }) => self.see(prev_kv, at),
                (_, OpAnswer::Delete(deleted)) => self.see(&deleted.prev_kvs, at),
                (Op::Txn(nested), OpAnswer::Txn(answer)) => self.txn(nested, answer, at),
                _ => {}
            }
        }
    }

    /// Whether a change can have been, given the versions of its key that anybody saw.
    pub(crate) fn allow(&self, event: &Event) -> bool {
        self.0.get(&event.kv.key).is_none_or(|known| {
            known.allows_after(event) && known.allows_before(event) && known.allows_absence(event)
        })
    }
}

/// At which revision a range looked that asks for one, or for none.
fn past(asked: i64, at: i64) -> i64 {
    if asked > 0 { asked } else { at }
}

impl Known {
    /// Whether the next version that anybody saw can come after the change.
    fn allows_after(&self, event: &Event) -> bool {
        let KeyValue { mod_revision: revision, create_revision, version, .. } = &event.kv;
        let next = self.versions.range(revision + 1..).next();
        let Some((&later, sighting)) = next.filter(|(_, sighting)| sighting.created <= *revision) else {
            return true;
        };
        // The later version is of the same life: the key was not deleted, and each put since
        // counts.
        let puts = self.puts.range(revision + 1..=later).count() as i64;
        let since = sighting.version - version;
        !event.deleted && sighting.created == *create_revision && puts <= since && since <= later - revision
    }

    /// Whether the last version that anybody saw before the change can have been the newest for as
    /// long as it was.
    fn allows_before(&self, event: &Event) -> bool {
        let revision = event.kv.mod_revision;
        self.versions.range(..revision).next_back().is_none_or(|(_, last)| last.until < revision)
    }

    /// Whether the key can be gone after the change: if it was there later, something put it.
    fn allows_absence(&self, event: &Event) -> bool {
        let revision = event.kv.mod_revision;
        let Some(later) = self.there.range(revision..).next().filter(|_| event.deleted) else { return true };
        self.may_be_put || self.puts.range(revision + 1..=later + 1).next().is_some()
    }
}

/// The keys that an answered request put.
fn keys_put(operation: &Operation) -> Vec<Vec<u8>> {
    fn walk(txn: &Txn, answer: &TxnAnswer, into: &mut Vec<Vec<u8>>) {
        let branch = if answer.succeeded { &txn.success } else { &txn.failure };
        for (op, answer) in branch.iter().zip(&answer.responses) {
            match (op, answer) {
                (Op::Put(put), _) => into.push(put.key.clone()),
                (Op::Txn(nested), OpAnswer::Txn(answer)) => walk(nested, answer, into),
                _ => {}
            }
        }
    }
    let mut keys = Vec::new();
    match (&operation.request, operation.answer()) {
        (Request::Put(put), _) => keys.push(put.key.clone()),
        (Request::Txn(txn), Some(Answer::Txn(answer))) => walk(txn, answer, &mut keys),
        _ => {}
    }
    keys
}
