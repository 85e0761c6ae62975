//! Differences that are there on purpose. Each has a line in `docs/compatibility.md`; nothing else
//! is forgiven.

use vetch_api::mvccpb::Event;

use super::request::Request;

/// Why these two answers may differ, if they may.
pub(super) fn deliberate(request: &Request, left: &str, right: &str) -> Option<&'static str> {
    match request {
        Request::Downgrade(_) if right.contains("Unimplemented") && !left.starts_with("error") => {
            Some("there is no older format to go back to, so a valid downgrade is refused")
        }
        _ => None,
    }
}

/// etcd repeats a negative revision and hashes nothing.
pub(super) fn hash_is_of_nothing(requested: i64) -> bool {
    requested < 0
}

/// A key that one revision changed twice, and that was compacted there: etcd drops the first of the
/// changes some time after the compaction, Vetch tells whole revisions. What remains for comparison
/// is the last change of each key.
pub(super) fn only_last_changes(events: &mut Vec<Event>, compacted: i64) {
    let name = |event: &Event| event.kv.as_ref().map(|kv| (kv.key.clone(), kv.mod_revision));
    let names: Vec<_> = events.iter().map(name).collect();
    let mut index = 0;
    events.retain(|_| {
        let own = &names[index];
        index += 1;
        own.as_ref().is_none_or(|(_, revision)| *revision > compacted) || !names[index..].contains(own)
    });
}

/// Removes the previous values of events that a compaction overtook. etcd reads them when it sends
/// an event, so whether an event at or below the compaction has one depends on timing. A watcher
/// that began at the compaction, `born`, is not in doubt: it must not get it.
pub(super) fn forget_the_overtaken(events: &mut [Event], born: i64, compacted: i64) {
    let revision = |event: &Event| event.kv.as_ref().map_or(0, |kv| kv.mod_revision);
    let overtaken = events.iter_mut().filter(|event| revision(event) <= compacted && revision(event) != born);
    overtaken.for_each(|event| event.prev_kv = None);
}
