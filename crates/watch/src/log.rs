//! Event log: every revision from the compaction floor to the newest, in memory, in order.
//!
//! Guarantees: revisions are dense (`append` refuses a gap); a scan returns whole revisions in
//! order and does bounded work; compaction only moves the floor, and memory goes back in bounded
//! pieces that the caller can drop outside its lock. The log grows by whole chunks, so an append
//! never copies what is already there, whatever the length of the log.
//!
//! `floor` is the compact revision: revisions at or above it may be read. A read of the floor
//! itself gets its events without their previous values, from the compaction on (made once and
//! shared) and after a restart. Revisions below the floor, and what the floor's events replaced,
//! may still be in memory until they are trimmed; only the hub reads those, when a compaction
//! overtakes its matching.
//!
//! Not here: who wants the events (`hub`), and which of them a client has seen (`watcher`).

use std::collections::VecDeque;
use std::sync::OnceLock;

use vetch_seeded_bugs::Bug;

use crate::event::{Events, Revision};
use crate::hub::Fresh;
use crate::log_event::LogEvent;
use crate::matched::Match;
use crate::range::{Filters, KeyRange};

#[cfg(test)]
mod tests;

/// Revisions per chunk. Large enough to make the outer deque small, small enough that freeing one
/// chunk takes well under a millisecond. Tests use small ones, to cross many borders.
pub(crate) const CHUNK: usize = if cfg!(test) { 4 } else { 64 };

type Chunk<E> = Vec<Events<E>>;

/// All retained revisions.
#[derive(Debug)]
pub struct EventLog<E> {
    /// Every chunk but the last is full.
    chunks: VecDeque<Chunk<E>>,
    /// Revision of the first slot of the first chunk; `last + 1` while there is none.
    base: i64,
    /// Compact revision: the lowest revision that may be read.
    floor: i64,
    /// Newest revision.
    last: i64,
    /// The floor's events still hold what they replaced.
    heavy: bool,
    /// The floor's events without what they replaced, once a watcher has asked while they hold it.
    light: OnceLock<Events<E>>,
    /// Those of former floors, to be dropped with what is trimmed.
    faded: Vec<Events<E>>,
}

/// Bounds on the work and the result of one scan. A result always has room for one whole revision.
#[derive(Debug, Clone, Copy)]
pub struct ScanBudget {
    /// Events looked at, matching or not; an empty revision counts as one, and one with very many
    /// events, which has an index, as a few dozen.
    pub examined: usize,
    /// Revisions returned.
    pub revisions: usize,
    /// Events returned.
    pub events: usize,
    /// Bytes returned.
    pub bytes: usize,
}

/// What a scan found and what it cost.
#[derive(Debug)]
pub struct Scan<E> {
    /// Matching revisions, ascending, with their matching events only.
    pub revisions: Vec<Match<E>>,
    /// Everything below this revision has been looked at.
    pub next: i64,
    /// Events in `revisions`.
    pub events: usize,
    /// Bytes in `revisions`.
    pub bytes: usize,
    /// Events looked at.
    pub examined: usize,
}

/// Memory taken out of the log. Drop it outside of any lock.
#[must_use = "drop this after releasing the lock on the log"]
#[derive(Debug)]
pub struct Trimmed<E> {
    chunks: Vec<Chunk<E>>,
    _faded: Vec<Events<E>>,
    /// True if nothing is left to trim for now.
    pub done: bool,
}

impl<E> Trimmed<E> {
    /// Number of revisions in this piece.
    pub fn revisions(&self) -> usize {
        self.chunks.iter().map(Vec::len).sum()
    }
}

impl<E: LogEvent> EventLog<E> {
    /// A log without retained events: compacted at `floor` (0 if never), newest revision `last`.
    pub fn new(floor: i64, last: i64) -> Self {
        assert!(floor <= last, "compacted at {floor}, beyond the newest revision {last}");
        EventLog {
            chunks: VecDeque::new(),
            base: last + 1,
            floor,
            last,
            heavy: true,
            light: OnceLock::new(),
            faded: Vec::new(),
        }
    }

