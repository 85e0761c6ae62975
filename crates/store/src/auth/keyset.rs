//! A union of key ranges, and whether it covers another range.

use std::collections::BTreeMap;

use bytes::Bytes;

/// Disjoint half-open intervals that do not even touch, by their first key. An end of None is no
/// end.
///
/// A range lies in the set if every possible key in it does, whichever of the added ranges each of
/// them comes from. A range that is empty or the wrong way round counts as its first key alone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct KeySet {
    ranges: BTreeMap<Bytes, Option<Bytes>>,
}

impl KeySet {
    /// Adds what a permission's key and range end mean.
    pub fn insert(&mut self, key: &Bytes, range_end: &Bytes) {
        match range_end.as_ref() {
            [] => self.insert_span(key.clone(), Some(successor(key))),
            [0] => self.insert_span(key.clone(), None),
            end if key.as_ref() < end => self.insert_span(key.clone(), Some(range_end.clone())),
            _ => {}
        }
    }

    fn insert_span(&mut self, mut start: Bytes, mut end: Option<Bytes>) {
        // Every interval that begins at or before the new end and reaches the new start becomes
        // part of it.
        loop {
            let last = match &end {
                Some(end) => self.ranges.range::<Bytes, _>(..=end).next_back(),
                None => self.ranges.iter().next_back(),
            };
            let Some((other, other_end)) = last else { break };
            if other_end.as_ref().is_some_and(|other_end| *other_end < start) {
                break;
            }
            let (other, other_end) = (other.clone(), other_end.clone());
            self.ranges.remove(&other);
            start = start.min(other);
            end = match (end, other_end) {
                (Some(end), Some(other_end)) => Some(end.max(other_end)),
                _ => None,
            };
        }
        self.ranges.insert(start, end);
    }

    /// The end of the interval that `key` lies in.
    fn interval_of(&self, key: &[u8]) -> Option<&Option<Bytes>> {
        let (_, end) = self
            .ranges
            .range::<[u8], _>((std::ops::Bound::Unbounded, std::ops::Bound::Included(key)))
            .next_back()?;
        end.as_ref().is_none_or(|end| key < end.as_ref()).then_some(end)
    }

    pub fn contains(&self, key: &[u8]) -> bool {
        self.interval_of(key).is_some()
    }

    /// Whether everything that a request's key and range end mean lies in the set.
    pub fn covers(&self, key: &[u8], range_end: &[u8]) -> bool {
        union_covers(std::iter::once(self), key, range_end)
    }
}

/// Whether everything that a request's key and range end mean lies in the union of sets: goes from
/// the end of the interval that reaches furthest to the next, whichever set it is of.
pub(super) fn union_covers<'s>(
    sets: impl Iterator<Item = &'s KeySet> + Clone,
    key: &[u8],
    range_end: &[u8],
) -> bool {
    let mut from = key;
    loop {
        let mut furthest: Option<&[u8]> = None;
        for end in sets.clone().filter_map(|set| set.interval_of(from)) {
            match end {
                _ if range_end.is_empty() => return true,
                None => return true,
                Some(end) => furthest = furthest.max(Some(end)),
            }
        }
        match furthest {
            Some(end) if range_end != [0] && range_end <= end => return true,
            Some(end) => from = end,
            None => return false,
        }
    }
}

/// The smallest key behind `key`.
fn successor(key: &[u8]) -> Bytes {
    let mut next = Vec::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.push(0);
    next.into()
}
