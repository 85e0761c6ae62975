//! Evidence: what clients saw of each revision, which an explanation must agree with.
//!
//! A watcher that got everything from one revision to another shows of each revision between
//! exactly which of its keys changed, be it none. A key-value in any answer or event says what its
//! `mod_revision` wrote; that counts for revisions of answered writes too, because what they wrote
//! may depend on a revision that had to be explained.

use std::collections::{BTreeMap, BTreeSet};

use vetch_model::{Answer, Event, KeyValue, Op, OpAnswer, Request, Txn, TxnAnswer};

use crate::facts::bytes;
use crate::history::{History, Operation};
use crate::watch::{coverage, matches, without_prev};
use crate::world::World;

#[derive(Debug, Clone, Default)]
pub(crate) struct Evidence {
    /// For each watcher that covers the revision, by its index: all that it saw of it, without
    /// previous values.
    watched: Vec<(usize, Vec<Event>)>,
    /// What the revision wrote, as far as anybody read it.
    written: BTreeSet<KeyValue>,
}

/// The evidence for each of the revisions, and what was seen of all others.
pub(crate) fn gather(history: &History, gaps: &BTreeSet<i64>) -> (BTreeMap<i64, Evidence>, Written) {
    let mut evidence: BTreeMap<i64, Evidence> = gaps.iter().map(|&gap| (gap, Evidence::default())).collect();
    let mut others = Written::default();
    if gaps.is_empty() {
        return (evidence, others);
    }
    for (index, watch) in history.watches.iter().enumerate() {
        let Some((first, last)) = coverage(watch) else { continue };
        let mut seen: BTreeMap<i64, Vec<Event>> = BTreeMap::new();
        for event in watch.messages.iter().flat_map(|message| message.events()) {
            if !gaps.contains(&event.kv.mod_revision) {
                others.see(event);
            } else {
                seen.entry(event.kv.mod_revision).or_default().push(without_prev(event));
            }
        }
        for (gap, evidence) in evidence.range_mut(first..=last) {
            evidence.watched.push((index, seen.remove(gap).unwrap_or_default()));
        }
    }
    let read = history.operations.iter().flat_map(read_by);
    let events =
        history.watches.iter().flat_map(|watch| &watch.messages).flat_map(|message| message.events());
    let watched =
        events.flat_map(|event| event.prev_kv.iter().chain(Some(&event.kv).filter(|_| !event.deleted)));
    for kv in read.chain(watched) {
        match evidence.get_mut(&kv.mod_revision) {
            Some(evidence) => evidence.written.insert(kv.clone()),
            None => others.kvs.entry(kv.mod_revision).or_default().insert(kv.clone()),
        };
    }
    (evidence, others)
}

/// What was seen of revisions that answered writes made.
#[derive(Debug, Default)]
pub(crate) struct Written {
    kvs: BTreeMap<i64, BTreeSet<KeyValue>>,
    /// The keys that watchers saw deleted.
    deleted: BTreeMap<i64, BTreeSet<Vec<u8>>>,
}

impl Written {
    fn see(&mut self, event: &Event) {
        if event.deleted {
            self.deleted.entry(event.kv.mod_revision).or_default().insert(event.kv.key.clone());
        }
    }

    pub(crate) fn agrees(&self, world: &World, revision: i64) -> bool {
        let events = world.events(revision);
        let mut kvs = self.kvs.get(&revision).into_iter().flatten();
        let mut deleted = self.deleted.get(&revision).into_iter().flatten();
        kvs.all(|kv| events.iter().any(|event| !event.deleted && event.kv == *kv))
            && deleted.all(|key| events.iter().any(|event| event.deleted && event.kv.key == *key))
    }
}

