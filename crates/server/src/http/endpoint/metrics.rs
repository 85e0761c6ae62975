//! `/metrics`: Prometheus text.

use std::sync::Arc;

use http::{HeaderValue, Response, StatusCode};
use tonic::body::Body;

use crate::http::{ServerState, answer};
use vetch_metrics::{Held, page};

pub(in crate::http) async fn answer(shared: &Arc<ServerState>) -> Response<Body> {
    let format = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8; escaping=underscores");
    let state = Arc::clone(shared);
    let made = shared.offload.run(move || {
        let held = Held { clients: &state.budget, watching: &state.watching, tokens: state.grpc.tokens() };
        page(&state.metrics, &state.node, &held)
    });
    match made.await {
        Some(page) => answer::whole(StatusCode::OK, format, page),
        None => answer::failure(StatusCode::INTERNAL_SERVER_ERROR, "the page could not be made"),
    }
}
