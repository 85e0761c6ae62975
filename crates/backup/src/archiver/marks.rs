//! Marks: when what was durable, noted ten times a second while something happens.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use vetch_base::Seq;
use vetch_node::archive::Archive;
use vetch_node::retention::Durable;

use crate::format::Mark;
use crate::times;

/// How exactly a time can be restored.
const EVERY: Duration = Duration::from_millis(100);
/// With more than this, every second one goes: a store that cannot be reached for long costs
/// precision, not memory.
const MOST: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct Marks {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Not yet in the backup.
    list: Vec<Mark>,
    /// The newest ever.
    last: Option<Mark>,
}

impl Marks {
    /// Notes until the node has ended.
    pub(super) fn run(&self, archive: &Archive) {
        while !archive.has_ended() {
            // First what is durable, then the time: so that it was so at that time.
            let durable = archive.durable();
            self.note(durable, times::now());
            std::thread::sleep(EVERY);
        }
    }

    /// Takes note that this is durable now.
    pub(super) fn note(&self, durable: Durable, now: u64) {
        let mut state = self.state();
        if state.last.is_some_and(|last| last.seq >= durable.seq) {
            return;
        }
        // A clock that is set back makes no later entry older than an earlier one.
        let time = state.last.map_or(now, |last| last.time.max(now));
        let mark = Mark { time, seq: durable.seq, revision: durable.revision };
        state.last = Some(mark);
        state.list.push(mark);
        if state.list.len() > MOST {
            let mut at = 0;
            state.list.retain(|_| {
                at += 1;
                at % 2 == 0
            });
        }
    }

    /// Those of entries up to `seq` that are not in the backup yet.
    pub(super) fn upto(&self, seq: Seq) -> Vec<Mark> {
        self.state().list.iter().filter(|mark| mark.seq <= seq).copied().collect()
    }

    /// Those up to `seq` are where they belong.
    pub(super) fn forget(&self, seq: Seq) {
        self.state().list.retain(|mark| mark.seq > seq);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics under this lock")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn durable(seq: u64) -> Durable {
        Durable { seq: Seq::new(seq), revision: seq as i64 * 2 }
    }

    fn seqs(marks: &[Mark]) -> Vec<u64> {
        marks.iter().map(|mark| mark.seq.get()).collect()
    }

    #[test]
    fn a_mark_is_made_only_when_something_happened_and_time_never_runs_backwards() {
        let marks = Marks::default();
        for (seq, now) in [(1, 100), (1, 200), (2, 300), (5, 250)] {
            marks.note(durable(seq), now);
        }
        let noted = marks.upto(Seq::new(9));
        assert_eq!(seqs(&noted), [1, 2, 5]);
        assert_eq!(noted.iter().map(|mark| mark.time).collect::<Vec<_>>(), [100, 300, 300]);
        marks.forget(Seq::new(2));
        assert_eq!(seqs(&marks.upto(Seq::new(9))), [5]);
        marks.forget(Seq::new(5));
        marks.note(durable(6), 10);
        assert_eq!(marks.upto(Seq::new(6))[0].time, 300);
    }

    #[test]
    fn there_are_never_too_many() {
        let marks = Marks::default();
        for seq in 1..=20_000 {
            marks.note(durable(seq), seq);
        }
        let noted = marks.upto(Seq::new(20_000));
        assert!(noted.len() <= MOST, "{}", noted.len());
        assert_eq!(noted.last().map(|mark| mark.seq), Some(Seq::new(20_000)));
    }
}