/// Every key-value that an answer has in full.
fn read_by(operation: &Operation) -> Vec<&KeyValue> {
    fn walk<'a>(txn: &Txn, answer: &'a TxnAnswer, into: &mut Vec<&'a KeyValue>) {
        let branch = if answer.succeeded { &txn.success } else { &txn.failure };
        for (op, answer) in branch.iter().zip(&answer.responses) {
            match (op, answer) {
                (Op::Range(range), OpAnswer::Range(ranged)) if !range.keys_only => into.extend(&ranged.kvs),
                (_, OpAnswer::Put { prev_kv }) => into.extend(prev_kv),
                (_, OpAnswer::Delete(deleted)) => into.extend(&deleted.prev_kvs),
                (Op::Txn(nested), OpAnswer::Txn(answer)) => walk(nested, answer, into),
                _ => {}
            }
        }
    }
    let mut kvs = Vec::new();
    match (&operation.request, operation.answer()) {
        (Request::Range(range), Some(Answer::Range(ranged))) if !range.keys_only => kvs.extend(&ranged.kvs),
        (Request::Txn(txn), Some(Answer::Txn(answer))) => walk(txn, answer, &mut kvs),
        (_, Some(Answer::Put { prev_kv })) => kvs.extend(prev_kv),
        (_, Some(Answer::Delete(deleted))) => kvs.extend(&deleted.prev_kvs),
        _ => {}
    }
    kvs
}

impl Evidence {
    /// Whether anybody saw anything of the revision's content.
    pub(crate) fn is_positive(&self) -> bool {
        !self.written.is_empty() || self.watched.iter().any(|(_, events)| !events.is_empty())
    }

    /// Whether anybody saw that the revision put a key.
    pub(crate) fn has_puts(&self) -> bool {
        !self.written.is_empty()
            || self.watched.iter().flat_map(|(_, events)| events).any(|event| !event.deleted)
    }

    /// Whether a request could, in some state, have made everything that was seen. Cheap;
    /// [`Evidence::agrees`] decides.
    pub(crate) fn allows(&self, ops: &[Op]) -> bool {
        let written = self.written.iter().all(|kv| puts_it(ops, kv));
        let mut events = self.watched.iter().flat_map(|(_, events)| events);
        written
            && events
                .all(|event| if event.deleted { deletes_it(ops, event) } else { puts_it(ops, &event.kv) })
    }

    /// The same for the end of a lease with these keys.
    pub(crate) fn allows_end(&self, keys: &BTreeSet<Vec<u8>>) -> bool {
        let mut events = self.watched.iter().flat_map(|(_, events)| events);
        self.written.is_empty() && events.all(|event| event.deleted && keys.contains(&event.kv.key))
    }

    /// Whether these changes are what everybody saw of the revision.
    pub(crate) fn agrees(&self, history: &History, events: &[Event]) -> bool {
        let is_seen = self.watched.iter().all(|(index, seen)| {
            let request = &history.watches[*index].request;
            let expected = events.iter().filter(|event| matches(request, event)).map(without_prev);
            expected.eq(seen.iter().cloned())
        });
        is_seen && self.written.iter().all(|kv| events.iter().any(|event| !event.deleted && event.kv == *kv))
    }

    pub(crate) fn text(&self) -> String {
        let events = self.watched.iter().flat_map(|(_, events)| events);
        let mut seen: BTreeSet<String> = events
            .map(|event| match event.deleted {
                true => format!("delete {}", bytes(&event.kv.key)),
                false => put_text(&event.kv),
            })
            .collect();
        seen.extend(self.written.iter().map(put_text));
        if seen.is_empty() {
            return format!("{} watchers saw nothing of it", self.watched.len());
        }
        format!("seen of it: {}", seen.into_iter().collect::<Vec<_>>().join(", "))
    }
}

fn put_text(kv: &KeyValue) -> String {
    format!("put {} = {} (lease {}, version {})", bytes(&kv.key), bytes(&kv.value), kv.lease, kv.version)
}

fn puts_it(ops: &[Op], kv: &KeyValue) -> bool {
    ops.iter().any(|op| match op {
        Op::Put(put) => {
            put.key == kv.key
                && (put.ignore_value || put.value == kv.value)
                && (put.ignore_lease || put.lease == kv.lease)
        }
        _ => false,
    })
}

fn deletes_it(ops: &[Op], event: &Event) -> bool {
    ops.iter().any(|op| matches!(op, Op::Delete(delete) if delete.keys.contains(&event.kv.key)))
}
