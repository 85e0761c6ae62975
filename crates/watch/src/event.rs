//! Events of one revision: the unit that the log keeps, the rings share and the streams hand out.
//!
//! Almost every revision holds exactly one event, so [`Events`] keeps that one inline: a retained
//! revision costs no more than its event (16 bytes for one of two pointers) and no allocation.
//! Revisions with more events share one slice, and if they are many an index of it. Cloning is
//! cheap in all cases.

use std::sync::OnceLock;

use triomphe::ThinArc;

use crate::index::Index;
use crate::log_event::LogEvent;
use crate::range::KeyRange;

/// All events of one revision, in the order in which they happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Events<E> {
    /// The common case, kept without an allocation.
    One(E),
    /// Two or more events, shared; or none. Both in one variant, so that an event's own pointer,
    /// which is never null, tells the two variants apart and no memory is spent on that.
    Other(Option<ThinArc<Shared, E>>),
}

/// What is known of a shared slice of events beside the events.
#[derive(Default)]
pub struct Shared(OnceLock<Box<Index>>);

/// More events than these have an index; of fewer, one word says which of them are meant.
pub(crate) const FEW: usize = if cfg!(test) { 2 } else { 64 };

impl<E> Events<E> {
    /// No event: a revision unknown to the log, or nothing left after filtering.
    pub const NONE: Events<E> = Events::Other(None);

    /// The events as a slice.
    pub fn as_slice(&self) -> &[E] {
        match self {
            Events::One(event) => std::slice::from_ref(event),
            Events::Other(None) => &[],
            Events::Other(Some(events)) => &events.slice,
        }
    }

    /// Number of events.
    pub fn len(&self) -> usize {
        self.as_slice().len()
    }

    /// True if there is no event.
    pub fn is_empty(&self) -> bool {
        matches!(self, Events::Other(None))
    }

    /// What it costs to find those of a range, as a number of events looked at.
    pub(crate) fn cost(&self) -> usize {
        self.len().clamp(1, FEW)
    }
}

impl<E: LogEvent> Events<E> {
    /// Sum of the sizes of the events.
    pub fn size(&self) -> usize {
        match self.index() {
            Some(index) => index.size(),
            None => self.as_slice().iter().map(LogEvent::size).sum(),
        }
    }

    /// The events without what lay before them.
    pub fn without_previous(&self) -> Events<E> {
        self.as_slice().iter().map(E::without_previous).collect::<Vec<E>>().into()
    }

    /// Makes the index of very many events, which others would make at their first look: to be
    /// called without a lock.
    pub fn prepare(&self) {
        self.index();
    }

    /// True if one of the keys is in the range.
    pub(crate) fn touch(&self, range: &KeyRange) -> bool {
        match self.index() {
            Some(index) => !index.run(self.as_slice(), range).is_empty(),
            None => self.as_slice().iter().any(|event| range.contains(event.key())),
        }
    }

    /// Those that have many events have one.
    pub(crate) fn index(&self) -> Option<&Index> {
        match self {
            Events::Other(Some(events)) if events.slice.len() > FEW => {
                Some(events.header.header.0.get_or_init(|| Box::new(Index::new(&events.slice))))
            }
            _ => None,
        }
    }
}

impl<E> From<Vec<E>> for Events<E> {
    fn from(mut events: Vec<E>) -> Self {
        match events.len() {
            0 => Events::NONE,
            1 => Events::One(events.remove(0)),
            _ => Events::Other(Some(ThinArc::from_header_and_iter(Shared::default(), events.into_iter()))),
        }
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shared")
    }
}

/// It follows from the events.
impl PartialEq for Shared {
    fn eq(&self, _: &Shared) -> bool {
        true
    }
}

impl Eq for Shared {}

/// The events of the revision `rev`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision<E> {
    /// The revision.
    pub rev: i64,
    /// Its events.
    pub events: Events<E>,
}
