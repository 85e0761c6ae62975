//! The `Watch` service.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio_stream::Stream;
use tonic::body::Body;
use tonic::codegen::{Body as HttpBody, Service, StdError, http};
use tonic::server::NamedService;
use tonic::{Request, Response, Status, Streaming};

use super::codec::WireCodec;
use super::method::{Answer, Limits, method, unknown_method};
use crate::pb;
use crate::wire::{WatchResponse, WireKv};

/// The name the service registers under.
pub const SERVICE_NAME: &str = "etcdserverpb.Watch";

/// The implementation of the RPC. Implementations may write the method as an `async fn`.
pub trait Watch: Send + Sync + 'static {
    /// The key-values in events.
    type K: WireKv;

    /// The frames of one stream.
    type WatchStream: Stream<Item = Result<WatchResponse<Self::K>, Status>> + Send + 'static;

    fn watch(
        &self,
        request: Request<Streaming<pb::WatchRequest>>,
    ) -> impl Future<Output = Result<Response<Self::WatchStream>, Status>> + Send;
}

/// Serves a [`Watch`].
#[derive(Debug)]
pub struct WatchServer<T> {
    inner: Arc<T>,
    limits: Limits,
}

impl<T> WatchServer<T> {
    pub fn new(inner: T) -> Self {
        Self::from_arc(Arc::new(inner))
    }

    pub fn from_arc(inner: Arc<T>) -> Self {
        Self { inner, limits: Limits::default() }
    }

    /// Refuses requests that are longer. tonic's default is 4 MiB.
    #[must_use]
    pub fn max_decoding_message_size(mut self, limit: usize) -> Self {
        self.limits.decoding = Some(limit);
        self
    }

    /// Refuses to send frames that are longer. There is no limit by default.
    #[must_use]
    pub fn max_encoding_message_size(mut self, limit: usize) -> Self {
        self.limits.encoding = Some(limit);
        self
    }
}

// Written out because deriving it would ask for `T: Clone`.
impl<T> Clone for WatchServer<T> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), limits: self.limits }
    }
}

impl<T> NamedService for WatchServer<T> {
    const NAME: &'static str = SERVICE_NAME;
}

impl<T, B> Service<http::Request<B>> for WatchServer<T>
where
    T: Watch,
    B: HttpBody + Send + 'static,
    B::Error: Into<StdError> + Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Answer;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Answer {
        let inner = Arc::clone(&self.inner);
        match request.uri().path() {
            "/etcdserverpb.Watch/Watch" => {
                let watch = method(move |request| {
                    let inner = Arc::clone(&inner);
                    async move { inner.watch(request).await }
                });
                self.limits.streaming(WireCodec::default(), watch, request)
            }
            path => unknown_method(SERVICE_NAME, path),
        }
    }
}
