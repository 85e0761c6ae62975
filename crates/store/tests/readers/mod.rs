//! Readers of what is visible: all that they are shown, at once or in steps.

use vetch_store::hash::HashRun;
use vetch_store::history::HistoryRun;
use vetch_store::leased::LeasedRun;
use vetch_store::range::RangeRun;
use vetch_store::request::*;
use vetch_store::{Mark, Record, Store};
use vetch_testkit::valid::Valid;

use crate::spec::check::hash;

/// Everything that readers are shown at `mark`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Shown {
    ranges: Vec<RangeResponse>,
    leased: Vec<Vec<Record>>,
    hash: u32,
    history: Vec<Record>,
    keys: u64,
}

fn ranges(mark: Mark) -> impl Iterator<Item = RangeRequest> {
    let spans = [("\0", "\0"), ("a", "c"), ("ab", "\0"), ("b", "")];
    let past = mark.compact_revision.max(1)..=mark.revision;
    past.flat_map(move |revision| {
        spans.map(|(key, end)| RangeRequest { revision, ..RangeRequest::new(KeyRange::new(key, end)) })
    })
}

fn finish_range(store: &Store, mut run: RangeRun, budget: usize) -> RangeResponse {
    while !run.step(store, budget, usize::MAX).expect("nothing that is read is freed") {}
    let count = run.count(store).expect("nothing that is read is freed");
    run.finish(count)
}

fn leased_runs(store: &Store) -> Vec<LeasedRun> {
    (1..4).map(|id| LeasedRun::of(store, id)).chain([LeasedRun::of_all(store)]).collect()
}

fn finish_history(store: &Store, mut run: HistoryRun, budget: usize) -> Vec<Record> {
    while !run.step(store, budget) {}
    run.finish()
}

pub(crate) fn shown(store: &Store) -> Shown {
    let mark = store.visible();
    let read = |request: RangeRequest| {
        finish_range(store, RangeRun::new(request.valid(), mark).expect("it is visible"), 2)
    };
    let leased = leased_runs(store).into_iter().map(|mut run| {
        while !run.step(store, 1).expect("nothing comes in between") {}
        run.finish()
    });
    Shown {
        ranges: ranges(mark).map(read).collect(),
        leased: leased.collect(),
        hash: hash(store, mark.revision),
        history: finish_history(store, HistoryRun::new(mark), 2),
        keys: store.visible_keys(),
    }
}

/// Readers that are under way.
pub(crate) struct Readers {
    ranges: Vec<(RangeRun, RangeResponse)>,
    leased: Vec<(LeasedRun, Vec<Record>)>,
    hash: HashRun,
    history: HistoryRun,
    expected: Shown,
}

impl Readers {
    /// Begins everything, and takes a first step in it.
    pub(crate) fn begin(store: &Store, expected: &Shown, budget: usize) -> Readers {
        let mark = store.visible();
        let mut readers = Readers {
            ranges: Vec::new(),
            leased: leased_runs(store).into_iter().zip(expected.leased.clone()).collect(),
            hash: HashRun::new(mark.revision, mark),
            history: HistoryRun::new(mark),
            expected: expected.clone(),
        };
        for (request, expected) in ranges(mark).zip(&expected.ranges) {
            let run = RangeRun::new(request.valid(), mark).expect("it is visible");
            readers.ranges.push((run, expected.clone()));
        }
        readers.step(store, budget);
        readers
    }

    pub(crate) fn step(&mut self, store: &Store, budget: usize) {
        for (run, _) in &mut self.ranges {
            run.step(store, budget, usize::MAX).expect("nothing that is read is freed");
        }
        // One that is overtaken begins anew.
        self.leased.retain_mut(|(run, _)| run.step(store, budget).is_some());
        self.hash.step(store, budget).expect("nothing that is read is freed");
        self.history.step(store, budget);
    }

    pub(crate) fn finish(mut self, store: &Store) {
        for (run, expected) in self.ranges {
            assert_eq!(finish_range(store, run, 1), expected);
        }
        for (mut run, expected) in self.leased {
            let done = std::iter::from_fn(|| run.step(store, 1)).any(|done| done);
            assert!(!done || run.finish() == expected, "the keys of a lease were overtaken by a rewind");
        }
        while !self.hash.step(store, 1).expect("nothing that is read is freed") {}
        assert_eq!(self.hash.finish(), self.expected.hash);
        assert_eq!(finish_history(store, self.history, 1), self.expected.history);
    }
}
