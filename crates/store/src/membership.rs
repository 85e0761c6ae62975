//! Membership: which keys came and went, so that a range can be counted as of an older revision.
//!
//! The tree counts the keys alive at head. The number alive at revision R is that count minus the
//! creates and plus the deletes of the range after R, and this log holds exactly those changes. It
//! is cut into blocks of changes; a full block is also kept sorted by key with running sums, so
//! that counting over it is two binary searches, however many of its keys lie in the range. A page
//! of a list pinned to an old revision therefore costs the same at the beginning and at the end of
//! a large collection.
//!
//! Keys are named by their slots. A slot is used again for another key only when compaction has
//! passed everything that happened to the first one; and what compaction has passed is never asked
//! for, so its key is never looked at. Compaction drops whole blocks.

use std::cmp::Ordering;
use std::collections::VecDeque;

use crate::keys::Slot;
use crate::tree::KeyOf;

/// A block is full with so many changes.
const BLOCK_CHANGES: usize = 1024;

#[derive(Debug, Clone, Copy)]
struct Change {
    revision: i64,
    slot: Slot,
    /// +1 for a create, -1 for a delete.
    delta: i8,
}

/// Changes in revision order, and the same sorted by key.
struct Block {
    first: i64,
    /// How many revisions after the first one.
    after: Box<[u32]>,
    slots: Box<[Slot]>,
    deltas: Box<[i8]>,
    /// Indices of changes, by key.
    by_key: Box<[u16]>,
    /// `sums[i]` adds up the deltas of the first i changes by key.
    sums: Box<[i16]>,
}

#[derive(Default)]
pub(crate) struct Membership {
    full: VecDeque<Block>,
    open: Vec<Change>,
}

/// A half-open range of keys; no end means to the last key.
#[derive(Clone, Copy)]
pub(crate) struct Span<'a> {
    pub(crate) start: &'a [u8],
    pub(crate) end: Option<&'a [u8]>,
}

impl Span<'_> {
    fn contains(&self, key: &[u8]) -> bool {
        self.start <= key && self.end.is_none_or(|end| key < end)
    }
}

impl Block {
    fn seal(changes: &[Change], order: impl Fn(Slot, Slot) -> Ordering) -> Block {
        let mut by_key: Box<[u16]> = (0..changes.len() as u16).collect();
        by_key.sort_by(|&a, &b| order(changes[a as usize].slot, changes[b as usize].slot));
        let mut sums = Vec::with_capacity(changes.len() + 1);
        let mut sum = 0;
        sums.push(sum);
        for &index in &by_key {
            sum += i16::from(changes[index as usize].delta);
            sums.push(sum);
        }
        let first = changes.first().expect("a block is full").revision;
        let after = |change: &Change| u32::try_from(change.revision - first).expect("checked by `fits`");
        Block {
            first,
            after: changes.iter().map(after).collect(),
            slots: changes.iter().map(|change| change.slot).collect(),
            deltas: changes.iter().map(|change| change.delta).collect(),
            by_key,
            sums: sums.into(),
        }
    }

    /// The changes again, in order of revision.
    fn unseal(&self) -> Vec<Change> {
        let revisions = self.after.iter().map(|&after| self.first + i64::from(after));
        let changed = self.slots.iter().zip(&self.deltas);
        revisions.zip(changed).map(|(revision, (&slot, &delta))| Change { revision, slot, delta }).collect()
    }

    fn last(&self) -> i64 {
        self.first + i64::from(*self.after.last().expect("a block is full"))
    }

    fn sum_all<'k>(&self, keys: &impl KeyOf<'k>, span: Span<'_>) -> i64 {
        let below = |bound: &[u8]| {
            self.by_key.partition_point(|&index| keys.key_of(self.slots[index as usize]) < bound)
        };
        let from = below(span.start);
        let upto = span.end.map_or(self.by_key.len(), below).max(from);
        i64::from(self.sums[upto]) - i64::from(self.sums[from])
    }

    fn sum_since<'k>(&self, keys: &impl KeyOf<'k>, at: i64, span: Span<'_>) -> i64 {
        let since = self.after.partition_point(|&after| self.first + i64::from(after) <= at);
        let inside = (since..self.slots.len()).filter(|&index| span.contains(keys.key_of(self.slots[index])));
        inside.map(|index| i64::from(self.deltas[index])).sum()
    }
}

