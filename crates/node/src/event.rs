//! Event: a change of a key, as the event log and the watch hub keep it.

use vetch_store::request::Event;
use vetch_watch::LogEvent;

/// A change as the event log keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeEvent(pub Event);

// The log keeps one of these for every revision since the last compaction.
const _: () = assert!(size_of::<vetch_watch::Events<NodeEvent>>() == 2 * size_of::<usize>());

impl LogEvent for NodeEvent {
    fn key(&self) -> &[u8] {
        self.0.kv.key()
    }

    fn is_delete(&self) -> bool {
        self.0.kv.is_tombstone()
    }

    fn size(&self) -> usize {
        self.0.kv.wire_len() + self.0.prev.as_ref().map_or(0, |prev| prev.wire_len())
    }

    fn without_previous(&self) -> NodeEvent {
        NodeEvent(Event { kv: self.0.kv.clone(), prev: None })
    }
}
