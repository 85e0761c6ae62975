//! Evaluation: what a server that handles a request now answers, and what changes.

use crate::request::{Delete, Op, Put, Request, Txn};
use crate::response::{Answer, Deleted, KeyValue, OpAnswer, Refusal, TxnAnswer};
use crate::state::Model;

impl Model {
    /// Does what a well-formed request asks: the revision in the answer's header, and the answer.
    ///
    /// All changes of one request make one revision. A request that changes no key makes none.
    pub fn evaluate(&mut self, request: &Request) -> Result<(i64, Answer), Refusal> {
        self.check_at(request, self.now)?;
        let answer = match request {
            Request::Range(range) => {
                let at = if range.revision <= 0 { self.now.revision } else { range.revision };
                Answer::Range(self.range_at(range, at))
            }
            Request::Put(put) => Answer::Put { prev_kv: self.put(put) },
            Request::Delete(delete) => Answer::Delete(self.delete(delete)),
            Request::Txn(txn) => Answer::Txn(self.txn(txn)),
            Request::Compact { revision } => {
                self.now.compacted = *revision;
                Answer::Compact
            }
            Request::LeaseGrant { id, ttl } => {
                self.leases.insert(*id, *ttl);
                Answer::LeaseGrant { id: *id, ttl: *ttl }
            }
            Request::LeaseRevoke { id } => {
                let keys: Vec<Vec<u8>> = self.lease_keys(*id).into_iter().map(<[u8]>::to_vec).collect();
                self.leases.remove(id);
                keys.into_iter().for_each(|key| self.delete_key(key));
                Answer::LeaseRevoke
            }
            // Without a clock a lease that is there always has its whole time left.
            Request::LeaseKeepAlive { id } => {
                Answer::LeaseKeepAlive { ttl: self.leases.get(id).copied().unwrap_or(0) }
            }
        };
        self.now.revision = self.newest();
        Ok((self.now.revision, answer))
    }

    /// The revision of what the request being evaluated changes.
    fn next(&self) -> i64 {
        self.now.revision + 1
    }

    /// The newest revision, that of the request being evaluated included once it has changed
    /// something.
    fn newest(&self) -> i64 {
        self.log().last().map_or(self.now.revision, |last| last.kv.mod_revision.max(self.now.revision))
    }

    /// Ranges see what the operations before them wrote.
    fn txn(&mut self, txn: &Txn) -> TxnAnswer {
        let before = self.now.revision;
        let succeeded = self.succeeds(txn, before);
        let mut responses = Vec::new();
        for op in self.branch(txn, before) {
            responses.push(match op {
                Op::Range(range) => {
                    let at = if range.revision <= 0 { self.newest() } else { range.revision };
                    OpAnswer::Range(self.range_at(range, at))
                }
                Op::Put(put) => OpAnswer::Put { prev_kv: self.put(put) },
                Op::Delete(delete) => OpAnswer::Delete(self.delete(delete)),
                Op::Txn(nested) => OpAnswer::Txn(self.txn(nested)),
                Op::Empty => unreachable!("refused before anything is done"),
            });
        }
        TxnAnswer { succeeded, responses }
    }

    /// The key as it was, if it is asked for.
    fn put(&mut self, put: &Put) -> Option<KeyValue> {
        let next = self.next();
        let prev = self.get(&put.key, next).cloned();
        let kept = || prev.as_ref().expect("a put that keeps something is refused if there is nothing");
        let kv = KeyValue {
            key: put.key.clone(),
            value: if put.ignore_value { kept().value.clone() } else { put.value.clone() },
            create_revision: prev.as_ref().map_or(next, |prev| prev.create_revision),
            mod_revision: next,
            version: prev.as_ref().map_or(1, |prev| prev.version + 1),
            lease: if put.ignore_lease { kept().lease } else { put.lease },
        };
        self.change(false, kv);
        prev.filter(|_| put.prev_kv)
    }

    fn delete(&mut self, delete: &Delete) -> Deleted {
        let gone: Vec<KeyValue> = self.live(&delete.keys, self.next()).cloned().collect();
        for kv in &gone {
            self.delete_key(kv.key.clone());
        }
        let deleted = gone.len() as i64;
        Deleted { deleted, prev_kvs: if delete.prev_kv { gone } else { Vec::new() } }
    }

    fn delete_key(&mut self, key: Vec<u8>) {
        let mod_revision = self.next();
        let kv = KeyValue { key, value: Vec::new(), create_revision: 0, mod_revision, version: 0, lease: 0 };
        self.change(true, kv);
    }
}
