//! The workload: requests that a client might send, chosen so that they meet.
//!
//! Few keys, many clients, unique values, reads of every age, compactions exactly where it hurts.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use vetch_model::{
    Answer, Compare, CompareResult, CompareTarget, Delete, Keys, Put, Range, Request, SortOrder, SortTarget,
    Watch,
};

use crate::knowledge::Knowledge;
use crate::plan::Plan;
use vetch_testkit::random::Rng;

mod txn;

pub(crate) use txn::MAX_OPS;

/// How a request is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    Plain,
    /// A range in chunks of this many bytes.
    Streamed(usize),
    /// A compaction that waits until memory was given back.
    Physical,
}

/// A client's memory, which survives the server.
pub(crate) type Memory = Rc<RefCell<Generator>>;

/// One client's stream of requests. Lives through restarts of the server.
pub(crate) struct Generator {
    rng: Rng,
    client: u32,
    made: u64,
    /// Revisions of keys as this client last saw them.
    seen: BTreeMap<Vec<u8>, i64>,
    leases: Vec<i64>,
}

impl Generator {
    pub(crate) fn new(rng: Rng, client: u32) -> Generator {
        Generator { rng, client, made: 0, seen: BTreeMap::new(), leases: Vec::new() }
    }

    pub(crate) fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }

    pub(crate) fn request(&mut self, plan: &Plan, knowledge: &Knowledge) -> (Request, How) {
        self.made += 1;
        let mut at = self.rng.below(100);
        let mut is = |share: u64| {
            let hit = at < share;
            at = at.wrapping_sub(share);
            hit
        };
        if is(plan.mix.puts) {
            return (Request::Put(self.put(plan, knowledge)), How::Plain);
        }
        if is(plan.mix.deletes) {
            return (Request::Delete(self.delete(plan)), How::Plain);
        }
        if is(plan.mix.txns) {
            return (Request::Txn(self.txn(plan, knowledge)), How::Plain);
        }
        if is(plan.mix.leases) {
            return (self.lease(plan, knowledge), How::Plain);
        }
        if is(plan.mix.compactions) {
            return (
                self.compaction(plan, knowledge),
                if self.rng.percent(30) { How::Physical } else { How::Plain },
            );
        }
        let range = self.range(plan, knowledge);
        let streams = range.sort_order == SortOrder::None
            && [range.min_mod_revision, range.max_mod_revision, range.min_create_revision] == [0; 3]
            && range.max_create_revision == 0;
        let how = if streams && self.rng.percent(30) {
            How::Streamed(self.rng.skewed(1, 4096) as usize)
        } else {
            How::Plain
        };
        (Request::Range(range), how)
    }

    /// Remembers what an answer shows.
    pub(crate) fn learn(&mut self, request: &Request, revision: i64, answer: &Answer) {
        match (request, answer) {
            (Request::Put(put), _) => {
                self.seen.insert(put.key.clone(), revision);
            }
            (Request::Range(_), Answer::Range(ranged)) => {
                for kv in &ranged.kvs {
                    self.seen.insert(kv.key.clone(), kv.mod_revision);
                }
            }
            (_, Answer::LeaseGrant { id, .. }) => self.leases.push(*id),
            _ => {}
        }
    }

    fn key(&mut self, plan: &Plan) -> Vec<u8> {
        // A few keys get most of the traffic.
        let most = if self.rng.percent(50) { plan.keys.len().min(3) } else { plan.keys.len() };
        plan.keys[self.rng.below(most)].clone()
    }

    fn keys(&mut self, plan: &Plan) -> Keys {
        match self.rng.below(10) {
            0..=3 => Keys::single(self.key(plan)),
            4 => Keys::all(),
            5 => Keys::between(self.key(plan), [0]),
            6 | 7 => {
                let (one, other) = (self.key(plan), self.key(plan));
                Keys::between(one.clone().min(other.clone()), one.max(other))
            }
            _ => prefix(*self.rng.pick(b"abc")),
        }
    }

    pub(crate) fn put(&mut self, plan: &Plan, knowledge: &Knowledge) -> Put {
        let mut put = Put::new(self.key(plan), self.value(plan));
        put.prev_kv = self.rng.percent(30);
        if self.rng.percent(plan.leased_puts) {
            put.lease = self.some_lease(knowledge);
        }
        if self.rng.percent(5) {
            (put.ignore_value, put.value) = (true, Vec::new());
        }
        if self.rng.percent(5) {
            (put.ignore_lease, put.lease) = (true, 0);
        }
        put
    }

    /// A value that no other put writes.
    fn value(&mut self, plan: &Plan) -> Vec<u8> {
        self.made += 1;
        let mut value = format!("{}.{}", self.client, self.made).into_bytes();
        let len = self.rng.skewed(1, plan.value_bytes) as usize;
        if value.len() < len {
            value.resize(len, b'.');
        }
        value
    }

    fn some_lease(&mut self, knowledge: &Knowledge) -> i64 {
        if !self.leases.is_empty() && self.rng.percent(60) {
            return *self.rng.pick(&self.leases);
        }
        let known: Vec<i64> = knowledge.leases.iter().rev().take(6).copied().collect();
        if known.is_empty() || self.rng.percent(10) { 424_242 } else { *self.rng.pick(&known) }
    }

    pub(crate) fn delete(&mut self, plan: &Plan) -> Delete {
        let keys = if self.rng.percent(60) { Keys::single(self.key(plan)) } else { self.keys(plan) };
        Delete { keys, prev_kv: self.rng.percent(40) }
    }

    pub(crate) fn range(&mut self, plan: &Plan, knowledge: &Knowledge) -> Range {
        let mut range = Range::new(self.keys(plan));
        if self.rng.percent(30) {
            range.limit = self.rng.between(1, 6) as i64;
        }
        if self.rng.percent(35) {
            range.revision = self.some_revision(knowledge);
        }
        if self.rng.percent(25) {
            range.sort_order = *self.rng.pick(&[SortOrder::Ascend, SortOrder::Descend]);
            range.sort_target = *self.rng.pick(&[
                SortTarget::Key,
                SortTarget::Version,
                SortTarget::Create,
                SortTarget::Mod,
                SortTarget::Value,
            ]);
        }
        range.serializable = self.rng.percent(20);
        range.keys_only = self.rng.percent(10);
        range.count_only = self.rng.percent(10);
        if self.rng.percent(12) {
            let revision = self.some_revision(knowledge);
            let filter = match self.rng.below(4) {
                0 => &mut range.min_mod_revision,
                1 => &mut range.max_mod_revision,
                2 => &mut range.min_create_revision,
                _ => &mut range.max_create_revision,
            };
            *filter = revision;
        }
        range
    }

    /// Old, new, just compacted or not there yet.
    fn some_revision(&mut self, knowledge: &Knowledge) -> i64 {
        let span = (knowledge.revision - knowledge.compacted).max(1) as u64;
        match self.rng.below(10) {
            0 => knowledge.compacted + self.rng.below(3) as i64 - 1,
            1 => knowledge.revision + self.rng.between(0, 4) as i64,
            _ => knowledge.revision - self.rng.below(span) as i64,
        }
        .max(1)
    }

    fn lease(&mut self, plan: &Plan, knowledge: &Knowledge) -> Request {
        match self.rng.below(10) {
            0..=3 => {
                let fresh = match plan.lease_ids {
                    0 => i64::from(self.client) * 1_000_000 + self.made as i64,
                    ids => self.rng.between(1, ids) as i64,
                };
                let id = if self.rng.percent(10) { self.some_lease(knowledge) } else { fresh };
                // Recorded as the server will grant it.
                Request::LeaseGrant { id, ttl: (*self.rng.pick(&plan.ttls)).max(plan.node.min_lease_ttl) }
            }
            4 => Request::LeaseRevoke { id: self.some_lease(knowledge) },
            _ => Request::LeaseKeepAlive { id: self.some_lease(knowledge) },
        }
    }

    fn compaction(&mut self, plan: &Plan, knowledge: &Knowledge) -> Request {
        let at_delete = knowledge.deletes.iter().rev().nth(self.rng.below(3)).copied();
        let revision = match self.rng.below(10) {
            0..=3 => at_delete.unwrap_or(knowledge.revision),
            4 => knowledge.revision,
            5 => knowledge.compacted - self.rng.below(2) as i64,
            6 => knowledge.revision + self.rng.between(1, 3) as i64,
            _ => knowledge.revision - self.rng.skewed(0, 30) as i64,
        };
        let most = if plan.spare_observer { knowledge.observed } else { i64::MAX };
        Request::Compact { revision: revision.max(1).min(most.max(1)) }
    }

    pub(crate) fn compare(&mut self, plan: &Plan, knowledge: &Knowledge) -> Compare {
        let key = self.key(plan);
        let last = self.seen.get(&key).copied().unwrap_or(0);
        let target = match self.rng.below(10) {
            0..=5 => CompareTarget::Mod(last),
            6 => CompareTarget::Version(self.rng.below(3) as i64),
            7 => CompareTarget::Create(last),
            8 => CompareTarget::Lease(self.some_lease(knowledge)),
            _ => CompareTarget::Value(self.value(plan)),
        };
        let result = *self.rng.pick(&[
            CompareResult::Equal,
            CompareResult::Equal,
            CompareResult::Equal,
            CompareResult::Greater,
            CompareResult::Less,
            CompareResult::NotEqual,
        ]);
        let keys = if self.rng.percent(85) { Keys::single(key) } else { self.keys(plan) };
        Compare { keys, result, target }
    }

    pub(crate) fn watch(&mut self, plan: &Plan, knowledge: &Knowledge) -> Watch {
        let mut keys = self.keys(plan);
        // A span without keys is refused as such; that is not what is tried here.
        if !keys.range_end.is_empty() && keys.range_end != [0] && keys.key >= keys.range_end {
            keys = Keys::all();
        }
        let start_revision = match self.rng.below(10) {
            0..=3 => 0,
            4 => knowledge.revision + self.rng.between(1, 12) as i64,
            5 => (knowledge.compacted + self.rng.below(3) as i64 - 1).max(1),
            _ => self.some_revision(knowledge),
        };
        Watch {
            keys,
            start_revision,
            progress_notify: self.rng.percent(40),
            no_put: self.rng.percent(8),
            no_delete: self.rng.percent(8),
            prev_kv: self.rng.percent(50),
            fragment: false,
        }
    }
}

fn prefix(first: u8) -> Keys {
    Keys::between([first], [first + 1])
}
