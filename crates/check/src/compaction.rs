//! Compactions: they take no revision, so their places are known only as far as headers and times
//! tell.
//!
//! Decided, exactly: whether a read that was answered, or a compaction, came certainly after a
//! compaction that forbids it. One compaction comes certainly before another operation if it
//! returned before that was called, or shows a lower revision. A compaction of unknown outcome
//! forbids nothing and justifies everything from its call on.
//!
//! Not decided: whether a watcher that begins below a compaction is refused in time. It may get
//! the past as long as the events are right.

use vetch_model::Request;

use crate::facts::{describe, is_serializable, ranges_run};
use crate::history::{History, Operation, Outcome};
use crate::violation::{Kind, Violation};

#[derive(Debug, Clone, Copy)]
struct Compaction {
    index: usize,
    at: i64,
    called: u64,
    /// When it returned and the revision it showed; None if its outcome is unknown.
    done: Option<(u64, i64)>,
}

#[derive(Debug, Default)]
pub(crate) struct Compactions {
    all: Vec<Compaction>,
    /// Of those that were answered, by the time of return and by the revision shown: the highest up
    /// to each.
    by_time: Vec<(u64, i64)>,
    by_revision: Vec<(i64, i64)>,
    /// Of all, by the time of the call: the highest up to each.
    by_call: Vec<(u64, i64)>,
}

impl Compactions {
    pub(crate) fn new(history: &History) -> Compactions {
        let all: Vec<Compaction> = history.operations.iter().enumerate().filter_map(compaction).collect();
        let done = || all.iter().filter_map(|compaction| compaction.done.map(|done| (done, compaction.at)));
        let by_time = rising(done().map(|((returned, _), at)| (returned, at)).collect());
        let by_revision = rising(done().map(|((_, revision), at)| (revision, at)).collect());
        let by_call = rising(all.iter().map(|compaction| (compaction.called, compaction.at)).collect());
        Compactions { all, by_time, by_revision, by_call }
    }

    pub(crate) fn answered(&self) -> usize {
        self.all.iter().filter(|compaction| compaction.done.is_some()).count()
    }

    /// The highest compaction that was certainly done before `called`.
    pub(crate) fn certain_by(&self, called: u64) -> i64 {
        highest_below(&self.by_time, called)
    }

    /// The highest compaction that may have been done by `returned`; 0 if there was none.
    pub(crate) fn possible_by(&self, returned: u64) -> i64 {
        highest_below(&self.by_call, returned.saturating_add(1))
    }

    /// The same without the operation `index` itself.
    pub(crate) fn possible_besides(&self, index: usize, returned: u64) -> i64 {
        let others = self.all.iter().filter(|other| other.index != index && other.called <= returned);
        others.map(|other| other.at).max().unwrap_or(0)
    }

    /// Whether a request may have compacted exactly there.
    pub(crate) fn is_possible(&self, at: i64) -> bool {
        self.all.iter().any(|compaction| compaction.at == at)
    }

    /// The compaction that certainly came before and forbids to read at `revision` in an answer of
    /// this operation.
    fn forbids(&self, operation: &Operation, shown: i64, revision: i64) -> bool {
        let later = highest_below(&self.by_revision, shown);
        let timely = !is_serializable(&operation.request) && self.certain_by(operation.called) > revision;
        later > revision || timely
    }

    pub(crate) fn check(&self, history: &History) -> Vec<Violation> {
        let mut violations = self.check_reads(history);
        for compaction in &self.all {
            let Some((_, shown)) = compaction.done else { continue };
            let operation = &history.operations[compaction.index];
            let before = self.certain_by(operation.called).max(highest_below(&self.by_revision, shown));
            let text = if compaction.at > shown {
                format!("compacts the future: {}", describe(operation))
            } else if compaction.at <= before {
                format!("already compacted at {before}: {}", describe(operation))
            } else {
                continue;
            };
            violations.push(Violation::new(Kind::Compaction, text));
        }
        violations
    }

    fn check_reads(&self, history: &History) -> Vec<Violation> {
        let mut violations = Vec::new();
        for operation in &history.operations {
            let Outcome::Answered { revision: shown, answer } = &operation.outcome else { continue };
            for range in ranges_run(&operation.request, answer) {
                if range.revision > 0 && self.forbids(operation, *shown, range.revision) {
                    let text = format!("read what was compacted: {}", describe(operation));
                    violations.push(Violation::new(Kind::Compaction, text));
                }
            }
        }
        violations
    }
}

fn compaction((index, operation): (usize, &Operation)) -> Option<Compaction> {
    let Request::Compact { revision: at } = operation.request else { return None };
    let done = match operation.outcome {
        Outcome::Answered { revision, .. } => Some((operation.returned, revision)),
        Outcome::Unknown => None,
        Outcome::Refused(_) | Outcome::NotDone => return None,
    };
    Some(Compaction { index, at, called: operation.called, done })
}

/// Sorted by the first, with the highest so far as the second.
fn rising<K: Ord + Copy>(mut pairs: Vec<(K, i64)>) -> Vec<(K, i64)> {
    pairs.sort_unstable();
    let mut highest = 0;
    for (_, value) in &mut pairs {
        highest = highest.max(*value);
        *value = highest;
    }
    pairs
}

fn highest_below<K: Ord>(pairs: &[(K, i64)], below: K) -> i64 {
    let count = pairs.partition_point(|(key, _)| *key < below);
    pairs[..count].last().map_or(0, |(_, value)| *value)
}
