//! What is looked at before any service: the metadata that etcd checks for every RPC.
//!
//! `hasleader` asks to be refused by a server that knows of no leader, so that clients go to
//! another one. A single server is always its own.

use http::HeaderMap;
use vetch_api::EtcdError;

#[cfg(test)]
mod tests;

/// Names the client library's version; counted, so it has to be text.
const CLIENT_API_VERSION: &str = "client-api-version";

/// Says that a call is to be refused, and a stream to end, where there is no leader.
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
