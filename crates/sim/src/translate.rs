//! Between the types of the specification and those of the node's watches and errors.

use vetch_model as model;
use vetch_node::error::NodeError;
use vetch_node::event::NodeEvent;
use vetch_node::watch::{Create, Filters};
use vetch_store::StoreError;
use vetch_testkit::to_model;

pub(crate) fn watch(watch: &model::Watch, watch_id: i64) -> Create {
    Create {
        key: watch.keys.key.clone(),
        range_end: watch.keys.range_end.clone(),
        start_revision: watch.start_revision,
        watch_id,
        prev_kv: watch.prev_kv,
        fragment: watch.fragment,
        progress_notify: watch.progress_notify,
        filters: Filters { no_put: watch.no_put, no_delete: watch.no_delete },
    }
}

/// As the watcher sees it: with the previous version only if it asked for it.
pub(crate) fn event(NodeEvent(event): &NodeEvent, prev_kv: bool) -> model::Event {
    let mut seen = to_model::event(event);
    seen.prev_kv = seen.prev_kv.filter(|_| prev_kv);
    seen
}

/// The outcome of a request that was not served.
pub(crate) fn not_served(error: &NodeError) -> Result<vetch_check::Outcome, StoreError> {
    Ok(match error {
        NodeError::Store(error) => vetch_check::Outcome::Refused(to_model::refusal(*error)?),
        NodeError::TooManyRequests
        | NodeError::NoSpace
        | NodeError::DiskFails
        | NodeError::Corrupt
        | NodeError::NotLeader
        | NodeError::LeaderChanged => vetch_check::Outcome::NotDone,
        NodeError::Stopped | NodeError::Timeout => vetch_check::Outcome::Unknown,
    })
}
