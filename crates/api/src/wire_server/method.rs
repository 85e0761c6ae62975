//! Shared by the two servers: running one RPC, and refusing an unknown one.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tonic::body::Body;
use tonic::codec::Codec;
use tonic::codegen::{Body as HttpBody, Service, StdError, http};
use tonic::server::{Grpc, ServerStreamingService, StreamingService, UnaryService};
use tonic::{Request, Response, Status};

/// What a server's `call` returns.
pub(super) type Answer = Pin<Box<dyn Future<Output = Result<http::Response<Body>, Infallible>> + Send>>;

/// A function as a tonic service.
pub(super) struct Method<F>(F);

/// Lets `call` handle one RPC.
pub(super) fn method<F, Fut, Q, R>(call: F) -> Method<F>
where
    F: FnMut(Request<Q>) -> Fut,
    Fut: Future<Output = Result<Response<R>, Status>>,
{
    Method(call)
}

impl<F, Fut, Q, R> Service<Request<Q>> for Method<F>
where
    F: FnMut(Request<Q>) -> Fut,
    Fut: Future<Output = Result<Response<R>, Status>>,
{
    type Response = Response<R>;
    type Error = Status;
    type Future = Fut;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Q>) -> Fut {
        (self.0)(request)
    }
}

/// The settable limits of a server; `None` leaves tonic's own.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Limits {
    pub(super) decoding: Option<usize>,
    pub(super) encoding: Option<usize>,
}

impl Limits {
    fn grpc<C: Codec>(self, codec: C) -> Grpc<C> {
        Grpc::new(codec).apply_max_message_size_config(self.decoding, self.encoding)
    }

    pub(super) fn unary<C, S, B>(self, codec: C, method: S, request: http::Request<B>) -> Answer
    where
        C: Codec + Send + 'static,
        C::Encode: Sync,
        S: UnaryService<C::Decode, Response = C::Encode> + Send + 'static,
        S::Future: Send,
        B: HttpBody + Send + 'static,
        B::Error: Into<StdError> + Send,
    {
        Box::pin(async move { Ok(self.grpc(codec).unary(method, request).await) })
    }

    pub(super) fn server_streaming<C, S, B>(self, codec: C, method: S, request: http::Request<B>) -> Answer
    where
        C: Codec + Send + 'static,
        S: ServerStreamingService<C::Decode, Response = C::Encode> + Send + 'static,
        S::Future: Send,
        S::ResponseStream: Send + 'static,
        B: HttpBody + Send + 'static,
        B::Error: Into<StdError> + Send,
    {
        Box::pin(async move { Ok(self.grpc(codec).server_streaming(method, request).await) })
    }

    pub(super) fn streaming<C, S, B>(self, codec: C, method: S, request: http::Request<B>) -> Answer
    where
        C: Codec + Send + 'static,
        S: StreamingService<C::Decode, Response = C::Encode> + Send + 'static,
        S::Future: Send,
        S::ResponseStream: Send + 'static,
        B: HttpBody + Send + 'static,
        B::Error: Into<StdError> + Send,
    {
        Box::pin(async move { Ok(self.grpc(codec).streaming(method, request).await) })
    }
}

/// The response for an unknown method of `service`.
pub(super) fn unknown_method(service: &str, path: &str) -> Answer {
    let method = path.rsplit('/').next().unwrap_or_default();
    let status = Status::unimplemented(format!("unknown method {method} for service {service}"));
    Box::pin(std::future::ready(Ok(status.into_http())))
}
