//! Turns: a request that examines or changes very many keys, evaluated in steps between which
//! others get the store.
//!
//! That is safe because only one thread evaluates, and nothing else changes head meanwhile: what
//! becomes visible, and what compaction frees, was decided before. A rewind ([`crate::rewind`])
//! begins when the last evaluation has ended. A reader looks at the visible state, which is older
//! than everything that is being evaluated.
//!
//! * While a request only looks, at the keys that its compares and checks name, head stays as it
//!   is. Compaction takes slots out of the tree in between, never those of living keys, so a scan
//!   goes on by key and not by its place in the tree.
//! * Between two changes of one revision everything that readers use is consistent: the chains have
//!   versions above the visible revision, which readers ignore; the tree counts live keys, and
//!   `membership` has exactly these changes, so a count in the past subtracts them; `superseded`
//!   names every slot whose version went, and a lease has all others.
//! * A range within a transaction reads what that has changed so far. Nothing else changes it.
//! * Whether head has the revision that is being made is asked by its number only, which moves on
//!   with the last change.

use crate::command;
use crate::error::StoreError;
use crate::evaluate::{self, Evaluated};
use crate::exclusive::CHANGE_WEIGHT;
pub use crate::exclusive::Exclusive;
use crate::keys::Slot;
use crate::record::Record;
use crate::request::WriteRequest;
use crate::state::Store;

impl Store {
    /// Evaluates `request` and applies it to head. Commands are appended to `journal`; a request
    /// that changed nothing appends nothing.
    pub fn evaluate(
        &mut self,
        request: &WriteRequest,
        journal: &mut Vec<u8>,
    ) -> Result<Evaluated, StoreError> {
        let mut store = self;
        evaluate(&mut store, request, journal)
    }
}

/// Does what [`Store::evaluate`] does. Others get the store in between if many keys are examined or
/// changed.
pub fn evaluate(
    store: &mut impl Exclusive,
    request: &WriteRequest,
    journal: &mut Vec<u8>,
) -> Result<Evaluated, StoreError> {
    let id = match request {
        WriteRequest::Put(put) => return evaluate::put(store, put, journal),
        WriteRequest::DeleteRange(delete) => return evaluate::delete(store, delete, journal),
        WriteRequest::Txn(txn) => return evaluate::txn(store, txn, journal),
        WriteRequest::LeaseRevoke { id } => *id,
        WriteRequest::LeaseExpire { id, grant } if store.leases.is_of(*id, *grant) => *id,
        _ => return store.evaluate_small(request, journal),
    };
    if store.leases.get(id).is_none_or(|lease| lease.keys() <= store.step()) {
        return store.evaluate_revoke(id, journal);
    }
    let slots = slots_by_key(store, id);
    let mut events = Vec::with_capacity(slots.len());
    for slot in slots {
        let sub = u32::try_from(events.len()).expect("a lease has fewer keys than there are slots");
        let revision = store.head.revision + 1;
        events.push(store.delete_slot(slot, revision, sub).0);
        store.did(CHANGE_WEIGHT);
    }
    let ended = store.leases.ended(id).expect("nothing else changes head");
    store.leases.remove(id);
    store.head.revision += 1;
    store.worked += events.len() as u64;
    command::encode_lease_revoke(journal, id);
    Ok(Evaluated::of_revoke(store.head.revision, ended, events))
}

/// The slots of a lease at head, in order of their keys. Sorting them takes longer than any step.
fn slots_by_key(store: &mut impl Exclusive, id: i64) -> Vec<Slot> {
    let mut found: Vec<(Slot, Record)> = Vec::new();
    loop {
        let (step, before) = (store.step(), found.len());
        let from = found.last().map_or(0, |(slot, _)| slot + 1);
        let lease = store.leases.get(id).expect("nothing else changes head");
        for slot in lease.slots_from(from).take(step) {
            let newest = store.keys.chain(slot).last().expect("a key on a lease has a version");
            found.push((slot, newest.clone()));
        }
        let more = found.len() - before;
        store.did(more);
        if more < step {
            break;
        }
    }
    store.unlocked(move || {
        found.sort_unstable_by(|(_, a), (_, b)| a.key().cmp(b.key()));
        found.into_iter().map(|(slot, _)| slot).collect()
    })
}

