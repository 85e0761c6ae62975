//! The credentials in a request.

use http::{HeaderMap, HeaderValue};
use tonic::Request;

use crate::tls::PeerIdentity;

/// A token, and the name in the connection's certificate. Taken from a request before it is
/// validated, because malformed requests are refused first, whatever the user.
#[derive(Clone, Default)]
pub struct Credentials {
    token: Option<HeaderValue>,
    peer: Option<PeerIdentity>,
}

/// The metadata keys of tokens: gRPC clients use the first, the JSON gateway the second.
const TOKEN: &str = "token";
const AUTHORIZATION: &str = "authorization";
const BEARER: &[u8] = b"Bearer ";

impl Credentials {
    pub fn new(token: Option<HeaderValue>, peer: Option<PeerIdentity>) -> Credentials {
        Credentials { token, peer }
    }

    pub fn from_request<T>(request: &Request<T>) -> Credentials {
        let peer = request.extensions().get::<PeerIdentity>().cloned();
        Credentials { token: token(request.metadata().as_ref()), peer }
    }

    /// From the headers alone, without the connection.
    pub fn from_headers(headers: &HeaderMap) -> Credentials {
        Credentials { token: token(headers), peer: None }
    }

    pub fn split<T>(request: Request<T>) -> (Credentials, T) {
        (Credentials::from_request(&request), request.into_inner())
    }

    /// The token itself; empty if it is not text, and so not valid.
    pub(super) fn token(&self) -> Option<&str> {
        let token = self.token.as_ref()?.as_bytes();
        let token = token.strip_prefix(BEARER).unwrap_or(token);
        Some(std::str::from_utf8(token).unwrap_or_default())
    }

    pub(super) fn peer(&self) -> Option<&PeerIdentity> {
        self.peer.as_ref()
    }
}

fn token(headers: &HeaderMap) -> Option<HeaderValue> {
    headers.get(TOKEN).or_else(|| headers.get(AUTHORIZATION)).cloned()
}
