//! Watches: every guarantee for watchers, one function for each.
//!
//! * `stream`: what the messages of one watcher say by themselves.
//! * `content`: what they say compared with the specification.

mod content;
mod stream;

use vetch_model::{Event, Watch};

use crate::history::{WatchMessage, Watched};

pub(crate) use content::{Forgotten, check_content, compacted, dropped, prev_kv};
pub(crate) use stream::check_stream;

/// Whether the watcher asked for such an event.
pub(crate) fn matches(request: &Watch, event: &Event) -> bool {
    let filtered = if event.deleted { request.no_delete } else { request.no_put };
    !filtered && request.keys.contains(&event.kv.key)
}

pub(crate) fn without_prev(event: &Event) -> Event {
    Event { prev_kv: None, ..event.clone() }
}

/// The first revision that the watcher must get. None if it is not known: it began at a
/// "now" it did not learn.
pub(crate) fn first_revision(watch: &Watched) -> Option<i64> {
    if watch.request.start_revision > 0 {
        return Some(watch.request.start_revision);
    }
    let created = watch.messages.iter().find(|message| matches!(message, WatchMessage::Created { .. }));
    created.map(|message| message.revision() + 1)
}

/// The revisions, first and last, of which the watcher has got everything that it requested.
pub(crate) fn coverage(watch: &Watched) -> Option<(i64, i64)> {
    let first = first_revision(watch)?;
    let last = watch.messages.iter().filter_map(sent_up_to).max()?;
    (first <= last).then_some((first, last))
}

/// The revision up to which a message says that everything was sent.
fn sent_up_to(message: &WatchMessage) -> Option<i64> {
    match message {
        WatchMessage::Created { .. } => None,
        WatchMessage::Events { events, .. } => events.iter().map(|event| event.kv.mod_revision).max(),
        WatchMessage::Progress { revision, .. } => Some(*revision),
    }
}
