//! Membership: which keys came and went, so that a range can be counted as of an older revision.
//!
//! The tree counts the keys alive at head. The number alive at revision R is that count minus the creates
//! and plus the deletes of the range after R, and this log holds exactly those changes. It is cut into
//! blocks of changes; a full block is also kept sorted by key with running sums, so that counting over it is
//! two binary searches, however many of its keys lie in the range. A page of a list pinned to an old
//! revision therefore costs the same at the beginning and at the end of a large collection.
//!
//! Compaction drops whole blocks. Keys are copied, since the versions they came from may be freed earlier; those of a
//! full block lie in one allocation.

use std::collections::VecDeque;

/// A block is full with so many changes, or bytes of keys.
const BLOCK_CHANGES: usize = 1024;
const BLOCK_BYTES: usize = 1 << 20;

#[derive(Debug)]
struct Change {
    revision: i64,
    key: Box<[u8]>,
    /// +1 for a create, -1 for a delete.
    delta: i8,
}

/// Changes in revision order, and the same sorted by key.
struct Block {
    revisions: Box<[i64]>,
    deltas: Box<[i8]>,
    /// The keys back to back, and where each ends.
    keys: Box<[u8]>,
    ends: Box<[u32]>,
    /// Indices of changes, by key.
    by_key: Box<[u16]>,
    /// `sums[i]` adds up the deltas of the first i changes by key.
    sums: Box<[i16]>,
}

#[derive(Default)]
pub(crate) struct Membership {
    full: VecDeque<Block>,
    open: Vec<Change>,
    /// Of the keys in `open`.
    open_bytes: usize,
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
    fn seal(changes: &[Change]) -> Block {
        let mut by_key: Box<[u16]> = (0..changes.len() as u16).collect();
        by_key.sort_by(|&a, &b| changes[a as usize].key.cmp(&changes[b as usize].key));
        let mut sums = Vec::with_capacity(changes.len() + 1);
        let mut sum = 0;
        sums.push(sum);
        for &index in &by_key {
            sum += i16::from(changes[index as usize].delta);
            sums.push(sum);
        }
        let mut keys = Vec::with_capacity(changes.iter().map(|change| change.key.len()).sum());
        let mut ends = Vec::with_capacity(changes.len());
        for change in changes {
            keys.extend_from_slice(&change.key);
            ends.push(u32::try_from(keys.len()).expect("one key and a block's bytes are below 4 GiB"));
        }
        Block {
            revisions: changes.iter().map(|change| change.revision).collect(),
            deltas: changes.iter().map(|change| change.delta).collect(),
            keys: keys.into(),
            ends: ends.into(),
            by_key,
            sums: sums.into(),
        }
    }

    fn first_revision(&self) -> i64 {
        *self.revisions.first().expect("a block is full")
    }

    fn last_revision(&self) -> i64 {
        *self.revisions.last().expect("a block is full")
    }

    fn key(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.keys[start as usize..self.ends[index] as usize]
    }

    fn sum_all(&self, span: Span<'_>) -> i64 {
        let below = |bound: &[u8]| self.by_key.partition_point(|&index| self.key(index as usize) < bound);
        let from = below(span.start);
        let upto = span.end.map_or(self.by_key.len(), below).max(from);
        i64::from(self.sums[upto]) - i64::from(self.sums[from])
    }

    fn sum_since(&self, at: i64, span: Span<'_>) -> i64 {
        let since = self.revisions.partition_point(|&revision| revision <= at);
        let inside = (since..self.revisions.len()).filter(|&index| span.contains(self.key(index)));
        inside.map(|index| i64::from(self.deltas[index])).sum()
    }
}

impl Membership {
    pub(crate) fn created(&mut self, revision: i64, key: &[u8]) {
        self.push(Change { revision, key: key.into(), delta: 1 });
    }

    pub(crate) fn deleted(&mut self, revision: i64, key: &[u8]) {
        self.push(Change { revision, key: key.into(), delta: -1 });
    }

    fn push(&mut self, change: Change) {
        if let Some(last) = self.open.last() {
            assert!(last.revision <= change.revision, "changes come in revision order");
        }
        self.open_bytes += change.key.len();
        self.open.push(change);
        if self.open.len() == BLOCK_CHANGES || self.open_bytes >= BLOCK_BYTES {
            self.full.push_back(Block::seal(&self.open));
            self.open.clear();
            self.open_bytes = 0;
        }
    }

    /// Creates minus deletes in `span` after revision `at`.
    pub(crate) fn net_since(&self, at: i64, span: Span<'_>) -> i64 {
        let mut net = sum_since(&self.open, at, span);
        for block in self.full.iter().rev() {
            if at < block.first_revision() {
                net += block.sum_all(span);
                continue;
            }
            if at < block.last_revision() {
                net += block.sum_since(at, span);
            }
            break;
        }
        net
    }

    /// Nobody will ask about revisions below `floor` any more.
    pub(crate) fn compact(&mut self, floor: i64) {
        while self.full.front().is_some_and(|block| block.last_revision() <= floor) {
            self.full.pop_front();
        }
    }
}

fn sum_since(changes: &[Change], at: i64, span: Span<'_>) -> i64 {
    changes
        .iter()
        .rev()
        .take_while(|change| change.revision > at)
        .filter(|change| span.contains(&change.key))
        .map(|change| i64::from(change.delta))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_agree_with_a_plain_walk_over_every_revision_and_span() {
        let mut log = Membership::default();
        let mut plain = Vec::new();
        for revision in 2..5_000i64 {
            let key = format!("{:03}", (revision * 7919) % 211).into_bytes();
            let delta = if revision % 3 == 0 { -1 } else { 1 };
            if delta > 0 {
                log.created(revision, &key)
            } else {
                log.deleted(revision, &key)
            }
            plain.push((revision, key, delta));
        }
        log.compact(1_500);
        let spans: [(&[u8], Option<&[u8]>); 5] = [
            (b"", None),
            (b"050", Some(b"051")),
            (b"100", Some(b"200")),
            (b"2", None),
            (b"150", Some(b"100")),
        ];
        for at in (1_500..5_000).step_by(37) {
            for (start, end) in spans {
                let span = Span { start, end };
                let expected: i64 = plain
                    .iter()
                    .filter(|(revision, key, _)| *revision > at && span.contains(key))
                    .map(|(_, _, delta)| delta)
                    .sum();
                assert_eq!(log.net_since(at, span), expected, "at={at} span={start:?}");
            }
        }
    }

    #[test]
    fn compaction_drops_whole_blocks() {
        let mut log = Membership::default();
        for revision in 2..4_002i64 {
            log.created(revision, b"k");
        }
        assert_eq!(log.full.len(), 3);
        log.compact(1_024);
        assert_eq!(log.full.len(), 3);
        log.compact(1_025);
        assert_eq!(log.full.len(), 2);
    }

    #[test]
    fn a_few_huge_keys_fill_a_block() {
        let mut log = Membership::default();
        let huge = vec![b'k'; BLOCK_BYTES / 2];
        log.created(2, &huge);
        log.deleted(3, &huge);
        log.created(4, &huge);
        assert_eq!((log.full.len(), log.open.len(), log.open_bytes), (1, 1, huge.len()));
        let all = Span { start: b"", end: None };
        assert_eq!([1, 2, 3, 4].map(|at| log.net_since(at, all)), [1, 0, 1, 0]);
    }
}
