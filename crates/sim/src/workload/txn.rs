//! Transactions: compare-and-swap as Kubernetes does it, and everything else the API allows.

use vetch_model::{Compare, CompareResult, CompareTarget, Keys, Op, Range, Txn};
use vetch_store::validate;

use super::Generator;
use crate::knowledge::Knowledge;
use crate::plan::Plan;
use vetch_testkit::to_store;

/// Operations that a transaction may have, as the server's default has it.
pub(crate) const MAX_OPS: usize = 128;

impl Generator {
    pub(super) fn txn(&mut self, plan: &Plan, knowledge: &Knowledge) -> Txn {
        if self.rng.percent(50) {
            return self.swap(plan, knowledge);
        }
        loop {
            let txn = self.any_txn(plan, knowledge, 2);
            // What the edge refuses never reaches the node.
            let valid = validate::txn(to_store::txn(&txn), MAX_OPS).is_ok();
            if valid && !may_change_twice(&txn.success) && !may_change_twice(&txn.failure) {
                return txn;
            }
        }
    }

    /// Write if the key is as this client last saw it, else read it.
    fn swap(&mut self, plan: &Plan, knowledge: &Knowledge) -> Txn {
        let put = self.put(plan, knowledge);
        let keys = Keys::single(put.key.clone());
        let last = self.seen.get(&put.key).copied().unwrap_or(0);
        let compare =
            Compare { keys: keys.clone(), result: CompareResult::Equal, target: CompareTarget::Mod(last) };
        let success = if self.rng.percent(80) {
            Op::Put(put)
        } else {
            Op::Delete(vetch_model::Delete { keys: keys.clone(), prev_kv: true })
        };
        Txn { compare: vec![compare], success: vec![success], failure: vec![Op::Range(Range::new(keys))] }
    }

    fn any_txn(&mut self, plan: &Plan, knowledge: &Knowledge, depth: usize) -> Txn {
        let compares = self.rng.below(3);
        Txn {
            compare: (0..compares).map(|_| self.compare(plan, knowledge)).collect(),
            success: self.ops(plan, knowledge, depth),
            failure: self.ops(plan, knowledge, depth),
        }
    }

    fn ops(&mut self, plan: &Plan, knowledge: &Knowledge, depth: usize) -> Vec<Op> {
        let count = self.rng.below(4);
        (0..count).map(|_| self.op(plan, knowledge, depth)).collect()
    }

    fn op(&mut self, plan: &Plan, knowledge: &Knowledge, depth: usize) -> Op {
        match self.rng.below(10) {
            0..=4 => Op::Put(self.put(plan, knowledge)),
            5 | 6 => Op::Delete(self.delete(plan)),
            7 if depth > 0 => Op::Txn(self.any_txn(plan, knowledge, depth - 1)),
            _ => Op::Range(self.range(plan, knowledge)),
        }
    }
}

/// Whether a key may be changed more than once in a branch. The API lets a few such transactions
/// pass; what their watchers are told is compared with etcd elsewhere, and cannot be judged from a
/// history.
fn may_change_twice(ops: &[Op]) -> bool {
    let (mut puts, mut deletes) = (Vec::new(), Vec::new());
    collect(ops, &mut puts, &mut deletes);
    let count = puts.len();
    let overlap = puts.iter().any(|key| deletes.iter().any(|keys: &&Keys| keys.contains(key)));
    puts.sort_unstable();
    puts.dedup();
    overlap || puts.len() < count
}

fn collect<'a>(ops: &'a [Op], puts: &mut Vec<&'a [u8]>, deletes: &mut Vec<&'a Keys>) {
    for op in ops {
        match op {
            Op::Put(put) => puts.push(&put.key),
            Op::Delete(delete) => deletes.push(&delete.keys),
            Op::Txn(txn) => {
                collect(&txn.success, puts, deletes);
                collect(&txn.failure, puts, deletes);
            }
            Op::Range(_) | Op::Empty => {}
        }
    }
}
