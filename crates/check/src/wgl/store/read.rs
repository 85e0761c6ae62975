//! What answers say: each is taken apart and compared with the store.

use std::sync::Arc;

use vetch_model::{
    Answer, Deleted, KeyValue, Keys, Op, OpAnswer, Range, Ranged, Request, SortOrder, SortTarget, Txn,
    TxnAnswer,
};

use super::Stored;

impl Stored {
    /// The store after the request, if it can have been answered so.
    pub(super) fn answered(&self, request: &Request, revision: i64, answer: &Answer) -> Option<Stored> {
        if self.refuses(request).is_some() {
            return None;
        }
        let after = self.changed_by(request);
        // The header of a renewal is filled in before it is made.
        let in_time = match request {
            Request::LeaseKeepAlive { .. } => revision <= after.revision,
            _ => revision == after.revision,
        };
        let right = match (request, answer) {
            (Request::Range(range), Answer::Range(ranged)) => self.reads(range, ranged),
            (Request::Put(put), Answer::Put { prev_kv }) => {
                self.replaces(&put.key, put.prev_kv, prev_kv.as_ref())
            }
            (Request::Delete(delete), Answer::Delete(deleted)) => {
                self.deletes(&delete.keys, delete.prev_kv, deleted)
            }
            (Request::Txn(txn), Answer::Txn(answer)) => self.clone().runs(self, txn, answer),
            (Request::LeaseGrant { id, ttl }, Answer::LeaseGrant { id: given, ttl: granted }) => {
                id == given && ttl == granted
            }
            (Request::LeaseKeepAlive { id }, Answer::LeaseKeepAlive { ttl }) => {
                self.leases.get(id).copied().unwrap_or(0) == *ttl
            }
            (Request::Compact { .. }, Answer::Compact)
            | (Request::LeaseRevoke { .. }, Answer::LeaseRevoke) => true,
            _ => false,
        };
        (in_time && right).then_some(after)
    }

    /// Only reads of the newest state are compared.
    fn reads(&self, range: &Range, ranged: &Ranged) -> bool {
        let bounds = [
            range.min_mod_revision,
            range.max_mod_revision,
            range.min_create_revision,
            range.max_create_revision,
        ];
        let plain = range.sort_target == SortTarget::Key && range.sort_order != SortOrder::Descend;
        if range.revision > 0 || !plain || bounds != [0; 4] {
            return true;
        }
        let found = self.found(&range.keys);
        let limit = if range.limit > 0 { range.limit as usize } else { usize::MAX };
        let shown = if range.count_only { 0 } else { limit.min(found.len()) };
        let same = |(there, shown): (&Arc<KeyValue>, &KeyValue)| {
            let mut kv = KeyValue::clone(there);
            if range.keys_only {
                (kv.value, kv.lease) = (Vec::new(), 0);
            }
            kv == *shown
        };
        ranged.count == found.len() as i64
            && ranged.more == (!range.count_only && found.len() > limit)
            && ranged.kvs.len() == shown
            && found.iter().zip(&ranged.kvs).all(same)
    }

    fn replaces(&self, key: &[u8], asked: bool, prev: Option<&KeyValue>) -> bool {
        prev == self.keys.get(key).map(|kv| &**kv).filter(|_| asked)
    }

    fn deletes(&self, keys: &Keys, asked: bool, deleted: &Deleted) -> bool {
        let found = self.found(keys);
        let expected = if asked { found.len() } else { 0 };
        deleted.deleted == found.len() as i64
            && deleted.prev_kvs.len() == expected
            && found.iter().zip(&deleted.prev_kvs).all(|(there, shown)| **there == *shown)
    }

    /// Goes through a transaction, operation by operation, each seeing what those before it did.
    fn runs(&mut self, before: &Stored, txn: &Txn, answer: &TxnAnswer) -> bool {
        let (succeeded, ops) = before.branch(txn);
        if succeeded != answer.succeeded || ops.len() != answer.responses.len() {
            return false;
        }
        ops.iter().zip(&answer.responses).all(|(op, response)| match (op, response) {
            (Op::Range(range), OpAnswer::Range(ranged)) => self.reads(range, ranged),
            (Op::Put(put), OpAnswer::Put { prev_kv }) => {
                let right = self.replaces(&put.key, put.prev_kv, prev_kv.as_ref());
                self.put(put, before.revision + 1);
                right
            }
            (Op::Delete(delete), OpAnswer::Delete(deleted)) => {
                let right = self.deletes(&delete.keys, delete.prev_kv, deleted);
                self.delete(&delete.keys);
                right
            }
            (Op::Txn(nested), OpAnswer::Txn(answer)) => self.runs(before, nested, answer),
            _ => false,
        })
    }
}
