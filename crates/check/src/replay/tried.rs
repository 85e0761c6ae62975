//! Tried: which points of the search were there before, so that none is searched twice.
//!
//! Different explanations often come to the same: two leases that end one after the other, in
//! either order. What can follow depends only on the keys that are there, on the requests that are
//! left to explain something, and on what anybody looks back at later. If that is the same as at an
//! earlier point, it ends the same: in a contradiction.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use super::Maker;
use super::path::Path;
use crate::facts::ranges_run;
use crate::history::{History, Outcome};

/// What decides over everything that can follow.
#[derive(PartialEq, Eq, Hash)]
struct Point {
    revision: i64,
    keys: u128,
    past: u64,
    /// The requests of unknown outcome that explain an earlier revision and could have explained a
    /// later one.
    spent: Vec<usize>,
}

#[derive(Default)]
pub(super) struct Tried(HashSet<Point>);

impl Tried {
    /// Whether the search comes to this point for the first time.
    pub(super) fn is_new(&mut self, path: &Path, gaps: &Gaps) -> bool {
        let revision = path.next();
        let made = gaps.all.range(..revision).filter_map(|gap| path.makers.get((gap - 2) as usize));
        let spent = made.filter_map(|maker| match maker {
            Maker::Unknown(index) if gaps.last_use.get(index).is_some_and(|&last| last >= revision) => {
                Some(*index)
            }
            _ => None,
        });
        let mut spent: Vec<usize> = spent.collect();
        spent.sort_unstable();
        let past = path.past.last().map_or(0, |(_, digest)| *digest);
        self.0.insert(Point { revision, keys: path.world.fingerprint(), past, spent })
    }
}

/// The revisions that have to be explained.
pub(super) struct Gaps {
    pub(super) all: BTreeSet<i64>,
    /// Those that a later revision looks back at, after the next one has been explained.
    remembered: BTreeSet<i64>,
    /// The last that each request of unknown outcome could explain, by its index.
    pub(super) last_use: BTreeMap<usize, i64>,
}

impl Gaps {
    pub(super) fn new(history: &History, all: BTreeSet<i64>) -> Gaps {
        let mut gaps = Gaps { all, remembered: BTreeSet::new(), last_use: BTreeMap::new() };
        for operation in &history.operations {
            let Outcome::Answered { revision, answer } = &operation.outcome else { continue };
            for range in ranges_run(&operation.request, answer) {
                if range.revision > 0 {
                    gaps.look_back(range.revision, range.revision, *revision);
                }
            }
        }
        for hash in &history.hashes {
            gaps.look_back(hash.compact_revision.max(1), hash.revision, hash.revision);
        }
        gaps
    }

    /// A request at revision `at` depends on everything between two revisions.
    fn look_back(&mut self, from: i64, to: i64, at: i64) {
        let first = self.all.range(..=from).next_back().copied().unwrap_or(from);
        let last = self.all.range(..=at).next_back().copied().unwrap_or(0);
        // Behind the last nothing is chosen any more before it is compared.
        self.remembered.extend(self.all.range(first..=to.max(first)).filter(|&&gap| gap < last));
    }

    /// Notes what an explained revision led to, if anybody asks for it later.
    pub(super) fn note(&self, path: &mut Path, revision: i64) {
        if !self.remembered.contains(&revision) {
            return;
        }
        let before = path.past.last().map_or(0, |(_, digest)| *digest);
        let mut hasher = DefaultHasher::new();
        (before, revision, path.world.fingerprint(), path.world.events(revision)).hash(&mut hasher);
        path.past.push((path.makers.len(), hasher.finish()));
    }
}
