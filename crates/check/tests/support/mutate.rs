//! One lie told in a right history: about operations, leases, compactions, hashes and the end.

use vetch_check::{Hashed, History, Operation, Outcome};
use vetch_model::{Answer, Deleted, Keys, OpAnswer, Put, Range, Ranged, Refusal, Request};

use vetch_testkit::random::Rng;

/// Where a mutation found nothing to change it says false.
pub(crate) type Mutation = fn(&mut History, &mut Rng) -> bool;

/// The indices of the operations that are wanted.
fn find(history: &History, wanted: impl Fn(&Operation) -> bool) -> Vec<usize> {
    (0..history.operations.len()).filter(|&index| wanted(&history.operations[index])).collect()
}

fn choose(rng: &mut Rng, from: &[usize]) -> Option<usize> {
    (!from.is_empty()).then(|| *rng.pick(from))
}

pub(crate) fn wrote(operation: &Operation) -> bool {
    match operation.answer() {
        Some(Answer::Put { .. }) => true,
        Some(Answer::Delete(Deleted { deleted, .. })) => *deleted > 0,
        Some(Answer::Txn(txn)) => txn.responses.iter().any(|response| match response {
            OpAnswer::Put { .. } => true,
            OpAnswer::Delete(Deleted { deleted, .. }) => *deleted > 0,
            _ => false,
        }),
        _ => false,
    }
}

fn last_time(history: &History) -> u64 {
    let operations = history.operations.iter().map(|operation| operation.returned);
    let messages = history.watches.iter().flat_map(|watch| &watch.messages).map(|message| message.at());
    operations.chain(messages).max().unwrap_or(0)
}

fn newest(history: &History) -> i64 {
    final_range(history).0
}

fn final_range(history: &History) -> (i64, &Ranged) {
    let index = history.finish.expect("every record is finished").range;
    match &history.operations[index].outcome {
        Outcome::Answered { revision, answer: Answer::Range(ranged) } => (*revision, ranged),
        other => panic!("a range is answered: {other:?}"),
    }
}

fn final_kvs(history: &mut History) -> &mut Ranged {
    let index = history.finish.expect("every record is finished").range;
    match &mut history.operations[index].outcome {
        Outcome::Answered { answer: Answer::Range(ranged), .. } => ranged,
        other => panic!("a range is answered: {other:?}"),
    }
}

/// Adds an operation behind everything.
fn append(history: &mut History, request: Request, outcome: Outcome) {
    let called = last_time(history) + 10;
    history.operations.push(Operation { client: 98, called, returned: called + 1, request, outcome });
}

/// A read of all keys at the end answers with what was there long ago, old revision and all.
pub(crate) fn stale_read(history: &mut History, _: &mut Rng) -> bool {
    let empty = Answer::Range(Ranged { kvs: Vec::new(), more: false, count: 0 });
    let stale = newest(history) > 1;
    append(
        history,
        Request::Range(Range::new(Keys::all())),
        Outcome::Answered { revision: 1, answer: empty },
    );
    stale
}

pub(crate) fn wrong_value(history: &mut History, rng: &mut Rng) -> bool {
    let full = |operation: &Operation| {
        matches!((&operation.request, operation.answer()), (Request::Range(range), Some(Answer::Range(ranged)))
            if !ranged.kvs.is_empty() && !range.keys_only)
    };
    let Some(index) = choose(rng, &find(history, full)) else { return false };
    let Outcome::Answered { answer: Answer::Range(ranged), .. } = &mut history.operations[index].outcome
    else {
        return false;
    };
    ranged.kvs[0].value.push(b'!');
    true
}

pub(crate) fn wrong_count(history: &mut History, rng: &mut Rng) -> bool {
    let Some(index) = choose(rng, &find(history, |op| matches!(op.answer(), Some(Answer::Range(_))))) else {
        return false;
    };
    let Outcome::Answered { answer: Answer::Range(ranged), .. } = &mut history.operations[index].outcome
    else {
        return false;
    };
    ranged.count += 1;
    true
}

/// A failed compare is told as having held.
pub(crate) fn wrong_branch(history: &mut History, rng: &mut Rng) -> bool {
    let Some(index) = choose(rng, &find(history, |op| matches!(op.answer(), Some(Answer::Txn(_))))) else {
        return false;
    };
    let Outcome::Answered { answer: Answer::Txn(txn), .. } = &mut history.operations[index].outcome else {
        return false;
    };
    txn.succeeded = !txn.succeeded;
    true
}

/// Two writes, one after the other, swap their revisions.
pub(crate) fn swapped_revisions(history: &mut History, rng: &mut Rng) -> bool {
    let writes = find(history, wrote);
    let Some(first) = choose(rng, &writes) else { return false };
    let returned = history.operations[first].returned;
    let later: Vec<usize> =
        writes.into_iter().filter(|&index| history.operations[index].called > returned).collect();
    let Some(second) = choose(rng, &later) else { return false };
    let (a, b) = (history.operations[first].revision(), history.operations[second].revision());
    set_revision(history, first, b);
    set_revision(history, second, a);
    true
}

