//! Turns: a request that changes very many keys, evaluated in steps between which others get the
//! store.
//!
//! That is safe because only one thread evaluates, and nothing else changes head meanwhile: what
//! becomes visible, and what compaction frees, was decided before. Readers use the visible state,
//! which is older than everything that is being evaluated. Between two deletes of one revision all
//! that readers use is consistent: the chains have versions above the visible revision, which
//! readers ignore; the tree counts live keys, and `membership` has exactly these changes, so a
//! count in the past subtracts them; `superseded` names every slot whose version went, and the
//! lease keeps all others until the last of them is gone.

use std::ops::DerefMut;

use crate::command;
use crate::error::StoreError;
use crate::evaluate::Evaluated;
use crate::keys::Slot;
use crate::record::Record;
use crate::request::{Event, WriteRequest};
use crate::state::Store;

/// The store, held by the only one that evaluates.
pub trait Exclusive: DerefMut<Target = Store> {
    /// Keys that may be examined or changed before others get the store.
    fn step(&self) -> usize;

    /// Lets others have the store.
    fn give_way(&mut self);

    /// Does `work` while others may have the store.
    fn unlocked<R>(&mut self, work: impl FnOnce() -> R) -> R;
}

/// No other thread waits for it.
impl Exclusive for &mut Store {
    fn step(&self) -> usize {
        usize::MAX
    }

    fn give_way(&mut self) {}

    fn unlocked<R>(&mut self, work: impl FnOnce() -> R) -> R {
        work()
    }
}

/// Does what [`Store::evaluate`] does. Others get the store in between if a lease with many keys is
/// revoked.
pub fn evaluate(
    store: &mut impl Exclusive,
    request: &WriteRequest,
    journal: &mut Vec<u8>,
) -> Result<Evaluated, StoreError> {
    let id = match request {
        WriteRequest::LeaseRevoke { id } => *id,
        WriteRequest::LeaseExpire { id, grant } if store.leases.is_of(*id, *grant) => *id,
        _ => return store.evaluate(request, journal),
    };
    let step = store.step().max(1);
    if store.leases.get(id).is_none_or(|lease| lease.keys() <= step) {
        return store.evaluate(request, journal);
    }
    let slots = slots_by_key(store, id, step);
    let mut events = Vec::with_capacity(slots.len());
    for slots in slots.chunks(step) {
        slots.iter().for_each(|&slot| delete(store, slot, &mut events));
        store.give_way();
    }
    let ended = store.leases.ended(id).expect("nothing else changes head");
    store.leases.remove(id);
    store.head.revision += 1;
    store.worked += events.len() as u64;
    command::encode_lease_revoke(journal, id);
    Ok(Evaluated::of_revoke(store.head.revision, ended, events))
}

fn delete(store: &mut Store, slot: Slot, events: &mut Vec<Event>) {
    let sub = u32::try_from(events.len()).expect("a lease has fewer keys than there are slots");
    let (event, _) = store.delete_slot(slot, store.head.revision + 1, sub);
    events.push(event);
}

/// The slots of a lease at head, in order of their keys. Sorting them takes longer than any step.
fn slots_by_key(store: &mut impl Exclusive, id: i64, step: usize) -> Vec<Slot> {
    let mut found: Vec<(Slot, Record)> = Vec::new();
    loop {
        let from = found.last().map_or(0, |(slot, _)| slot + 1);
        let before = found.len();
        let lease = store.leases.get(id).expect("nothing else changes head");
        for slot in lease.slots_from(from).take(step) {
            let newest = store.keys.chain(slot).last().expect("a key on a lease has a version");
            found.push((slot, newest.clone()));
        }
        if found.len() - before < step {
            break;
        }
        store.give_way();
    }
    store.unlocked(move || {
        found.sort_unstable_by(|(_, a), (_, b)| a.key().cmp(b.key()));
        found.into_iter().map(|(slot, _)| slot).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leased::LeasedRun;
    use crate::range::RangeRun;
    use crate::request::{KeyRange, PutRequest, RangeRequest};
    use crate::validated::valid;

    /// Looks at everything that is visible whenever others have the store.
    struct Watched<'s> {
        store: &'s mut Store,
        turns: usize,
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
            10
        }

        fn give_way(&mut self) {
            self.turns += 1;
            let (all, counts, leased) = shown(self.store);
            assert_eq!((all.len(), counts, leased.len()), (106, [106, 30], 100), "turn {}", self.turns);
            // Others free what was compacted before.
            self.store.compact_step(1, &mut Vec::new());
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

    #[test]
    fn a_revoke_in_turns_is_the_same_and_readers_see_nothing_of_it() {
        for request in [WriteRequest::LeaseRevoke { id: 7 }, WriteRequest::LeaseExpire { id: 7, grant: 1 }] {
            let (mut plain, mut store) = (filled(), filled());
            let (mut expected, mut journal) = (Vec::new(), Vec::new());
            let at_once = plain.evaluate(&request, &mut expected).expect("the lease is there");
            let mut watched = Watched { store: &mut store, turns: 0 };
            let in_turns = evaluate(&mut watched, &request, &mut journal).expect("the lease is there");
            assert!(watched.turns >= 20, "{} turns", watched.turns);
            assert_eq!((in_turns, journal), (at_once, expected));
            while !plain.compact_step(10, &mut Vec::new()) {}
            while !store.compact_step(10, &mut Vec::new()) {}
            assert_eq!((store.stats(), store.head()), (plain.stats(), plain.head()));
            store.publish(store.head());
            plain.publish(plain.head());
            assert_eq!(shown(&store), shown(&plain));
            assert_eq!(store.worked(), plain.worked());
        }
        let mut store = filled();
        let gone = WriteRequest::LeaseExpire { id: 7, grant: 2 };
        let mut watched = Watched { store: &mut store, turns: 0 };
        assert_eq!(evaluate(&mut watched, &gone, &mut Vec::new()), Err(StoreError::LeaseNotFound));
    }
}
