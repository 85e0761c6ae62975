//! Compares: the guards of a transaction, and the branch that they choose.

use std::cmp::Ordering;

use crate::request::{Compare, CompareResult, CompareTarget, Op, Txn};
use crate::response::KeyValue;
use crate::state::Model;

impl Model {
    pub(crate) fn succeeds(&self, txn: &Txn, at: i64) -> bool {
        txn.compare.iter().all(|compare| self.holds(compare, at))
    }

    /// `at` is the revision before the transaction: what it writes decides no branch, however deep
    /// it is nested.
    pub(crate) fn branch<'a>(&self, txn: &'a Txn, at: i64) -> &'a [Op] {
        if self.succeeds(txn, at) { &txn.success } else { &txn.failure }
    }

    /// A compare has to hold for every key of its range.
    ///
    /// Where there is no key it is made once, with zeroes, except for values: nothing compares with
    /// a value that does not exist, not even a difference.
    fn holds(&self, compare: &Compare, at: i64) -> bool {
        let mut kvs = self.live(&compare.keys, at).peekable();
        if kvs.peek().is_none() {
            let nothing = KeyValue {
                key: Vec::new(),
                value: Vec::new(),
                create_revision: 0,
                mod_revision: 0,
                version: 0,
                lease: 0,
            };
            return !matches!(compare.target, CompareTarget::Value(_)) && holds_for(compare, &nothing);
        }
        kvs.all(|kv| holds_for(compare, kv))
    }
}

fn holds_for(compare: &Compare, kv: &KeyValue) -> bool {
    let order = match &compare.target {
        CompareTarget::Version(operand) => kv.version.cmp(operand),
        CompareTarget::Create(operand) => kv.create_revision.cmp(operand),
        CompareTarget::Mod(operand) => kv.mod_revision.cmp(operand),
        CompareTarget::Value(operand) => kv.value.cmp(operand),
        CompareTarget::Lease(operand) => kv.lease.cmp(operand),
        CompareTarget::Unknown => Ordering::Equal,
    };
    match compare.result {
        CompareResult::Equal => order.is_eq(),
        CompareResult::NotEqual => order.is_ne(),
        CompareResult::Greater => order.is_gt(),
        CompareResult::Less => order.is_lt(),
        CompareResult::Unknown => true,
    }
}
