//! Facts: what can be told of a request and its answer without any state.

use std::fmt::Write as _;

use vetch_model::{Answer, Op, OpAnswer, Put, Range, Request, Txn, TxnAnswer};

use crate::history::{Operation, Outcome};

/// Whether an answer says that keys changed. That of a revoke does not say.
pub(crate) fn changed(answer: &Answer) -> bool {
    match answer {
        Answer::Put { .. } => true,
        Answer::Delete(deleted) => deleted.deleted > 0,
        Answer::Txn(txn) => txn_changed(txn),
        _ => false,
    }
}

fn txn_changed(txn: &TxnAnswer) -> bool {
    txn.responses.iter().any(|response| match response {
        OpAnswer::Put { .. } => true,
        OpAnswer::Delete(deleted) => deleted.deleted > 0,
        OpAnswer::Txn(nested) => txn_changed(nested),
        OpAnswer::Range(_) => false,
    })
}

/// Whether the answer is of the kind that the request asks for.
pub(crate) fn fits(request: &Request, answer: &Answer) -> bool {
    if let (Request::LeaseGrant { id, ttl }, Answer::LeaseGrant { id: given, ttl: granted }) =
        (request, answer)
    {
        // The server chooses an id where none is asked for, and may grant more time than that.
        return (*id == 0 || id == given) && granted >= ttl;
    }
    matches!(
        (request, answer),
        (Request::Range(_), Answer::Range(_))
            | (Request::Put(_), Answer::Put { .. })
            | (Request::Delete(_), Answer::Delete(_))
            | (Request::Txn(_), Answer::Txn(_))
            | (Request::Compact { .. }, Answer::Compact)
            | (Request::LeaseRevoke { .. }, Answer::LeaseRevoke)
            | (Request::LeaseKeepAlive { .. }, Answer::LeaseKeepAlive { .. })
    )
}

/// Reads that may be answered from an old state. A transaction without any operation counts as one,
/// as in etcd.
pub(crate) fn is_serializable(request: &Request) -> bool {
    match request {
        Request::Range(range) => range.serializable,
        Request::Txn(txn) => {
            let mut ops = txn.success.iter().chain(&txn.failure);
            ops.all(|op| matches!(op, Op::Range(range) if range.serializable))
        }
        _ => false,
    }
}

/// Every single operation in a request, of both branches of transactions.
pub(crate) fn all_ops(request: &Request) -> Vec<Op> {
    fn walk(txn: &Txn, into: &mut Vec<Op>) {
        for op in txn.success.iter().chain(&txn.failure) {
            match op {
                Op::Txn(nested) => walk(nested, into),
                single => into.push(single.clone()),
            }
        }
    }
    let mut ops = Vec::new();
    match request {
        Request::Range(range) => ops.push(Op::Range(range.clone())),
        Request::Put(put) => ops.push(Op::Put(put.clone())),
        Request::Delete(delete) => ops.push(Op::Delete(delete.clone())),
        Request::Txn(txn) => walk(txn, &mut ops),
        _ => {}
    }
    ops
}

pub(crate) fn puts(request: &Request) -> Vec<Put> {
    let puts = all_ops(request).into_iter().filter_map(|op| match op {
        Op::Put(put) => Some(put),
        _ => None,
    });
    puts.collect()
}

/// The leases that puts of the request name, each once.
pub(crate) fn leases_named(request: &Request) -> Vec<i64> {
    let mut leases: Vec<i64> = puts(request).iter().map(|put| put.lease).filter(|&id| id != 0).collect();
    leases.sort_unstable();
    leases.dedup();
    leases
}

/// The ranges that ran, with what each was answered.
pub(crate) fn ranges_run<'a>(request: &'a Request, answer: &'a Answer) -> Vec<&'a Range> {
    fn walk<'a>(txn: &'a Txn, answer: &TxnAnswer, into: &mut Vec<&'a Range>) {
        let branch = if answer.succeeded { &txn.success } else { &txn.failure };
        for (op, answer) in branch.iter().zip(&answer.responses) {
            match (op, answer) {
                (Op::Range(range), _) => into.push(range),
                (Op::Txn(nested), OpAnswer::Txn(answer)) => walk(nested, answer, into),
                _ => {}
            }
        }
    }
    let mut ranges = Vec::new();
    match (request, answer) {
        (Request::Range(range), _) => ranges.push(range),
        (Request::Txn(txn), Answer::Txn(answer)) => walk(txn, answer, &mut ranges),
        _ => {}
    }
    ranges
}

/// The lease that a grant is or would be about: a server may have chosen its number.
pub(crate) fn granted_lease(operation: &Operation) -> Option<i64> {
    match (&operation.request, operation.answer()) {
        (Request::LeaseGrant { .. }, Some(Answer::LeaseGrant { id, .. })) => Some(*id),
        (Request::LeaseGrant { id, .. }, _) => Some(*id).filter(|&id| id != 0),
        _ => None,
    }
}

/// An operation in words, cut short if it is long.
pub(crate) fn describe(operation: &Operation) -> String {
    const TEXT_MAX: usize = 400;
    let Operation { client, called, returned, request, outcome } = operation;
    let mut text = format!("client {client} [{called}..{returned}] {}", request_text(request));
    let _ = match outcome {
        Outcome::Answered { revision, answer } => write!(text, " -> revision {revision}, {answer:?}"),
        Outcome::Refused(refusal) => write!(text, " -> refused: {refusal}"),
        Outcome::NotDone => write!(text, " -> not done"),
        Outcome::Unknown => write!(text, " -> unknown"),
    };
    shorten(text, TEXT_MAX)
}

fn request_text(request: &Request) -> String {
    match request {
        Request::Put(put) => {
            let lease = if put.lease == 0 { String::new() } else { format!(" lease {}", put.lease) };
            format!("put {} = {}{lease}", bytes(&put.key), bytes(&put.value))
        }
        Request::Delete(delete) => format!("delete {}", keys_text(&delete.keys)),
        Request::Range(range) => format!("range {} at {}", keys_text(&range.keys), range.revision),
        other => shorten(format!("{other:?}"), 200),
    }
}

fn keys_text(keys: &vetch_model::Keys) -> String {
    if keys.range_end.is_empty() {
        return bytes(&keys.key);
    }
    format!("[{}, {})", bytes(&keys.key), bytes(&keys.range_end))
}

pub(crate) fn bytes(bytes: &[u8]) -> String {
    shorten(bytes.escape_ascii().to_string(), 60)
}

pub(crate) fn shorten(mut text: String, longest: usize) -> String {
    if text.len() > longest {
        let end = (0..=longest).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
        text.truncate(end);
        text.push_str("...");
    }
    text
}
