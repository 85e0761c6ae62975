//! Kubernetes' update: if the key is as it was last seen, put it, else read it.
//!
//! Every slot has keys of its own, so no compare ever fails, unless a request before it was not
//! answered.

use std::sync::Arc;

use prost::Message;
use prost::bytes::Bytes;
use vetch_api::pb;
use vetch_api::pb::compare::{CompareResult, CompareTarget, TargetUnion};
use vetch_api::pb::request_op::Request;

use super::{Keys, Share, Values};
use crate::drive::{Asked, Work};
use crate::failure::WrongAnswer;
use crate::measure::tally::Yield;
use crate::scan;
use crate::wire::Method;

pub(crate) struct Cas {
    keys: Keys,
    values: Values,
    /// The revision at which a key was changed last, by the number of the key.
    revisions: Vec<i64>,
    slots: Vec<Mine>,
}

struct Mine {
    share: Share,
    turn: usize,
    now: usize,
}

impl Cas {
    pub(crate) fn new(
        keys: Keys,
        values: Values,
        revisions: &Arc<Vec<i64>>,
        (worker, workers): (usize, usize),
        slots: usize,
    ) -> Cas {
        let all = slots * workers;
        let share = |slot: usize| Share::of(worker * slots + slot, all, keys.count);
        let slots = (0..slots).map(|slot| Mine { share: share(slot), turn: 0, now: 0 }).collect();
        Cas { keys, values, revisions: revisions.to_vec(), slots }
    }
}

impl Work for Cas {
    fn classes(&self) -> &'static [&'static str] {
        &["update"]
    }

    fn next(&mut self, slot: usize, message: &mut Vec<u8>) -> Asked {
        let mine = &mut self.slots[slot];
        mine.now = mine.share.at(mine.turn);
        mine.turn += 1;
        let request = update(self.keys.key(mine.now), self.revisions[mine.now], self.values.value(), 0);
        request.encode(message).expect("a vector grows");
        Asked { method: Method::Txn, class: 0 }
    }

    fn message(&mut self, slot: usize, message: &[u8]) -> Result<Yield, WrongAnswer> {
        let known = &mut self.revisions[self.slots[slot].now];
        match decided(message)? {
            Decided::Done(revision) => {
                *known = revision;
                Ok(Yield { keys: 1, bytes: 0 })
            }
            Decided::Changed(revision) => {
                *known = revision;
                Err(WrongAnswer::CompareFailed)
            }
        }
    }
}

/// The transaction, as kube-apiserver sends it.
pub(crate) fn update(key: Bytes, revision: i64, value: Bytes, lease: i64) -> pb::TxnRequest {
    let put = pb::PutRequest { key: key.clone(), value, lease, ..Default::default() };
    pb::TxnRequest {
        compare: vec![unchanged(key.clone(), revision)],
        success: vec![pb::RequestOp { request: Some(Request::RequestPut(put)) }],
        failure: vec![read(key)],
    }
}

/// A create has nothing to read if the key is there already.
pub(crate) fn create(key: Bytes, value: Bytes, lease: i64) -> pb::TxnRequest {
    pb::TxnRequest { failure: Vec::new(), ..update(key, 0, value, lease) }
}

pub(crate) fn delete(key: Bytes, revision: i64) -> pb::TxnRequest {
    let delete = pb::DeleteRangeRequest { key: key.clone(), ..Default::default() };
    pb::TxnRequest {
        compare: vec![unchanged(key.clone(), revision)],
        success: vec![pb::RequestOp { request: Some(Request::RequestDeleteRange(delete)) }],
        failure: vec![read(key)],
    }
}

fn unchanged(key: Bytes, revision: i64) -> pb::Compare {
    pb::Compare {
        result: CompareResult::Equal as i32,
        target: CompareTarget::Mod as i32,
        key,
        target_union: Some(TargetUnion::ModRevision(revision)),
        ..Default::default()
    }
}

fn read(key: Bytes) -> pb::RequestOp {
    let range = pb::RangeRequest { key, ..Default::default() };
    pb::RequestOp { request: Some(Request::RequestRange(range)) }
}

/// What a transaction came to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Decided {
    /// It was done, at this revision.
    Done(i64),
    /// The key was last changed at this revision; 0 if it is not there.
    Changed(i64),
}

pub(crate) fn decided(answer: &[u8]) -> Result<Decided, WrongAnswer> {
    if scan::number(answer, 2)? == 1 {
        return Ok(Decided::Done(scan::revision(answer)?));
    }
    let answer = pb::TxnResponse::decode(answer)?;
    let mut responses = answer.responses.into_iter().filter_map(|response| response.response);
    match responses.next() {
        Some(pb::response_op::Response::ResponseRange(range)) => {
            Ok(Decided::Changed(range.kvs.first().map_or(0, |kv| kv.mod_revision)))
        }
        None => Ok(Decided::Changed(0)),
        Some(_) => Err(WrongAnswer::ElseBranch),
    }
}