    /// Fills a log after recovery from revisions in ascending order. Revisions that are missing
    /// hold no event; revisions below the floor are skipped.
    pub fn load(floor: i64, last: i64, revisions: impl IntoIterator<Item = (i64, Events<E>)>) -> Self {
        let mut log = EventLog::new(floor, last);
        for (rev, events) in revisions {
            if rev < floor {
                continue;
            }
            assert!(rev <= last, "event at {rev} is above the newest revision {last}");
            if log.chunks.is_empty() {
                log.base = rev;
            }
            assert!(rev >= log.end(), "events at {rev} are out of order");
            while log.end() < rev {
                log.push(Events::NONE);
            }
            events.prepare();
            log.push(events);
        }
        while !log.chunks.is_empty() && log.end() <= last {
            log.push(Events::NONE);
        }
        log
    }

    /// Adds the newest revision.
    pub fn append(&mut self, rev: i64, events: Events<E>) {
        assert!(rev == self.last + 1, "revision {rev} does not follow {}", self.last);
        self.push(events);
        self.last = rev;
    }

    /// Moves the floor to `revision`. Takes no time; memory is given back by
    /// [`EventLog::trim_step`].
    pub fn compact(&mut self, revision: i64) {
        assert!(revision <= self.last, "compaction at {revision} is above {}", self.last);
        if revision > self.floor {
            self.faded.extend(self.light.take());
            self.heavy = true;
            self.floor = revision;
        }
    }

    /// Takes about `max` revisions (at least one chunk) below the floor out of the log, and at the
    /// end those of a chunk that is needed in part. Revisions above `matched`, the hub's published
    /// revision, stay: the hub has not seen them yet.
    pub fn trim_step(&mut self, max: usize, matched: i64) -> Trimmed<E> {
        let keep_from = self.floor.min(matched + 1);
        let mut chunks = Vec::new();
        for _ in 0..(max / CHUNK).max(1) {
            if !self.front_is_below(keep_from) {
                break;
            }
            chunks.extend(self.chunks.pop_front());
            self.base += CHUNK as i64;
        }
        let done = !self.front_is_below(keep_from);
        if done && let Some(front) = self.chunks.front_mut() {
            let below = usize::try_from(keep_from - self.base).unwrap_or(0).min(front.len());
            chunks
                .push(front[..below].iter_mut().map(|slot| std::mem::replace(slot, Events::NONE)).collect());
        }
        Trimmed { chunks, _faded: std::mem::take(&mut self.faded), done }
    }

    /// The floor and its events, if they still hold what they replaced and the hub has seen them:
    /// to be made lighter away from the lock and given to [`EventLog::lighten`].
    pub fn heavy_floor(&self, matched: i64) -> Option<Revision<E>> {
        let rev = self.floor;
        (self.heavy && matched >= rev && rev >= self.base)
            .then(|| Revision { rev, events: self.slot(rev).clone() })
    }

    /// Puts a lighter revision in the place of one that was heavy. Drop what is returned after
    /// releasing the lock.
    pub fn lighten(&mut self, lighter: Revision<E>) -> Events<E> {
        if lighter.rev < self.floor {
            return lighter.events;
        }
        self.faded.extend(self.light.take());
        self.heavy = false;
        let at = usize::try_from(lighter.rev - self.base).expect("the floor stays in memory");
        std::mem::replace(&mut self.chunks[at / CHUNK][at % CHUNK], lighter.events)
    }

    /// Compact revision: the lowest revision a watcher may start at.
    pub fn floor(&self) -> i64 {
        self.floor
    }

    /// Newest revision.
    pub fn last(&self) -> i64 {
        self.last
    }

    /// Revisions held in memory, including those that wait to be trimmed.
    pub fn retained(&self) -> usize {
        usize::try_from(self.end() - self.base).expect("the end is never below the base")
    }