fn set_revision(history: &mut History, index: usize, to: Option<i64>) {
    if let (Outcome::Answered { revision, .. }, Some(to)) = (&mut history.operations[index].outcome, to) {
        *revision = to;
    }
}

pub(crate) fn same_revision(history: &mut History, rng: &mut Rng) -> bool {
    let writes = find(history, wrote);
    let (Some(first), Some(second)) = (choose(rng, &writes), choose(rng, &writes)) else { return false };
    let revision = history.operations[first].revision();
    set_revision(history, second, revision);
    first != second
}

/// A write that everybody sees is said not to have been done. Only where the final watch tells of
/// it.
pub(crate) fn not_done_visible(history: &mut History, rng: &mut Rng) -> bool {
    let start = history.watches.last().map_or(1, |watch| watch.request.start_revision);
    let shown = |operation: &Operation| {
        let plain = matches!(&operation.request, Request::Put(put) if !put.ignore_value && !put.ignore_lease);
        plain && operation.revision().is_some_and(|revision| revision >= start)
    };
    let Some(index) = choose(rng, &find(history, shown)) else { return false };
    history.operations[index].outcome = Outcome::NotDone;
    true
}

/// A write that everybody sees was never sent.
pub(crate) fn unrequested_write(history: &mut History, rng: &mut Rng) -> bool {
    let start = history.watches.last().map_or(1, |watch| watch.request.start_revision);
    let shown = |operation: &Operation| {
        matches!(operation.request, Request::Put(_)) && operation.revision().is_some_and(|rev| rev >= start)
    };
    let Some(index) = choose(rng, &find(history, shown)) else { return false };
    history.operations[index].request = Request::Range(Range::new(Keys::single("zzz")));
    history.operations[index].outcome = Outcome::NotDone;
    true
}

/// What was written last of a key is missing at the end, and what was there before is back.
pub(crate) fn lost_write(history: &mut History, rng: &mut Rng) -> bool {
    let kvs = &mut final_kvs(history).kvs;
    if kvs.is_empty() {
        return false;
    }
    let index = rng.below(kvs.len() as u64) as usize;
    if kvs[index].version > 1 {
        kvs[index].version -= 1;
        kvs[index].value = b"old".to_vec();
    } else {
        kvs.remove(index);
    }
    true
}

/// A key that was deleted is there again at the end.
pub(crate) fn resurrected_key(history: &mut History, rng: &mut Rng) -> bool {
    let events =
        history.watches.iter().flat_map(|watch| &watch.messages).flat_map(|message| message.events());
    let gone: Vec<_> =
        events.filter(|event| event.deleted).filter_map(|event| event.prev_kv.clone()).collect();
    let ranged = final_kvs(history);
    let gone: Vec<_> =
        gone.into_iter().filter(|kv| ranged.kvs.iter().all(|there| there.key != kv.key)).collect();
    if gone.is_empty() {
        return false;
    }
    ranged.kvs.push(rng.pick(&gone).clone());
    ranged.kvs.sort();
    ranged.count += 1;
    true
}

/// Every lease was granted for much longer than those lived that ended by themselves.
pub(crate) fn early_expiry(history: &mut History, _: &mut Rng) -> bool {
    for operation in &mut history.operations {
        if let Request::LeaseGrant { ttl, .. } = &mut operation.request {
            *ttl *= 1000;
        }
        match &mut operation.outcome {
            Outcome::Answered { answer: Answer::LeaseGrant { ttl, .. }, .. }
            | Outcome::Answered { answer: Answer::LeaseKeepAlive { ttl }, .. } => *ttl *= 1000,
            _ => {}
        }
    }
    true
}

pub(crate) fn unknown_lease_renewed(history: &mut History, _: &mut Rng) -> bool {
    let revision = newest(history);
    let answer = Answer::LeaseKeepAlive { ttl: 5 };
    append(history, Request::LeaseKeepAlive { id: 77 }, Outcome::Answered { revision, answer });
    true
}

/// The second of two grants in a row is answered as well.
pub(crate) fn granted_twice(history: &mut History, _: &mut Rng) -> bool {
    let revision = newest(history);
    for _ in 0..2 {
        let answer = Answer::LeaseGrant { id: 77, ttl: 60 };
        append(history, Request::LeaseGrant { id: 77, ttl: 60 }, Outcome::Answered { revision, answer });
    }
    true
}

/// A lease that was just granted is said not to exist.
pub(crate) fn lease_denied(history: &mut History, _: &mut Rng) -> bool {
    let revision = newest(history);
    let answer = Answer::LeaseGrant { id: 77, ttl: 60 };
    append(history, Request::LeaseGrant { id: 77, ttl: 60 }, Outcome::Answered { revision, answer });
    let mut put = Put::new("a", "x");
    put.lease = 77;
    append(history, Request::Put(put), Outcome::Refused(Refusal::LeaseNotFound));
    true
}

