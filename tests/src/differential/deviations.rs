//! Differences that are there on purpose. Each has a line in `docs/compatibility.md`; nothing else is forgiven.

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

/// etcd keeps the hashes it computed during its last compactions and answers from them, with what was compacted *then*;
/// and it repeats a negative revision. Only the present state is compared.
pub(super) fn hash_is_of_the_past(requested: i64, compacted: i64) -> bool {
    requested < 0 || requested == compacted
}

/// An event at or below the compacted revision: etcd cannot read its predecessor any more, Vetch still can, so the
/// predecessor is not compared.
pub(super) fn predecessor_is_compacted(mod_revision: i64, compacted: i64) -> bool {
    mod_revision <= compacted
}
