//! Watches: what a watcher must be shown.

use crate::request::{Keys, Watch};
use crate::response::Event;
use crate::state::Model;

impl Model {
    /// Every change of `keys` in the revisions from `from` to `to`, both included, in order and
    /// with `prev_kv`.
    pub fn events(&self, keys: &Keys, from: i64, to: i64) -> Vec<Event> {
        self.changes(from, to).iter().filter(|event| keys.contains(&event.kv.key)).cloned().collect()
    }

    /// What a watcher that follows the changes as they happen is shown of the revisions from `from`
    /// to `to`, both included.
    pub fn watched(&self, watch: &Watch, from: i64, to: i64) -> Vec<Event> {
        let mut events = self.events(&watch.keys, from, to);
        events.retain(|event| if event.deleted { !watch.no_delete } else { !watch.no_put });
        if !watch.prev_kv {
            events.iter_mut().for_each(|event| event.prev_kv = None);
        }
        events
    }

    /// What a watcher that begins now is shown of the past. The changes of the compacted revision
    /// are the oldest that it may ask for, and what they replaced is not known any more.
    pub fn recalled(&self, watch: &Watch, from: i64, to: i64) -> Vec<Event> {
        let mut events = self.watched(watch, from, to);
        let compacted = self.compact_revision();
        let oldest = events.iter_mut().filter(|event| event.kv.mod_revision <= compacted);
        oldest.for_each(|event| event.prev_kv = None);
        events
    }
}