#[cfg(test)]
mod tests {
    use std::ops::DerefMut;

    use super::*;
    use crate::leased::LeasedRun;
    use crate::range::RangeRun;
    use crate::request::*;
    use crate::validated::valid;

    /// Looks at everything that is visible whenever others have the store.
    struct Watched<'s> {
        store: &'s mut Store,
        examined: usize,
        turns: usize,
    }

    impl Watched<'_> {
        fn new(store: &mut Store) -> Watched<'_> {
            Watched { store, examined: 0, turns: 0 }
        }

        fn give_way(&mut self) {
            (self.examined, self.turns) = (0, self.turns + 1);
            let (all, counts, leased) = shown(self.store);
            assert_eq!((all.len(), counts, leased.len()), (106, [106, 30], 100), "turn {}", self.turns);
            // Others free what was compacted before.
            self.store.compact_step(1, &mut Vec::new());
        }
    }

    impl std::ops::Deref for Watched<'_> {
        type Target = Store;

        fn deref(&self) -> &Store {
            self.store
        }
    }

    impl DerefMut for Watched<'_> {
        fn deref_mut(&mut self) -> &mut Store {
            self.store
        }
    }

    /// What readers see: all keys, how many there are of two ranges, and those on the lease.
    fn shown(store: &Store) -> (Vec<Record>, [i64; 2], Vec<Record>) {
        let request = RangeRequest::new(KeyRange::new("\0", "\0"));
        let mut all = RangeRun::new(valid(request), store.visible()).expect("it is the newest");
        while !all.step(store, 7, usize::MAX).expect("nothing is freed") {}
        let some = RangeRequest::new(KeyRange::new("k020", "k050"));
        let some = RangeRun::new(valid(some), store.visible()).expect("it is the newest");
        let counts = [&all, &some].map(|run| run.count(store).expect("nothing is freed"));
        let mut leased = LeasedRun::of(store, 7);
        while leased.step(store, 7) != Some(true) {}
        (all.finish(counts[0]).kvs, counts, leased.finish())
    }

    impl Exclusive for Watched<'_> {
        fn step(&self) -> usize {
            10 - self.examined
        }

        fn did(&mut self, keys: usize) {
            self.examined += keys;
            if self.examined >= 10 {
                self.give_way();
            }
        }

        fn unlocked<R>(&mut self, work: impl FnOnce() -> R) -> R {
            self.give_way();
            work()
        }
    }

    fn filled() -> Store {
        let mut store = Store::default();
        let mut journal = Vec::new();
        store.evaluate(&WriteRequest::LeaseGrant { id: 7, ttl: 60 }, &mut journal).expect("it is new");
        for n in (0..106).map(|n| n * 37 % 106).chain(0..106) {
            let put = PutRequest {
                key: format!("k{n:03}").into(),
                value: "v".into(),
                lease: if n < 100 { 7 } else { 0 },
                prev_kv: false,
                ignore_value: false,
                ignore_lease: false,
            };
            store.evaluate(&WriteRequest::Put(valid(put)), &mut journal).expect("its lease is there");
        }
        let revision = store.head().revision;
        store.evaluate(&WriteRequest::Compact { revision }, &mut journal).expect("it is the newest");
        store.publish(store.head());
        store
    }

    /// Evaluates in one go and in turns; gives how many turns it took.
    #[track_caller]
    fn expect_the_same(request: &WriteRequest) -> usize {
        let (mut plain, mut store) = (filled(), filled());
        let (mut expected, mut journal) = (Vec::new(), Vec::new());
        let at_once = plain.evaluate(request, &mut expected);
        let mut watched = Watched::new(&mut store);
        let in_turns = evaluate(&mut watched, request, &mut journal);
        let turns = watched.turns;
        assert_eq!((in_turns, journal), (at_once, expected));
        while !plain.compact_step(10, &mut Vec::new()) {}
        while !store.compact_step(10, &mut Vec::new()) {}
        assert_eq!((store.stats(), store.head()), (plain.stats(), plain.head()));
        store.publish(store.head());
        plain.publish(plain.head());
        assert_eq!(shown(&store), shown(&plain));
        assert_eq!(store.worked(), plain.worked());
        turns
    }

    #[test]
    fn a_revoke_in_turns_is_the_same_and_readers_see_nothing_of_it() {
        for request in [WriteRequest::LeaseRevoke { id: 7 }, WriteRequest::LeaseExpire { id: 7, grant: 1 }] {
            let turns = expect_the_same(&request);
            assert!(turns >= 20, "{turns} turns");
        }
        let mut store = filled();
        let gone = WriteRequest::LeaseExpire { id: 7, grant: 2 };
        let answer = evaluate(&mut Watched::new(&mut store), &gone, &mut Vec::new());
        assert_eq!(answer, Err(StoreError::LeaseNotFound));
    }

    fn range(key: &'static str, end: &'static str) -> RangeRequest {
        RangeRequest::new(KeyRange::new(key, end))
    }

    #[test]
    fn a_delete_in_turns_is_the_same_and_readers_see_nothing_of_it() {
        let range = KeyRange::new("k", "l");
        for prev_kv in [false, true] {
            let delete = DeleteRangeRequest { range: range.clone(), prev_kv };
            let turns = expect_the_same(&WriteRequest::DeleteRange(valid(delete)));
            assert!(turns >= 10 + 30, "{turns} turns");
        }
    }

    #[test]
    fn a_transaction_in_turns_is_the_same_and_readers_see_nothing_of_it() {
        let compare = |operand| Compare {
            range: KeyRange::new("k", "l"),
            result: CompareResult::Greater,
            target: CompareTarget::Version(operand),
        };
        let sorted = RangeRequest {
            sort_order: SortOrder::Descend,
            sort_target: SortTarget::Value,
            ..range("\0", "\0")
        };
        let delete = DeleteRangeRequest { range: KeyRange::new("k01", "k07"), prev_kv: true };
        let put = |key: &'static str| PutRequest {
            key: key.into(),
            value: "other".into(),
            lease: 7,
            prev_kv: true,
            ignore_value: false,
            ignore_lease: false,
        };
        let nested = TxnRequest {
            compare: vec![compare(1)],
            success: vec![RequestOp::Range(range("k", "l")), RequestOp::Put(put("new"))],
            failure: Vec::new(),
        };
        let ops = vec![
            RequestOp::Put(put("k099")),
            RequestOp::Range(sorted.clone()),
            RequestOp::DeleteRange(delete),
            RequestOp::Txn(nested),
            RequestOp::Range(RangeRequest { revision: 110, ..range("k", "l") }),
            RequestOp::Range(sorted),
        ];
        let txn = |operand| TxnRequest {
            compare: vec![compare(0), compare(operand)],
            success: ops.clone(),
            failure: vec![RequestOp::Range(range("k", "l")), RequestOp::Put(put("k000"))],
        };
        let turns = [1, 2].map(|operand| expect_the_same(&WriteRequest::Txn(valid(txn(operand)))));
        assert!(turns[0] >= 50 && turns[1] >= 30, "{turns:?} turns");
        let refused = TxnRequest {
            failure: vec![RequestOp::Range(RangeRequest { revision: 999, ..range("k", "l") })],
            ..txn(2)
        };
        assert!(expect_the_same(&WriteRequest::Txn(valid(refused))) >= 10);
    }
}
