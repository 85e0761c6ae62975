//! Match: the events of one revision that a watcher asked for, as a view of all of them.
//!
//! All watchers share the events of a revision; what a watcher has of its own is which of them it
//! is told, in a few words, however many they are. Those are listed without a
//! lock.

use std::ops::Range;

use crate::event::Events;
use crate::index::Tally;
use crate::log_event::LogEvent;
use crate::range::{Filters, KeyRange};

/// The events of the revision `rev` that one watcher asked for; never empty in anything this crate
/// hands out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match<E> {
    /// The revision.
    pub rev: i64,
    all: Events<E>,
    part: Part,
    tally: Tally,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    All,
    /// Of few events, one bit each.
    Few(u64),
    /// Of many events: those between two ranks by key that the filters admit.
    Run(Range<usize>, Filters),
}

impl<E: LogEvent> Match<E> {
    /// The events of a revision in this range that these filters admit, if there are any.
    pub(crate) fn of(rev: i64, all: &Events<E>, range: &KeyRange, filters: Filters) -> Option<Match<E>> {
        let (part, tally) = match (all.index(), all) {
            (None, Events::One(event)) => {
                let is_wanted = filters.admit(event) && range.contains(event.key());
                let mut tally = Tally::default();
                if is_wanted {
                    tally.add(event);
                }
                (Part::All, tally)
            }
            (None, all) => few(all.as_slice(), |event| filters.admit(event) && range.contains(event.key())),
            (Some(index), all) => {
                let run = index.run(all.as_slice(), range);
                let tally = index.tally(all.as_slice(), &run, filters);
                (Part::Run(run, filters), tally)
            }
        };
        let part = if tally.events == all.len() { Part::All } else { part };
        (tally.events > 0).then(|| Match { rev, all: all.clone(), part, tally })
    }

    /// The first of the events only, which breaks a revision in two.
    pub(crate) fn cut(&self, events: usize) -> Option<Match<E>> {
        let first: Events<E> = self.events().take(events).cloned().collect::<Vec<E>>().into();
        let everything = KeyRange::Span { start: Box::default(), end: None };
        Match::of(self.rev, &first, &everything, Filters::default())
    }

    /// The events, in the order in which they happened.
    pub fn events(&self) -> impl Iterator<Item = &E> {
        let all = self.all.as_slice();
        let (run, filters, bits) = match &self.part {
            Part::All => (0..all.len(), Filters::default(), u64::MAX),
            Part::Few(bits) => (0..all.len(), Filters::default(), *bits),
            Part::Run(run, filters) => (run.clone(), *filters, u64::MAX),
        };
        let is_few = matches!(self.part, Part::Few(_));
        let listed = match &self.part {
            Part::Run(run, _) => self.all.index().and_then(|index| index.places(run.clone())),
            _ => None,
        };
        let places = listed.map_or(Places::Run(run), |places| Places::Listed(places.into_iter()));
        places
            .filter(move |place| !is_few || bits >> place & 1 == 1)
            .map(|place| &all[place])
            .filter(move |event| filters.admit(*event))
    }
}

impl<E> Match<E> {
    /// Number of events.
    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        self.tally.events
    }

    /// Sum of the sizes of the events.
    pub fn bytes(&self) -> usize {
        self.tally.bytes
    }
}

/// Where events are in their slice.
enum Places {
    Run(Range<usize>),
    Listed(std::vec::IntoIter<u32>),
}

impl Iterator for Places {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        match self {
            Places::Run(run) => run.next(),
            Places::Listed(places) => places.next().map(|place| place as usize),
        }
    }
}

fn few<E: LogEvent>(all: &[E], is_wanted: impl Fn(&E) -> bool) -> (Part, Tally) {
    let (mut bits, mut tally) = (0, Tally::default());
    for (place, event) in all.iter().enumerate().filter(|(_, event)| is_wanted(event)) {
        bits |= 1 << place;
        tally.add(event);
    }
    (Part::Few(bits), tally)
}
