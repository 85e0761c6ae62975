//! What is looked at before any service: the metadata that etcd checks for every RPC.
//!
//! `hasleader` needs no check: a single server is always its own leader.

use http::HeaderMap;
use vetch_api::EtcdError;

#[cfg(test)]
mod tests;

/// Names the client library's version; counted, so it has to be text.
const CLIENT_API_VERSION: &str = "client-api-version";

pub(super) fn check(headers: &HeaderMap) -> Result<(), EtcdError> {
    match headers.get(CLIENT_API_VERSION) {
        Some(version) if std::str::from_utf8(version.as_bytes()).is_err() => {
            Err(EtcdError::InvalidClientAPIVersion)
        }
        _ => Ok(()),
    }
}
