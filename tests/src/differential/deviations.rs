//! Differences that are there on purpose. Each has a line in `docs/compatibility.md`; nothing else is forgiven.

use vetch_api::mvccpb::Event;

use super::request::Request;

/// Why these two answers may differ, if they may.
pub(super) fn deliberate(request: &Request, left: &str, right: &str) -> Option<&'static str> {
    match request {
        Request::Downgrade(_) if right.contains("Unimplemented") && !left.starts_with("error") => {
            Some("there is no older format to go back to, so a valid downgrade is refused")
        }
        Request::HashKv(_)
            if right.contains("required revision has been compacted") && !left.starts_with("error") =>
        {
            Some("a hash of a compacted revision is refused; etcd remembers a few of them")
        }
        _ => None,
    }
}

/// etcd keeps the hashes it computed during its last compactions and answers from them, with what was compacted *then*;
/// and it repeats a negative revision. Only the present state is compared.
pub(super) fn hash_is_of_the_past(requested: i64, compacted: i64) -> bool {
    requested < 0 || requested == compacted
}

/// Events at the compacted revision itself, which a watcher may still ask for. etcd has dropped what lay before each
/// key's last change: predecessors, and changes that the same revision overwrote. Vetch still has both. What remains
/// for comparison is the last change of each key.
pub(super) fn only_last_changes(events: &mut Vec<Event>, compacted: i64) {
    let name = |event: &Event| event.kv.as_ref().map(|kv| (kv.key.clone(), kv.mod_revision));
    let names: Vec<_> = events.iter().map(name).collect();
    let mut index = 0;
    events.retain_mut(|event| {
        let own = &names[index];
        index += 1;
        if own.as_ref().is_none_or(|(_, revision)| *revision > compacted) {
            return true;
        }
        event.prev_kv = None;
        !names[index..].contains(own)
    });
}
