//! Building blocks of HTTP responses.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::Full;
use tonic::body::Body;

const NOSNIFF: HeaderName = HeaderName::from_static("x-content-type-options");
pub(super) const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
pub(super) const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A response with a whole body.
pub(super) fn whole(status: StatusCode, content_type: HeaderValue, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::new(Full::new(body.into())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

/// Plain text that no browser may interpret as another type.
pub(super) fn plain(status: StatusCode, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = whole(status, TEXT, body);
    response.headers_mut().insert(NOSNIFF, HeaderValue::from_static("nosniff"));
    response
}

/// An error page: one line of text.
pub(super) fn failure(status: StatusCode, message: &str) -> Response<Body> {
    plain(status, format!("{message}\n"))
}

pub(super) fn not_found() -> Response<Body> {
    failure(StatusCode::NOT_FOUND, "404 page not found")
}

/// For pages that support only GET.
pub(super) fn only_get() -> Response<Body> {
    let mut response = failure(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed");
    response.headers_mut().insert(http::header::ALLOW, HeaderValue::from_static("GET"));
    response
}
