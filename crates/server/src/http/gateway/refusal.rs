//! Errors as JSON.

use http::{HeaderValue, Response, StatusCode, header::WWW_AUTHENTICATE};
use tonic::Status;
use tonic::body::Body;
use vetch_api::gateway::http_status;

use crate::http::answer;

/// The response of a request that failed before anything was sent.
pub(super) fn whole(status: &Status) -> Response<Body> {
    with_body(status, body(status))
}

/// The same for a stream, whose errors have an envelope and a newline.
pub(super) fn whole_stream(status: &Status) -> Response<Body> {
    with_body(status, line(status))
}

/// The last line of a stream that failed.
pub(super) fn line(status: &Status) -> String {
    format!("{{\"error\":{}}}\n", body(status))
}

fn body(status: &Status) -> String {
    let message = serde_json::Value::from(status.message());
    let mut body = format!("{{\"code\":{}", i32::from(status.code()));
    if !status.message().is_empty() {
        body.push_str(&format!(",\"message\":{message}"));
    }
    body.push('}');
    body
}

fn with_body(status: &Status, body: String) -> Response<Body> {
    let code = StatusCode::from_u16(http_status(status.code())).expect("the table holds valid statuses");
    let mut response = answer::whole(code, answer::JSON, body);
    if status.code() == tonic::Code::Unauthenticated
        && let Ok(challenge) = HeaderValue::from_str(status.message())
    {
        response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    }
    response
}