    /// Matching revisions of `from..=to`, as far as the budget goes.
    pub fn scan(
        &self,
        from: i64,
        to: i64,
        range: &KeyRange,
        filters: Filters,
        budget: ScanBudget,
    ) -> Scan<E> {
        assert!(from >= self.floor, "scan from {from} is below the floor {}", self.floor);
        let to = to.min(self.last);
        // What lies below the base without having been trimmed was never given to us: it holds no
        // event.
        let mut scan = Scan { revisions: Vec::new(), next: from, events: 0, bytes: 0, examined: 0 };
        for rev in from.max(self.base)..=to {
            if scan.examined >= budget.examined.max(1) || scan.revisions.len() >= budget.revisions.max(1) {
                return scan;
            }
            let all = if rev == self.floor { self.floor_events() } else { self.slot(rev) };
            scan.examined += all.cost();
            if let Some(found) = Match::of(rev, all, range, filters)
                && !scan.take(found, budget)
            {
                return scan;
            }
            scan.next = rev + 1;
        }
        scan.next = scan.next.max(to + 1);
        scan
    }

    /// Events of a revision that is still in memory, whatever the floor says.
    pub(crate) fn slot(&self, rev: i64) -> &Events<E> {
        let index = usize::try_from(rev - self.base).expect("a revision that was trimmed is not read");
        &self.chunks[index / CHUNK][index % CHUNK]
    }

    /// Up to `max` revisions from `from` on, for the hub. Trimming never overtakes publishing, so
    /// they are there. None if there is no such revision yet.
    pub fn fresh(&self, from: i64, max: usize) -> Option<Fresh<E>> {
        let to = self.last.min(from.saturating_add(i64::try_from(max.max(1)).unwrap_or(i64::MAX) - 1));
        let revisions: Vec<Events<E>> = (from..=to).map(|rev| self.slot(rev).clone()).collect();
        (!revisions.is_empty()).then(|| Fresh::new(from, revisions))
    }

    /// The floor's events without what they replaced. However many watchers begin there, they are
    /// made once.
    fn floor_events(&self) -> &Events<E> {
        let slot = self.slot(self.floor);
        if self.heavy { self.light.get_or_init(|| slot.without_previous()) } else { slot }
    }

    /// First revision behind the retained ones.
    fn end(&self) -> i64 {
        let behind = self.chunks.back().map_or(0, Vec::len);
        self.base + (self.chunks.len().saturating_sub(1) * CHUNK + behind) as i64
    }

    fn push(&mut self, events: Events<E>) {
        if self.chunks.back().is_none_or(|chunk| chunk.len() == CHUNK) {
            self.chunks.push_back(Vec::with_capacity(CHUNK));
        }
        self.chunks.back_mut().expect("a chunk was just added").push(events);
    }

    /// True if the first chunk is full and wholly below `keep_from`. A chunk that is still being
    /// filled stays, so that the base never overtakes the newest revision.
    fn front_is_below(&self, keep_from: i64) -> bool {
        self.chunks.front().is_some_and(|chunk| chunk.len() == CHUNK) && self.base + CHUNK as i64 <= keep_from
    }
}

impl<E: LogEvent> Scan<E> {
    /// Adds a revision unless it would overrun the budget. The first one always fits.
    fn take(&mut self, found: Match<E>, budget: ScanBudget) -> bool {
        let (count, bytes) = (found.len(), found.bytes());
        let cut = vetch_seeded_bugs::on(Bug::PartialRevision) && count > budget.events.max(1);
        let found = if cut { found.cut(budget.events.max(1)).unwrap_or(found) } else { found };
        let fits = self.events + count <= budget.events && self.bytes + bytes <= budget.bytes;
        if !fits && !self.revisions.is_empty() {
            return false;
        }
        self.events += count;
        self.bytes += bytes;
        self.revisions.push(found);
        true
    }
}
