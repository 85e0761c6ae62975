//! The metadata that etcd checks for every RPC, before any service.
//!
//! With `hasleader` a call is refused by a server that knows of no leader, so that clients go to
//! another one. A single server is always the leader.

use http::HeaderMap;
use vetch_api::EtcdError;

#[cfg(test)]
mod tests;

/// The client library's version; it labels a counter, so it has to be text.
const CLIENT_API_VERSION: &str = "client-api-version";

/// A call is refused, and a stream ends, if there is no leader.
const HAS_LEADER: &str = "hasleader";

pub(super) fn wants_leader(headers: &HeaderMap) -> bool {
    headers.get(HAS_LEADER).is_some_and(|value| value == "true")
}

pub(super) fn check(headers: &HeaderMap) -> Result<(), EtcdError> {
    match headers.get(CLIENT_API_VERSION) {
        Some(version) if std::str::from_utf8(version.as_bytes()).is_err() => {
            Err(EtcdError::InvalidClientAPIVersion)
        }
        _ => Ok(()),
    }
}
