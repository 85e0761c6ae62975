//! Access over HTTP: the host whitelist against DNS rebinding, and cross-origin headers.
//!
//! gRPC requests are not checked, as in etcd: a browser cannot send them.

use std::collections::HashSet;

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN, HOST, HeaderMap,
    HeaderValue, ORIGIN,
};
use http::{Request, Response, StatusCode};
use tonic::body::Body;

use super::answer;

/// Allowed host names. Empty, or with `*`: all.
#[derive(Debug, Clone, Default)]
pub struct Whitelist {
    names: HashSet<String>,
}

impl Whitelist {
    /// From a comma-separated flag.
    pub fn parse(list: &str) -> Whitelist {
        let names = list.split(',').map(str::trim).filter(|n| !n.is_empty() && *n != "*");
        match list.split(',').any(|n| n.trim() == "*") {
            true => Whitelist::default(),
            false => Whitelist { names: names.map(str::to_string).collect() },
        }
    }

    fn allows(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.contains(name)
    }
}

#[derive(Debug, Clone, Default)]
pub struct Access {
    pub origins: Whitelist,
    pub hosts: Whitelist,
}

impl Access {
    /// The refusal of a request whose Host is not whitelisted.
    pub(super) fn refusal<B>(&self, request: &Request<B>) -> Option<Response<Body>> {
        let host = hostname(request);
        if self.hosts.allows(host) {
            return None;
        }
        tracing::warn!(host, "rejecting HTTP request to prevent DNS rebinding attacks");
        let text = format!(
            "\nThis server got your request, but its Host header names a host it does not know.\n\n\
             Either add the name to the flag, as in --host-whitelist {host:?}, or use a name that is in it.\n\
             The check is there against DNS rebinding (CVE-2018-5702).\n"
        );
        Some(answer::failure(StatusCode::MISDIRECTED_REQUEST, &text))
    }

    /// The headers that let a page from `origin` read the response, if it may.
    pub(super) fn cors_headers(&self, request: &HeaderMap) -> Option<HeaderValue> {
        if self.origins.names.is_empty() {
            return Some(HeaderValue::from_static("*"));
        }
        let origin = request.get(ORIGIN)?;
        self.origins.allows(origin.to_str().ok()?).then(|| origin.clone())
    }
}

pub(super) fn add_cors(response: &mut HeaderMap, origin: HeaderValue) {
    let methods = HeaderValue::from_static("POST, GET, OPTIONS, PUT, DELETE");
    let headers = HeaderValue::from_static("accept, content-type, authorization");
    response.insert(ACCESS_CONTROL_ALLOW_METHODS, methods);
    response.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    response.insert(ACCESS_CONTROL_ALLOW_HEADERS, headers);
}

/// The requested host, without its port.
fn hostname<B>(request: &Request<B>) -> &str {
    let header = request.headers().get(HOST).and_then(|h| h.to_str().ok());
    let authority = header.or_else(|| request.uri().authority().map(|a| a.as_str())).unwrap_or_default();
    match authority.rsplit_once(':') {
        // A bare IPv6 address is bracketed, so a colon inside brackets is not a port's.
        Some((host, port)) if !port.contains(']') => host.trim_start_matches('[').trim_end_matches(']'),
        _ => authority,
    }
}

#[cfg(test)]
mod tests;
