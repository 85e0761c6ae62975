//! `/metrics`: Prometheus text.

use std::sync::Arc;

use http::{HeaderValue, Response, StatusCode};
use tonic::body::Body;

use crate::http::{Shared, answer};
use crate::metrics::{Held, page};

pub(in crate::http) async fn answer(shared: &Arc<Shared>) -> Response<Body> {
    let format = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8; escaping=underscores");
    let of = Arc::clone(shared);
    let made = shared.offload.run(move || {
        let held = Held { clients: &of.budget, watching: &of.watching, tokens: of.grpc.tokens() };
        page(&of.metrics, &of.node, &held)
    });
    match made.await {
        Some(page) => answer::whole(StatusCode::OK, format, page),
        None => answer::failure(StatusCode::INTERNAL_SERVER_ERROR, "the page could not be made"),
    }
}
