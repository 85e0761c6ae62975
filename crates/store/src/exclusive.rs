//! Exclusive: the store in the hands of the thread that evaluates, which lets others have it in
//! between. `turns` says why that is safe.

use std::ops::DerefMut;

use bytes::Bytes;

use crate::keys::Slot;
use crate::request::KeyRange;
use crate::state::Store;

/// The store, held by the only one that evaluates.
pub trait Exclusive: DerefMut<Target = Store> {
    /// Keys that may still be examined before others get the store; one at least.
    fn step(&self) -> usize;

    /// So many keys were examined. Others have the store if it is time for that.
    fn did(&mut self, keys: usize);

    /// Does `work` while others may have the store.
    fn unlocked<R>(&mut self, work: impl FnOnce() -> R) -> R;
}

/// No other thread waits for it.
impl Exclusive for &mut Store {
    fn step(&self) -> usize {
        usize::MAX
    }

    fn did(&mut self, _: usize) {}

    fn unlocked<R>(&mut self, work: impl FnOnce() -> R) -> R {
        work()
    }
}

/// A change of a key takes as long as examining so many.
pub(crate) const CHANGE_WEIGHT: usize = 4;

/// Calls `visit` for every slot of a range, alive or not, in order, until it says false.
pub(crate) fn scan<E>(
    store: &mut impl Exclusive,
    range: &KeyRange,
    mut visit: impl FnMut(&Store, Slot) -> Result<bool, E>,
) -> Result<(), E> {
    let (mut seen, mut next) = scan_part(store, range, &range.key, store.step(), &mut visit)?;
    store.did(seen);
    while let Some(from) = next {
        (seen, next) = scan_part(store, range, &from, store.step(), &mut visit)?;
        store.did(seen);
    }
    Ok(())
}

/// The same from one key of the range on, for up to `budget` slots: how many it was, and the key to
/// go on with if there are more.
pub(crate) fn scan_part<E>(
    store: &Store,
    range: &KeyRange,
    from: &[u8],
    budget: usize,
    visit: &mut impl FnMut(&Store, Slot) -> Result<bool, E>,
) -> Result<(usize, Option<Bytes>), E> {
    let keys = |slot: Slot| store.keys.key(slot);
    let mut cursor = store.tree.seek(&keys, from);
    let mut seen = 0;
    while let Some(slot) = store.tree.next(&mut cursor) {
        if range.end().is_some_and(|end| end <= store.keys.key(slot)) {
            break;
        }
        if seen == budget {
            return Ok((seen, Some(Bytes::copy_from_slice(store.keys.key(slot)))));
        }
        seen += 1;
        if !visit(store, slot)? {
            break;
        }
    }
    Ok((seen, None))
}
