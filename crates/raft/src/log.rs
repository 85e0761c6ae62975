//! Log: what this member knows of its own log. The newest entries are in memory; of the older ones
//! only their terms are, and their bytes come from an `EntrySource`.
//!
//! The log begins behind its *floor*, the last entry that was trimmed. It has every entry from
//! there to its end, also those that are not on disk yet.

use std::collections::VecDeque;

use vetch_base::{Epoch, Seq};
use vetch_journal::Tip;

use crate::entry::LogEntry;

/// Where entries are that are no longer in memory: on this member's disk.
pub trait EntrySource: Send {
    /// Entries from `first` to at most `last`, in order: at least one, and then as many as fit
    /// into `max_bytes`. `None` if they cannot be read.
    fn read(&self, first: Seq, last: Seq, max_bytes: u64) -> Option<Vec<LogEntry>>;
}

pub(crate) struct Log {
    /// Each term that has entries behind the floor, with its first one. The floor comes first.
    terms: VecDeque<(Seq, Epoch)>,
    /// The newest entries.
    recent: VecDeque<LogEntry>,
    recent_bytes: usize,
    /// The tip before the first recent entry.
    before_recent: Tip,
}

impl Log {
    /// A log that goes on behind `floor`.
    pub(crate) fn new(floor: Tip) -> Log {
        Log {
            terms: VecDeque::from([(floor.seq, floor.epoch)]),
            recent: VecDeque::new(),
            recent_bytes: 0,
            before_recent: floor,
        }
    }

    /// The last entry that is not in the log any more.
    pub(crate) fn floor(&self) -> Seq {
        self.terms[0].0
    }

    pub(crate) fn tip(&self) -> &Tip {
        self.recent.back().map_or(&self.before_recent, LogEntry::tip)
    }

    pub(crate) fn last(&self) -> Seq {
        self.tip().seq
    }

    /// The term of an entry, from the floor to the end.
    pub(crate) fn epoch(&self, seq: Seq) -> Option<Epoch> {
        if seq < self.floor() || seq > self.last() {
            return None;
        }
        let behind = self.terms.partition_point(|(first, _)| *first <= seq);
        Some(self.terms[behind - 1].1)
    }

    /// The last entry that is not in memory.
    pub(crate) fn forgotten(&self) -> Seq {
        self.before_recent.seq
    }

    /// An entry, if it is in memory.
    pub(crate) fn recent(&self, seq: Seq) -> Option<&LogEntry> {
        let at = seq.get().checked_sub(self.before_recent.seq.get() + 1)?;
        self.recent.get(usize::try_from(at).ok()?)
    }

    /// The tip after an entry, if it is in memory.
    pub(crate) fn tip_at(&self, seq: Seq) -> Option<Tip> {
        if seq == self.before_recent.seq {
            return Some(self.before_recent);
        }
        self.recent(seq).map(|entry| *entry.tip())
    }

    pub(crate) fn push(&mut self, entry: LogEntry) {
        assert!(entry.seq() == self.last().next(), "entries follow one another");
        if self.tip().epoch != entry.epoch() {
            self.terms.push_back((entry.seq(), entry.epoch()));
        }
        self.recent_bytes += entry.bytes().len();
        self.recent.push_back(entry);
    }

    /// Drops the entries behind `to`.
    pub(crate) fn cut(&mut self, to: Seq) {
        assert!(to >= self.before_recent.seq, "what is cut is in memory: it was not committed");
        while let Some(entry) = self.recent.pop_back_if(|entry| entry.seq() > to) {
            self.recent_bytes -= entry.bytes().len();
        }
        while self.terms.len() > 1 && self.terms.back().is_some_and(|(first, _)| *first > to) {
            self.terms.pop_back();
        }
    }

    /// Forgets the bytes of old entries up to `seq` while they take more than `max` bytes.
    pub(crate) fn forget(&mut self, seq: Seq, max: usize) {
        while self.recent_bytes > max
            && let Some(entry) = self.recent.pop_front_if(|entry| entry.seq() <= seq)
        {
            self.recent_bytes -= entry.bytes().len();
            self.before_recent = *entry.tip();
        }
    }

    /// Everything up to `floor` was trimmed.
    pub(crate) fn trim(&mut self, floor: Seq) {
        let Some(epoch) = self.epoch(floor) else { return };
        while self.terms.get(1).is_some_and(|(first, _)| *first <= floor) {
            self.terms.pop_front();
        }
        self.terms[0] = (floor, epoch);
        while let Some(entry) = self.recent.pop_front_if(|entry| entry.seq() <= floor) {
            self.recent_bytes -= entry.bytes().len();
            self.before_recent = *entry.tip();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log of one entry in each of these terms.
    fn log(terms: &[u64]) -> Log {
        let mut log = Log::new(Tip::genesis(2));
        for term in terms {
            let entry = LogEntry::new_epoch(Epoch::new(*term), log.tip());
            log.push(entry);
        }
        log
    }

    fn terms(log: &Log) -> Vec<Option<u64>> {
        (0..=log.last().get() + 1).map(|seq| log.epoch(Seq::new(seq)).map(Epoch::get)).collect()
    }

    #[test]
    fn terms_are_known_from_the_floor_to_the_end() {
        let mut log = log(&[1, 3, 4, 7]);
        assert_eq!(terms(&log), [Some(0), Some(1), Some(3), Some(4), Some(7), None]);
        log.cut(Seq::new(3));
        assert_eq!(terms(&log), [Some(0), Some(1), Some(3), Some(4), None]);
        log.trim(Seq::new(2));
        assert_eq!(terms(&log), [None, None, Some(3), Some(4), None]);
        assert_eq!(
            (log.floor(), log.tip_at(Seq::new(2)).map(|tip| tip.epoch)),
            (Seq::new(2), Some(Epoch::new(3)))
        );
    }

    #[test]
    fn forgotten_entries_keep_their_terms() {
        let mut log = log(&[1, 3, 4, 7]);
        log.forget(Seq::new(3), 0);
        assert_eq!(terms(&log), [Some(0), Some(1), Some(3), Some(4), Some(7), None]);
        assert!(log.recent(Seq::new(3)).is_none() && log.recent(Seq::new(4)).is_some());
        log.trim(Seq::new(2));
        assert_eq!(log.floor(), Seq::new(2));
    }
}
