//! What an event is to this crate.

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
