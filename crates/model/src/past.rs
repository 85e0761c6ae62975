//! The past: judging, at any later time, an answer whose header names a revision.
//!
//! A server decides at some moment what a request that changes nothing is answered; the header says
//! at which revision it did. Compaction is left out of account here: it may have come later.

use crate::request::{Op, Request, Txn};
use crate::response::{Answer, Deleted, OpAnswer, TxnAnswer};
use crate::state::{Model, Moment};

impl Model {
    /// Whether the request changes keys if it is handled at `revision` and not refused.
    ///
    /// That of a lease's end is only known now: leases have no revisions.
    pub fn changes_at(&self, request: &Request, revision: i64) -> bool {
        match request {
            Request::Put(_) => true,
            Request::Delete(delete) => self.live(&delete.keys, revision).next().is_some(),
            Request::Txn(txn) => self.txn_changes_at(txn, revision),
            Request::LeaseRevoke { id } => !self.lease_keys(*id).is_empty(),
            Request::Range(_)
            | Request::Compact { .. }
            | Request::LeaseGrant { .. }
            | Request::LeaseKeepAlive { .. } => false,
        }
    }

    fn txn_changes_at(&self, txn: &Txn, revision: i64) -> bool {
        self.branch(txn, revision).iter().any(|op| match op {
            Op::Put(_) => true,
            Op::Delete(delete) => self.live(&delete.keys, revision).next().is_some(),
            Op::Txn(nested) => self.txn_changes_at(nested, revision),
            Op::Range(_) | Op::Empty => false,
        })
    }

    /// What a request about keys that changes none is answered with `revision` in the header.
    ///
    /// None if no such answer exists: the request changes something at that revision, or asks for a
    /// later one, or is not about keys.
    pub fn answer_at(&self, request: &Request, revision: i64) -> Option<Answer> {
        let uncompacted = Moment { revision, compacted: -1 };
        if self.changes_at(request, revision) || self.check_at(request, uncompacted).is_err() {
            return None;
        }
        match request {
            Request::Range(range) => {
                let at = if range.revision <= 0 { revision } else { range.revision };
                Some(Answer::Range(self.range_at(range, at)))
            }
            Request::Delete(_) => Some(Answer::Delete(NOTHING_DELETED)),
            Request::Txn(txn) => Some(Answer::Txn(self.unchanging(txn, revision))),
            _ => None,
        }
    }

    fn unchanging(&self, txn: &Txn, revision: i64) -> TxnAnswer {
        let responses = self.branch(txn, revision).iter().map(|op| match op {
            Op::Range(range) => {
                let at = if range.revision <= 0 { revision } else { range.revision };
                OpAnswer::Range(self.range_at(range, at))
            }
            Op::Delete(_) => OpAnswer::Delete(NOTHING_DELETED),
            Op::Txn(nested) => OpAnswer::Txn(self.unchanging(nested, revision)),
            Op::Put(_) | Op::Empty => unreachable!("a put changes something, an empty operation is refused"),
        });
        TxnAnswer { succeeded: self.succeeds(txn, revision), responses: responses.collect() }
    }
}

const NOTHING_DELETED: Deleted = Deleted { deleted: 0, prev_kvs: Vec::new() };
