//! `/metrics`: Prometheus text.

use http::{HeaderValue, Response, StatusCode};
use tonic::body::Body;

use crate::http::{Shared, answer};
use crate::metrics::{Held, page};

pub(in crate::http) fn answer(shared: &Shared) -> Response<Body> {
    let format = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8; escaping=underscores");
    let held = Held { clients: &shared.budget, watching: &shared.watching, tokens: shared.grpc.tokens() };
    answer::whole(StatusCode::OK, format, page(&shared.metrics, &shared.node, &held))
}
