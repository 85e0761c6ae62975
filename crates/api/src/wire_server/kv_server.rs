//! The `KV` service.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio_stream::Stream;
use tonic::body::Body;
use tonic::codegen::{Body as HttpBody, Service, StdError, http};
use tonic::server::NamedService;
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

use super::codec::WireCodec;
use super::method::{Answer, Limits, method, unknown_method};
use crate::pb;
use crate::wire::{
    DeleteRangeResponse, PutResponse, RangeResponse, RangeStreamResponse, TxnResponse, WireKv,
};

/// The name the service registers under.
pub const SERVICE_NAME: &str = "etcdserverpb.KV";

/// The implementation of the RPCs. Implementations may write each method as an `async fn`.
pub trait Kv: Send + Sync + 'static {
    /// The key-values in responses.
    type K: WireKv;

    /// The parts of a response of RangeStream.
    type RangeStreamStream: Stream<Item = Result<RangeStreamResponse<Self::K>, Status>> + Send + 'static;

    fn range(
        &self,
        request: Request<pb::RangeRequest>,
    ) -> impl Future<Output = Result<Response<RangeResponse<Self::K>>, Status>> + Send;

    fn range_stream(
        &self,
        request: Request<pb::RangeRequest>,
    ) -> impl Future<Output = Result<Response<Self::RangeStreamStream>, Status>> + Send;

    fn put(
        &self,
        request: Request<pb::PutRequest>,
    ) -> impl Future<Output = Result<Response<PutResponse<Self::K>>, Status>> + Send;

    fn delete_range(
        &self,
        request: Request<pb::DeleteRangeRequest>,
    ) -> impl Future<Output = Result<Response<DeleteRangeResponse<Self::K>>, Status>> + Send;

    fn txn(
        &self,
        request: Request<pb::TxnRequest>,
    ) -> impl Future<Output = Result<Response<TxnResponse<Self::K>>, Status>> + Send;

    fn compact(
        &self,
        request: Request<pb::CompactionRequest>,
    ) -> impl Future<Output = Result<Response<pb::CompactionResponse>, Status>> + Send;
}

/// Serves a [`Kv`].
#[derive(Debug)]
pub struct KvServer<T> {
    inner: Arc<T>,
    limits: Limits,
}

impl<T> KvServer<T> {
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

    /// Refuses to send responses that are longer. There is no limit by default.
    #[must_use]
    pub fn max_encoding_message_size(mut self, limit: usize) -> Self {
        self.limits.encoding = Some(limit);
        self
    }
}

// Written out because deriving it would ask for `T: Clone`.
impl<T> Clone for KvServer<T> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), limits: self.limits }
    }
}

impl<T> NamedService for KvServer<T> {
    const NAME: &'static str = SERVICE_NAME;
}

/// A method of `$inner` as the function that handles its RPC.
macro_rules! handler {
    ($inner:ident, $name:ident) => {
        method(move |request| {
            let inner = Arc::clone(&$inner);
            async move { inner.$name(request).await }
        })
    };
}

impl<T, B> Service<http::Request<B>> for KvServer<T>
where
    T: Kv,
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
        let limits = self.limits;
        match request.uri().path() {
            "/etcdserverpb.KV/Range" => limits.unary(WireCodec::default(), handler!(inner, range), request),
            "/etcdserverpb.KV/RangeStream" => {
                limits.server_streaming(WireCodec::default(), handler!(inner, range_stream), request)
            }
            "/etcdserverpb.KV/Put" => limits.unary(WireCodec::default(), handler!(inner, put), request),
            "/etcdserverpb.KV/DeleteRange" => {
                limits.unary(WireCodec::default(), handler!(inner, delete_range), request)
            }
            "/etcdserverpb.KV/Txn" => limits.unary(WireCodec::default(), handler!(inner, txn), request),
            "/etcdserverpb.KV/Compact" => {
                limits.unary(ProstCodec::default(), handler!(inner, compact), request)
            }
            path => unknown_method(SERVICE_NAME, path),
        }
    }
}
