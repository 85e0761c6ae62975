//! Index: finds the events of a key range among very many of one revision, and their number and
//! size, without looking at all of them.
//!
//! The order of the keys, which most such revisions have anyway, and sums at every so many events
//! in that order. It takes a byte for each event, or five.

use std::ops::Range;

use crate::log_event::LogEvent;
use crate::range::{Filters, KeyRange};

#[cfg(test)]
mod tests;

/// Events from one sum to the next.
const STRIDE: usize = if cfg!(test) { 3 } else { 64 };

#[derive(Debug)]
pub(crate) struct Index {
    /// The places of the events by key, those of one key in their order; nothing if the events are
    /// in that order.
    order: Option<Box<[u32]>>,
    /// Of all events by key that come before every `STRIDE`th.
    sums: Box<[Sums]>,
    all: Sums,
}

/// A number of events and their size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) events: usize,
    pub(crate) bytes: usize,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    puts: Tally,
    deletes: Tally,
}

impl Tally {
    pub(crate) fn add(&mut self, event: &impl LogEvent) {
        self.events += 1;
        self.bytes += event.size();
    }
}

impl Sums {
    fn add(&mut self, event: &impl LogEvent) {
        if event.is_delete() { self.deletes.add(event) } else { self.puts.add(event) }
    }

    fn admitted(&self, filters: Filters) -> Tally {
        let puts = if filters.no_put { Tally::default() } else { self.puts };
        let deletes = if filters.no_delete { Tally::default() } else { self.deletes };
        Tally { events: puts.events + deletes.events, bytes: puts.bytes + deletes.bytes }
    }
}

impl Index {
    pub(crate) fn new<E: LogEvent>(all: &[E]) -> Index {
        let order = (!all.is_sorted_by(|a, b| a.key() <= b.key())).then(|| {
            let mut order: Vec<u32> = (0..).take(all.len()).collect();
            order.sort_by(|a, b| all[*a as usize].key().cmp(all[*b as usize].key()));
            order.into_boxed_slice()
        });
        let mut index = Index { order, sums: Box::default(), all: Sums::default() };
        let mut sums = Vec::with_capacity(all.len() / STRIDE + 1);
        for rank in 0..all.len() {
            if rank % STRIDE == 0 {
                sums.push(index.all);
            }
            index.all.add(index.at(all, rank));
        }
        index.sums = sums.into_boxed_slice();
        index
    }

    /// The size of all events.
    pub(crate) fn size(&self) -> usize {
        self.all.admitted(Filters::default()).bytes
    }

    /// The ranks of the events in the range.
    pub(crate) fn run<E: LogEvent>(&self, all: &[E], range: &KeyRange) -> Range<usize> {
        match range {
            KeyRange::Key(key) => self.before(all, key)..self.rank(all, |other| other <= key),
            KeyRange::Span { start, end } => {
                let to = end.as_ref().map_or(all.len(), |end| self.before(all, end));
                self.before(all, start)..to
            }
        }
    }

    /// Those of a run that a watcher wants.
    pub(crate) fn tally<E: LogEvent>(&self, all: &[E], run: &Range<usize>, filters: Filters) -> Tally {
        let (from, to) = (self.upto(all, run.start, filters), self.upto(all, run.end, filters));
        Tally { events: to.events - from.events, bytes: to.bytes - from.bytes }
    }

    /// The places of the events of a run, in their order; None if they are the run itself.
    pub(crate) fn places(&self, run: Range<usize>) -> Option<Vec<u32>> {
        let mut places = self.order.as_ref()?[run].to_vec();
        places.sort_unstable();
        Some(places)
    }

    fn upto<E: LogEvent>(&self, all: &[E], rank: usize, filters: Filters) -> Tally {
        if rank == all.len() {
            return self.all.admitted(filters);
        }
        let near = rank / STRIDE;
        let mut sums = self.sums[near];
        (near * STRIDE..rank).for_each(|rank| sums.add(self.at(all, rank)));
        sums.admitted(filters)
    }

    /// How many events have keys before this one.
    fn before<E: LogEvent>(&self, all: &[E], key: &[u8]) -> usize {
        self.rank(all, |other| other < key)
    }

    /// How many events have keys that are before some border.
    fn rank<E: LogEvent>(&self, all: &[E], is_before: impl Fn(&[u8]) -> bool) -> usize {
        match &self.order {
            None => all.partition_point(|event| is_before(event.key())),
            Some(order) => order.partition_point(|place| is_before(all[*place as usize].key())),
        }
    }

    fn at<'a, E>(&self, all: &'a [E], rank: usize) -> &'a E {
        match &self.order {
            None => &all[rank],
            Some(order) => &all[order[rank] as usize],
        }
    }
}
