//! Ids: how streams and groups name each other, and which names of watchers are taken.

use std::collections::BTreeMap;

/// Names a stream towards the hub. Never reused.
pub type StreamId = u64;

/// Index of a group. Reused once the group is gone.
pub(crate) type GroupId = u32;

/// Numbers in runs without a gap, so that the next one that is not among them is found at once,
/// whichever a client has chosen.
#[derive(Debug, Default)]
pub(crate) struct IdRuns {
    /// The last number of each run, by its first.
    runs: BTreeMap<i64, i64>,
    /// Where a search for the next one begins.
    pub(crate) next: i64,
}

impl IdRuns {
    /// The lowest number that is not taken, from `id` on.
    pub(crate) fn free_from(&self, id: i64) -> i64 {
        self.run_of(id).map_or(id, |(_, last)| last + 1)
    }

    /// Takes a number that is not taken.
    pub(crate) fn insert(&mut self, id: i64) {
        let before = id.checked_sub(1).and_then(|before| self.run_of(before));
        let after = id.checked_add(1).and_then(|after| self.runs.remove(&after));
        self.runs.insert(before.map_or(id, |(first, _)| first), after.unwrap_or(id));
    }

    /// Gives a taken number back.
    pub(crate) fn remove(&mut self, id: i64) {
        let Some((first, last)) = self.run_of(id) else { return };
        self.runs.remove(&first);
        if first < id {
            self.runs.insert(first, id - 1);
        }
        if id < last {
            self.runs.insert(id + 1, last);
        }
    }

    /// Gives back a whole run, whichever.
    pub(crate) fn pop_first(&mut self) {
        self.runs.pop_first();
    }

    fn run_of(&self, id: i64) -> Option<(i64, i64)> {
        let (first, last) = self.runs.range(..=id).next_back()?;
        (id <= *last).then_some((*first, *last))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn runs_know_what_a_set_knows(steps in prop::collection::vec((0..2_i64, -3..12_i64), 0..60)) {
            let (mut runs, mut set) = (IdRuns::default(), BTreeSet::new());
            for (change, id) in steps {
                if set.insert(id) {
                    runs.insert(id);
                } else if change == 0 {
                    set.remove(&id);
                    runs.remove(id);
                }
                for from in -5..15 {
                    let free = (from..).find(|id| !set.contains(id)).unwrap();
                    prop_assert_eq!(runs.free_from(from), free);
                }
                let gaps = set.iter().filter(|id| !set.contains(&(**id - 1))).count();
                prop_assert_eq!(runs.runs.len(), gaps);
            }
        }
    }

    #[test]
    fn the_greatest_and_the_least_number_are_numbers_like_others() {
        let mut runs = IdRuns::default();
        for id in [i64::MAX, i64::MIN, i64::MAX - 1] {
            runs.insert(id);
        }
        runs.remove(i64::MAX);
        assert_eq!(runs.free_from(i64::MAX - 1), i64::MAX);
        assert_eq!(runs.free_from(i64::MIN), i64::MIN + 1);
    }
}