pub(crate) fn lease_invented(history: &mut History, _: &mut Rng) -> bool {
    append(history, Request::LeaseGrant { id: 77, ttl: 60 }, Outcome::Refused(Refusal::LeaseExists));
    true
}

pub(crate) fn ttl_refused(history: &mut History, _: &mut Rng) -> bool {
    append(history, Request::LeaseGrant { id: 77, ttl: 60 }, Outcome::Refused(Refusal::LeaseTtlTooLarge));
    true
}

pub(crate) fn future_refused(history: &mut History, _: &mut Rng) -> bool {
    let mut range = Range::new(Keys::all());
    range.revision = newest(history);
    append(history, Request::Range(range), Outcome::Refused(Refusal::FutureRevision));
    true
}

pub(crate) fn compacted_refused(history: &mut History, _: &mut Rng) -> bool {
    let mut range = Range::new(Keys::all());
    range.revision = newest(history) + 1;
    append(history, Request::Range(range), Outcome::Refused(Refusal::Compacted));
    true
}

pub(crate) fn key_refused(history: &mut History, rng: &mut Rng) -> bool {
    let kvs = &final_range(history).1.kvs;
    if kvs.is_empty() {
        return false;
    }
    let mut put = Put::new(rng.pick(kvs).key.clone(), "");
    put.ignore_value = true;
    append(history, Request::Put(put), Outcome::Refused(Refusal::KeyNotFound));
    true
}

pub(crate) fn compacted_twice(history: &mut History, rng: &mut Rng) -> bool {
    let answered = |operation: &Operation| matches!(operation.answer(), Some(Answer::Compact));
    let Some(index) = choose(rng, &find(history, answered)) else { return false };
    let request = history.operations[index].request.clone();
    let revision = newest(history);
    append(history, request, Outcome::Answered { revision, answer: Answer::Compact });
    true
}

pub(crate) fn compacted_future(history: &mut History, _: &mut Rng) -> bool {
    let revision = newest(history);
    let request = Request::Compact { revision: revision + 1 };
    append(history, request, Outcome::Answered { revision, answer: Answer::Compact });
    true
}

/// What was compacted is read, and even rightly: there was nothing at the first revision.
pub(crate) fn compacted_read(history: &mut History, _: &mut Rng) -> bool {
    let compacted = history.operations.iter().any(|operation| {
        matches!(operation.request, Request::Compact { revision } if revision > 1)
            && operation.answer().is_some()
    });
    let mut range = Range::new(Keys::all());
    range.revision = 1;
    let answer = Answer::Range(Ranged { kvs: Vec::new(), more: false, count: 0 });
    let revision = newest(history);
    append(history, Request::Range(range), Outcome::Answered { revision, answer });
    compacted
}

pub(crate) fn wrong_hash(history: &mut History, rng: &mut Rng) -> bool {
    if history.hashes.is_empty() {
        return false;
    }
    let index = rng.below(history.hashes.len() as u64) as usize;
    history.hashes[index].hash ^= 1 << rng.below(32);
    true
}

/// After a restart the same state has another hash. The specification is not needed to see it.
pub(crate) fn changing_hash(history: &mut History, _: &mut Rng) -> bool {
    let Some(&last) = history.hashes.last() else { return false };
    history.hashes.push(Hashed { hash: !last.hash, ..last });
    true
}

/// A key is shown that does not hang on the lease, or one that does is not.
pub(crate) fn wrong_lease_keys(history: &mut History, rng: &mut Rng) -> bool {
    if history.leased.is_empty() {
        return false;
    }
    let index = rng.below(history.leased.len() as u64) as usize;
    let keys = &mut history.leased[index].keys;
    if keys.pop().is_none() {
        keys.push(b"a".to_vec());
    }
    true
}

/// What hung on a lease before something that had been seen.
pub(crate) fn stale_lease_keys(history: &mut History, _: &mut Rng) -> bool {
    let Some(mut last) = history.leased.last().cloned() else { return false };
    let end = history.operations.iter().map(|operation| operation.returned).filter(|&at| at < u64::MAX).max();
    (last.called, last.returned) = (end.unwrap_or(0) + 1, end.unwrap_or(0) + 2);
    let is_old = last.revision < newest(history);
    history.leased.push(last);
    is_old
}

pub(crate) fn final_watch_short(history: &mut History, _: &mut Rng) -> bool {
    let Some(last) = history.watches.last_mut() else { return false };
    last.messages.truncate(1);
    newest(history) > 1
}

/// The final range is not of all keys.
pub(crate) fn final_range_narrow(history: &mut History, _: &mut Rng) -> bool {
    let index = history.finish.expect("every record is finished").range;
    let Request::Range(range) = &mut history.operations[index].request else { return false };
    range.keys = Keys::single("zzz");
    *final_kvs(history) = Ranged { kvs: Vec::new(), more: false, count: 0 };
    true
}

pub(crate) fn returned_before_called(history: &mut History, rng: &mut Rng) -> bool {
    let index = rng.below(history.operations.len() as u64) as usize;
    history.operations[index].returned = history.operations[index].called - 1;
    true
}
