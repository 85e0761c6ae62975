//! History: the changes that may still be watched, in the order in which they happened, noted while
//! keys are read in their own.
//!
//! Nearly every revision since the compaction is there, with one change. So a change goes straight
//! to its place in a table by revision, and nothing is sorted, except what finds its place taken or
//! has none. All of it is noted while its key is read: later all versions are far apart in memory,
//! and looking at each of them once more would take longer than reading them did.
//!
//! The table lies in pieces that are given back one by one, so that what is built of them takes no
//! more memory than they did.

use crate::keys::Slot;
use crate::membership::Membership;
use crate::request::Event;
use crate::state::Mark;

/// Revisions in a piece of the table.
const PIECE: usize = 4096;
/// The table has places for so many revisions for each key that is expected: where they are rarer,
/// it would be mostly empty.
const PLACES_PER_KEY: u64 = 4;

/// Events with their revisions.
#[derive(Default)]
pub struct History {
    /// The revision of the first place.
    first: i64,
    pieces: Vec<Option<Piece>>,
    /// What is not in the table; sorted in the end.
    others: Vec<Change>,
}

struct Piece {
    events: Vec<Option<Event>>,
    keys: Vec<Touched>,
}

/// What a change did to its key.
#[derive(Clone, Copy, Default)]
pub(crate) struct Touched {
    pub(crate) slot: Slot,
    /// Whether the key came, or went; none if it was there before and is now.
    pub(crate) came: Option<bool>,
}

struct Change {
    revision: i64,
    event: Event,
    key: Touched,
}

impl History {
    pub(super) fn new(mark: Mark, expected_keys: usize) -> History {
        let first = mark.compact_revision.max(0);
        let revisions = mark.revision.saturating_sub(first).saturating_add(1).max(0) as u64;
        let most = expected_keys as u64 * PLACES_PER_KEY + PIECE as u64;
        let pieces = revisions.min(most).div_ceil(PIECE as u64);
        History { first, pieces: (0..pieces).map(|_| None).collect(), others: Vec::new() }
    }

    pub(super) fn note(&mut self, revision: i64, event: Event, key: Touched) {
        let place = usize::try_from(revision.saturating_sub(self.first)).unwrap_or(usize::MAX);
        if let Some(piece) = self.pieces.get_mut(place / PIECE) {
            let piece = piece.get_or_insert_with(Piece::new);
            let free = &mut piece.events[place % PIECE];
            if free.is_none() {
                *free = Some(event);
                piece.keys[place % PIECE] = key;
                return;
            }
        }
        self.others.push(Change { revision, event, key });
    }

    /// The last step: sorts what is not in the table, and returns which keys came and went.
    pub(super) fn finish(&mut self) -> Membership {
        self.others.sort_unstable_by_key(|change| (change.revision, change.event.kv.sub()));
        let mut membership = Membership::default();
        let mut count = |revision, key: Touched| {
            if let Some(came) = key.came {
                membership.load(revision, key.slot, came);
            }
        };
        let mut others = self.others.iter().peekable();
        for (number, piece) in self.pieces.iter_mut().enumerate() {
            let Some(piece) = piece else { continue };
            let revisions = self.first + (number * PIECE) as i64..;
            let keys = std::mem::take(&mut piece.keys);
            for ((revision, event), key) in revisions.zip(&piece.events).zip(keys) {
                while let Some(other) = others.next_if(|other| other.revision < revision) {
                    count(other.revision, other.key);
                }
                if event.is_some() {
                    count(revision, key);
                }
            }
        }
        others.for_each(|other| count(other.revision, other.key));
        membership
    }

    /// The events in the order in which they happened, each with its revision.
    pub fn into_events(self) -> impl Iterator<Item = (i64, Event)> {
        let first = self.first;
        let placed = self.pieces.into_iter().enumerate().flat_map(move |(number, piece)| {
            let revisions = first + (number * PIECE) as i64..;
            let events = piece.map_or(Vec::new(), |piece| piece.events);
            revisions.zip(events).filter_map(|(revision, event)| Some((revision, event?)))
        });
        let mut placed = placed.peekable();
        let mut others = self.others.into_iter().map(|change| (change.revision, change.event)).peekable();
        std::iter::from_fn(move || {
            let is_other_first = match (placed.peek(), others.peek()) {
                (Some((revision, event)), Some((other, second))) => {
                    other.cmp(revision).then_with(|| second.kv.sub().cmp(&event.kv.sub())).is_lt()
                }
                (placed, _) => placed.is_none(),
            };
            if is_other_first { others.next() } else { placed.next() }
        })
    }
}

impl Piece {
    fn new() -> Piece {
        Piece { events: (0..PIECE).map(|_| None).collect(), keys: vec![Touched::default(); PIECE] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Fields, Record};

    fn event(revision: i64, sub: u32) -> Event {
        let fields = Fields {
            key: b"k",
            value: b"v",
            create_revision: revision,
            mod_revision: revision,
            version: 1,
            lease: 0,
            sub,
        };
        Event { kv: Record::new(fields), prev: None }
    }

    #[test]
    fn changes_come_out_in_order_wherever_they_were_noted() {
        let piece = PIECE as i64;
        let far = 100 * piece;
        let places = [
            (5, 0),
            (7, 0),
            (7, 1),
            (7, 2),
            (8, 3),
            (piece + 4, 0),
            (piece + 5, 0),
            (far, 0),
            (far, 1),
            (far + 1, 0),
        ];
        // Keys come in any order, so changes do.
        for turn in 0..places.len() {
            for step in [1, 3, 7] {
                let mark = Mark { revision: far + 1, compact_revision: 5 };
                let mut history = History::new(mark, 100);
                for index in 0..places.len() {
                    let (revision, sub) = places[(turn + index * step) % places.len()];
                    let key = Touched { slot: 0, came: Some(true) };
                    history.note(revision, event(revision, sub), key);
                }
                history.finish();
                let found = history.into_events().map(|(revision, event)| (revision, event.kv.sub()));
                assert_eq!(found.collect::<Vec<_>>(), places);
            }
        }
    }
}