impl Membership {
    /// A key was created. What happened up to `floor` will not be asked for any more.
    pub(crate) fn created<'k>(&mut self, keys: &impl KeyOf<'k>, floor: i64, revision: i64, slot: Slot) {
        self.push(Change { revision, slot, delta: 1 }, floor, by_key(keys));
    }

    pub(crate) fn deleted<'k>(&mut self, keys: &impl KeyOf<'k>, floor: i64, revision: i64, slot: Slot) {
        self.push(Change { revision, slot, delta: -1 }, floor, by_key(keys));
    }

    /// A key was created or deleted, and slots still have the order of keys.
    pub(crate) fn load(&mut self, revision: i64, slot: Slot, is_create: bool) {
        self.push(Change { revision, slot, delta: if is_create { 1 } else { -1 } }, 0, |a, b| a.cmp(&b));
    }

    fn push(&mut self, change: Change, floor: i64, order: impl Fn(Slot, Slot) -> Ordering) {
        if let Some(last) = self.open.last() {
            assert!(last.revision <= change.revision, "changes come in revision order");
        }
        if self.open.len() >= BLOCK_CHANGES || !self.fits(change.revision) {
            // Slots of what compaction has passed may be of other keys by now, or of none.
            self.open.retain(|change| change.revision > floor);
        }
        if self.open.len() >= BLOCK_CHANGES || !self.fits(change.revision) {
            self.full.push_back(Block::seal(&self.open, order));
            self.open.clear();
        }
        self.open.push(change);
    }

    /// The revision and the slot of the last change.
    pub(crate) fn back(&self) -> Option<(i64, Slot)> {
        let last = self.open.last().map(|change| (change.revision, change.slot));
        last.or_else(|| self.full.back().and_then(|block| Some((block.last(), *block.slots.last()?))))
    }

    /// Takes the last change, which was of this revision and slot.
    pub(crate) fn take_back(&mut self, revision: i64, slot: Slot) {
        if self.open.is_empty()
            && let Some(block) = self.full.pop_back()
        {
            self.open = block.unseal();
        }
        let is_it = |last: &Change| (last.revision, last.slot) == (revision, slot);
        let last = self.open.pop();
        assert!(last.as_ref().is_some_and(is_it), "changes are taken back newest first");
    }

    /// Whether the distance of a revision from the first of the block fits into 32 bits.
    fn fits(&self, revision: i64) -> bool {
        self.open.first().is_none_or(|first| u32::try_from(revision - first.revision).is_ok())
    }

    /// What counting after revision `at` may cost, in keys looked at.
    pub(crate) fn count_cost(&self, at: i64) -> u64 {
        let bisections = 2 * BLOCK_CHANGES.ilog2() as usize;
        let before = self.full.partition_point(|block| block.first <= at);
        // Of the last one before it changes may still be to come, and those are looked at one by
        // one.
        let cut = if before > 0 { BLOCK_CHANGES } else { 0 };
        ((self.full.len() - before) * bisections + cut + self.open.len()) as u64
    }

    /// Creates minus deletes in `span` after revision `at`, which compaction has not passed.
    pub(crate) fn net_since<'k>(&self, keys: &impl KeyOf<'k>, at: i64, span: Span<'_>) -> i64 {
        let recent = self.open.iter().rev().take_while(|change| change.revision > at);
        let inside = recent.filter(|change| span.contains(keys.key_of(change.slot)));
        let mut net = inside.map(|change| i64::from(change.delta)).sum();
        for block in self.full.iter().rev() {
            if at < block.first {
                net += block.sum_all(keys, span);
                continue;
            }
            if at < block.last() {
                net += block.sum_since(keys, at, span);
            }
            break;
        }
        net
    }

    /// Forgets revisions below `floor`, which cannot be read any more.
    pub(crate) fn compact(&mut self, floor: i64) {
        while self.full.front().is_some_and(|block| block.last() <= floor) {
            self.full.pop_front();
        }
    }
}

