//! The JSON gateway: every RPC that has an HTTP path, as a POST with JSON in and out.
//!
//! A request is translated to a gRPC request for the same services, in process, and the response is
//! translated back. So the two protocols cannot differ in anything but their encoding.
//!
//! Streams answer one JSON object per line. A request stream is JSON values one after the other in
//! a body that may stay open, or the messages of a websocket.
//!
//! Collected bodies, requests in progress and translated responses are charged to the client, and
//! refused if too much is held.

mod codec;
mod frame;
mod metadata;
mod refusal;
mod stream;
mod unary;
mod websocket;

use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Response};
use tonic::Status;
use tonic::body::Body;
use vetch_api::EtcdError;
use vetch_api::gateway::{Kind, Route, route};
use vetch_http2::{Holdings, TooMuchHeld};

use super::Timeouts;
use super::connection_context::ConnectionContext;
use crate::grpc::Rpc;
use crate::offload::{OFFLOAD_LEN_MIN, Offload};
use crate::remote::Remote;
use codec::Codec;
use frame::Messages;
use vetch_metrics::ServerMetrics;

pub(super) async fn answer(mut request: Request<Body>, context: &ConnectionContext) -> Response<Body> {
    if websocket::is_wanted(&request) {
        return websocket::upgrade(&mut request, context);
    }
    serve(request, &Services::from_context(context)).await
}

/// What a gateway request needs of the server, owned, so that it can outlive the connection's
/// future.
#[derive(Clone)]
struct Services {
    grpc: Rpc,
    metrics: Arc<ServerMetrics>,
    max_json_bytes: usize,
    timeouts: Timeouts,
    offload: Offload,
    /// The account of the client.
    holdings: Holdings,
    remote: Remote,
}

impl Services {
    fn from_context(context: &ConnectionContext) -> Services {
        let shared = &context.shared;
        Services {
            grpc: shared.grpc.clone(),
            metrics: shared.metrics.clone(),
            max_json_bytes: shared.settings.max_json_bytes,
            timeouts: shared.settings.timeouts,
            offload: shared.offload.clone(),
            holdings: context.holdings.clone(),
            remote: context.remote.clone(),
        }
    }

    /// Runs `work` on a text or message of `len` bytes, on another thread if it is long.
    async fn translate<T, W>(&self, len: usize, work: W) -> Result<T, Status>
    where
        T: Send + 'static,
        W: FnOnce() -> Result<T, Status> + Send + 'static,
    {
        if len < OFFLOAD_LEN_MIN {
            return work();
        }
        let failed = || Err(Status::internal("the translation failed"));
        self.offload.run(work).await.unwrap_or_else(failed)
    }

    async fn call(&self, mut request: Request<Body>) -> Messages {
        request.extensions_mut().insert(self.holdings.clone());
        request.extensions_mut().insert(self.remote.clone());
        Messages::from_answer(self.metrics.grpc.observed(request, |request| self.grpc.reply(request)).await)
    }
}

async fn serve(request: Request<Body>, services: &Services) -> Response<Body> {
    let Some(route) = route(request.uri().path()) else {
        return refusal::whole(&Status::not_found("Not Found"));
    };
    if method(&request) != Method::POST {
        return refusal::whole(&Status::unimplemented("Method Not Allowed"));
    }
    let timeout = match metadata::timeout(request.headers()) {
        Ok(timeout) => timeout,
        Err(status) => return refusal::whole(&status),
    };
    let codec = Codec::for_route(route);
    let answered = async {
        match route.kind {
            Kind::Unary => unary::answer(request, route, codec, services).await,
            Kind::ServerStream => stream::answer_one(request, route, codec, services).await,
            Kind::Bidi => stream::answer_many(request, route, codec, services).await,
        }
    };
    with_timeout(timeout, answered).await
}

/// The method, or the override of a client that can only send POST.
fn method<B>(request: &Request<B>) -> Method {
    let meant = request.headers().get("x-http-method-override");
    let meant = meant.filter(|_| request.method() == Method::POST);
    meant.and_then(|m| Method::from_bytes(m.as_bytes()).ok()).unwrap_or_else(|| request.method().clone())
}

async fn with_timeout(
    timeout: Option<Duration>,
    answer: impl Future<Output = Response<Body>>,
) -> Response<Body> {
    match timeout {
        None => answer.await,
        Some(timeout) => match tokio::time::timeout(timeout, answer).await {
            Ok(response) => response,
            Err(_) => refusal::whole(&Status::deadline_exceeded("context deadline exceeded")),
        },
    }
}

/// The response if too much is held: etcd's "too many requests".
fn overloaded(_: TooMuchHeld) -> Status {
    Status::resource_exhausted(EtcdError::RequestTooManyRequests.text())
}

/// The gRPC request for a gateway request.
fn grpc_request<B>(original: &Request<B>, route: &Route, body: Body) -> Request<Body> {
    let mut request = Request::new(body);
    *request.method_mut() = Method::POST;
    *request.version_mut() = http::Version::HTTP_2;
    *request.uri_mut() = http::Uri::from_static(route.rpc);
    metadata::copy(original.headers(), request.headers_mut());
    request
}
