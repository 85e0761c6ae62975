//! Events of one revision: the unit that the log keeps, the rings share and the streams hand out.
//!
//! Almost every revision holds exactly one event, so [`Events`] keeps that one inline: a retained
//! revision costs no more than its event (16 bytes for one of two pointers) and no allocation.
//! Revisions with more events share one slice. Cloning is cheap in both cases.

use triomphe::ThinArc;

/// What this crate needs to know about an event. The payload is never looked into.
pub trait LogEvent: Clone + Send + Sync + 'static {
    /// The key that was written or deleted.
    fn key(&self) -> &[u8];
    /// True for a deletion, false for a put.
    fn is_delete(&self) -> bool;
    /// Bytes this event adds to a response; used for budgets and ring bounds only.
    fn size(&self) -> usize;
    /// The event without what lay before it, as it is known once the revision before is compacted.
    #[must_use]
    fn without_previous(&self) -> Self;
}

/// All events of one revision, in the order in which they happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Events<E> {
    /// The common case, kept without an allocation.
    One(E),
    /// Two or more events, shared; or none. Both in one variant, so that an event's own pointer,
    /// which is never null, tells the two variants apart and no memory is spent on that.
    Other(Option<ThinArc<(), E>>),
}

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
}

impl<E: LogEvent> Events<E> {
    /// Sum of the sizes of the events.
    pub fn size(&self) -> usize {
        self.as_slice().iter().map(LogEvent::size).sum()
    }

    /// The events without what lay before them.
    pub fn without_previous(&self) -> Events<E> {
        self.as_slice().iter().map(E::without_previous).collect::<Vec<E>>().into()
    }

    /// The events that satisfy `keep`. Shares the slice when all of them do.
    pub(crate) fn select(&self, keep: impl Fn(&E) -> bool) -> Events<E> {
        let all = self.as_slice();
        match all.iter().filter(|event| keep(event)).count() {
            0 => Events::NONE,
            kept if kept == all.len() => self.clone(),
            _ => all.iter().filter(|event| keep(event)).cloned().collect::<Vec<E>>().into(),
        }
    }
}

impl<E> From<Vec<E>> for Events<E> {
    fn from(mut events: Vec<E>) -> Self {
        match events.len() {
            0 => Events::NONE,
            1 => Events::One(events.remove(0)),
            _ => Events::Other(Some(ThinArc::from_header_and_iter((), events.into_iter()))),
        }
    }
}

/// The events of the revision `rev`, or those of them that one watcher asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision<E> {
    /// The revision.
    pub rev: i64,
    /// Its events; never empty in anything this crate hands out.
    pub events: Events<E>,
}