fn by_key<'k>(keys: &impl KeyOf<'k>) -> impl Fn(Slot, Slot) -> Ordering {
    |a, b| keys.key_of(a).cmp(keys.key_of(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key of slot 5 is "005". Panics on a slot that was freed.
    struct Numbers {
        names: Vec<String>,
        gone: Vec<Slot>,
    }

    impl Numbers {
        fn new(gone: Vec<Slot>) -> Numbers {
            Numbers { names: (0..300).map(|number| format!("{number:03}")).collect(), gone }
        }
    }

    impl<'k> KeyOf<'k> for &'k Numbers {
        fn key_of(&self, slot: Slot) -> &'k [u8] {
            assert!(!self.gone.contains(&slot), "the key of slot {slot} is gone");
            self.names[slot as usize].as_bytes()
        }
    }

    const SPANS: [(&[u8], Option<&[u8]>); 5] =
        [(b"", None), (b"050", Some(b"051")), (b"100", Some(b"200")), (b"2", None), (b"150", Some(b"100"))];

    fn expected(plain: &[(i64, Slot, i64)], numbers: &Numbers, at: i64, span: Span<'_>) -> i64 {
        let inside = |slot: Slot| span.contains(numbers.names[slot as usize].as_bytes());
        let since = plain.iter().filter(|(revision, slot, _)| *revision > at && inside(*slot));
        since.map(|(_, _, delta)| delta).sum()
    }

    #[test]
    fn sums_agree_with_a_plain_walk_over_every_revision_and_span() {
        let numbers = &Numbers::new(Vec::new());
        let (mut log, mut loaded) = (Membership::default(), Membership::default());
        let mut plain = Vec::new();
        for revision in 2..5_000i64 {
            let slot = ((revision * 7919) % 211) as Slot;
            let delta = if revision % 3 == 0 { -1 } else { 1 };
            if delta > 0 {
                log.created(&numbers, -1, revision, slot)
            } else {
                log.deleted(&numbers, -1, revision, slot)
            }
            loaded.load(revision, slot, delta > 0);
            plain.push((revision, slot, delta));
        }
        log.compact(1_500);
        for at in (1_500..5_000).step_by(37) {
            for (start, end) in SPANS {
                let span = Span { start, end };
                let sum = expected(&plain, numbers, at, span);
                assert_eq!(log.net_since(&numbers, at, span), sum, "at={at} span={start:?}");
                assert_eq!(loaded.net_since(&numbers, at, span), sum, "at={at} span={start:?}");
            }
        }
    }

    #[test]
    fn keys_that_compaction_has_passed_are_not_looked_at() {
        let (before, after) = (Numbers::new(Vec::new()), Numbers::new(vec![7]));
        let floor = 500;
        let mut log = Membership::default();
        let mut plain = Vec::new();
        for revision in 2..3_000i64 {
            // One key comes and goes until the compaction, and its slot is free behind it.
            let slot = if revision <= floor { 7 } else { 8 + (revision % 200) as Slot };
            let keys = if revision <= floor { &before } else { &after };
            log.created(&keys, if revision <= floor { -1 } else { floor }, revision, slot);
            plain.push((revision, slot, 1));
        }
        for at in (floor..3_000).step_by(41) {
            for (start, end) in SPANS {
                let span = Span { start, end };
                assert_eq!(log.net_since(&&after, at, span), expected(&plain, &after, at, span), "at={at}");
            }
        }
    }

    #[test]
    fn compaction_drops_whole_blocks() {
        let numbers = &Numbers::new(Vec::new());
        let mut log = Membership::default();
        for revision in 2..4_002i64 {
            log.created(&numbers, -1, revision, 1);
        }
        assert_eq!(log.full.len(), 3);
        log.compact(1_024);
        assert_eq!(log.full.len(), 3);
        log.compact(1_025);
        assert_eq!(log.full.len(), 2);
    }

    #[test]
    fn revisions_far_apart_lie_in_blocks_of_their_own() {
        let numbers = &Numbers::new(Vec::new());
        let mut log = Membership::default();
        let far = 2 + (1 << 40);
        log.created(&numbers, -1, 2, 1);
        log.created(&numbers, -1, far, 2);
        log.created(&numbers, -1, far + 1, 3);
        let all = Span { start: b"", end: None };
        assert_eq!(log.full.len(), 1);
        assert_eq!([1, 2, far, far + 1].map(|at| log.net_since(&numbers, at, all)), [3, 2, 1, 0]);
    }
}
