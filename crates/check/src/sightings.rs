//! Sightings: every version of every key that anybody saw, as a test of explanations.
//!
//! A version tells of the past: how often the key was put since it was created, and that it was not deleted meanwhile.
//! So a wrong explanation of a revision is often found at once, and not only when some later answer contradicts it.

use std::collections::{BTreeMap, BTreeSet};

use vetch_model::{Answer, Event, KeyValue, Op, OpAnswer, Request, Txn, TxnAnswer};

use crate::history::{History, Operation};

#[derive(Debug, Clone, Copy)]
struct Sighting {
    created: i64,
    version: i64,
}

#[derive(Debug, Default)]
pub(crate) struct Sightings {
    /// Of each key, by the revision of the version.
    seen: BTreeMap<Vec<u8>, BTreeMap<i64, Sighting>>,
    /// The revisions in which answered requests put each key.
    puts: BTreeMap<Vec<u8>, BTreeSet<i64>>,
}

impl Sightings {
    pub(crate) fn new(history: &History, writes: &BTreeMap<i64, usize>) -> Sightings {
        let mut sightings = Sightings::default();
        for operation in &history.operations {
            sightings.answer(operation);
        }
        for event in
            history.watches.iter().flat_map(|watch| &watch.messages).flat_map(|message| message.events())
        {
            sightings.see(event.prev_kv.as_ref());
            sightings.see(Some(&event.kv).filter(|_| !event.deleted));
        }
        for (&revision, &index) in writes {
            for key in keys_put(&history.operations[index]) {
                sightings.puts.entry(key).or_default().insert(revision);
            }
        }
        sightings
    }

    fn see<'a>(&mut self, kvs: impl IntoIterator<Item = &'a KeyValue>) {
        for kv in kvs {
            let sighting = Sighting { created: kv.create_revision, version: kv.version };
            match self.seen.get_mut(&kv.key) {
                Some(seen) => {
                    seen.insert(kv.mod_revision, sighting);
                }
                None => {
                    self.seen.insert(kv.key.clone(), BTreeMap::from([(kv.mod_revision, sighting)]));
                }
            }
        }
    }

    fn answer(&mut self, operation: &Operation) {
        match operation.answer() {
            Some(Answer::Range(ranged)) => self.see(&ranged.kvs),
            Some(Answer::Put { prev_kv }) => self.see(prev_kv),
            Some(Answer::Delete(deleted)) => self.see(&deleted.prev_kvs),
            Some(Answer::Txn(txn)) => self.txn(txn),
            _ => {}
        }
    }

    fn txn(&mut self, txn: &TxnAnswer) {
        for response in &txn.responses {
            match response {
                OpAnswer::Range(ranged) => self.see(&ranged.kvs),
                OpAnswer::Put { prev_kv } => self.see(prev_kv),
                OpAnswer::Delete(deleted) => self.see(&deleted.prev_kvs),
                OpAnswer::Txn(nested) => self.txn(nested),
            }
        }
    }

    /// Whether a change can have been, given the next version of its key that anybody saw.
    pub(crate) fn allow(&self, event: &Event) -> bool {
        let KeyValue { key, mod_revision: revision, create_revision, version, .. } = &event.kv;
        let next = self.seen.get(key).and_then(|seen| seen.range(revision + 1..).next());
        let Some((&later, sighting)) = next.filter(|(_, sighting)| sighting.created <= *revision) else {
            return true;
        };
        // The later version is of the same life: the key was not deleted, and each put since counts.
        let puts = self.puts.get(key).map_or(0, |puts| puts.range(revision + 1..=later).count() as i64);
        let since = sighting.version - version;
        !event.deleted && sighting.created == *create_revision && puts <= since && since <= later - revision
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
