//! The KV service.

use std::pin::Pin;

use futures_util::{Stream, stream};
use prost::Message;
use tonic::{Request, Response, Status};
use vetch_api::wire_server::kv_server;
use vetch_api::{EtcdError, pb, wire};
use vetch_node::RangeStream;
use vetch_node::types::RangeChunk;
use vetch_translate::Kv;

use super::authorise::RequiredPermission;
use super::service_context::ServiceContext;
use super::status;
use crate::auth::Credentials;

type GrpcResult<T> = Result<Response<T>, Status>;

pub(super) struct KvService(pub(super) ServiceContext);

impl kv_server::Kv for KvService {
    type K = Kv;
    type RangeStreamStream =
        Pin<Box<dyn Stream<Item = Result<wire::RangeStreamResponse<Kv>, Status>> + Send>>;

    async fn range(&self, request: Request<pb::RangeRequest>) -> GrpcResult<wire::RangeResponse<Kv>> {
        let (credentials, request) = Credentials::split(request);
        Ok(Response::new(self.answer_range(&credentials, request).await?))
    }

    async fn range_stream(&self, request: Request<pb::RangeRequest>) -> GrpcResult<Self::RangeStreamStream> {
        let (credentials, request) = Credentials::split(request);
        let range = vetch_translate::range(request).map_err(status::store)?;
        if !range.has_default_order() {
            return Err(status::etcd(EtcdError::RangeStreamSort));
        }
        if range.has_revision_filters() {
            return Err(status::etcd(EtcdError::RangeStreamFilter));
        }
        let node = self.0.authorise(&credentials, RequiredPermission::CheckedByNode)?;
        let chunks = node.range_stream(range, self.0.settings.max_request_bytes);
        Ok(Response::new(Box::pin(parts(self.0.clone(), chunks))))
    }

    async fn put(&self, request: Request<pb::PutRequest>) -> GrpcResult<wire::PutResponse<Kv>> {
        let (credentials, request) = Credentials::split(request);
        Ok(Response::new(self.answer_put(&credentials, request).await?))
    }

    async fn delete_range(
        &self,
        request: Request<pb::DeleteRangeRequest>,
    ) -> GrpcResult<wire::DeleteRangeResponse<Kv>> {
        let (credentials, request) = Credentials::split(request);
        Ok(Response::new(self.answer_delete_range(&credentials, request).await?))
    }

    async fn txn(&self, request: Request<pb::TxnRequest>) -> GrpcResult<wire::TxnResponse<Kv>> {
        let (credentials, request) = Credentials::split(request);
        Ok(Response::new(self.answer_txn(&credentials, request).await?))
    }

    async fn compact(&self, request: Request<pb::CompactionRequest>) -> GrpcResult<pb::CompactionResponse> {
        let (node, request) = self.0.authorise_request(request, RequiredPermission::Root)?;
        let revision = node.compact(request.revision, request.physical).await.map_err(status::node)?;
        Ok(Response::new(pb::CompactionResponse { header: self.0.header(revision) }))
    }
}

/// The common end of the fast and the slow path.
impl KvService {
    pub(super) async fn answer_range(
        &self,
        credentials: &Credentials,
        request: pb::RangeRequest,
    ) -> Result<wire::RangeResponse<Kv>, Status> {
        let range = vetch_translate::range(request).map_err(status::store)?;
        let node = self.0.authorise(credentials, RequiredPermission::CheckedByNode)?;
        let response = node.range(range).await.map_err(status::node)?;
        let header = self.0.header(response.revision);
        Ok(vetch_translate::ranged(response, header))
    }

    pub(super) async fn answer_put(
        &self,
        credentials: &Credentials,
        request: pb::PutRequest,
    ) -> Result<wire::PutResponse<Kv>, Status> {
        let len = request.encoded_len();
        let put = vetch_translate::put(request).map_err(status::store)?;
        let node = self.0.authorise(credentials, RequiredPermission::CheckedByNode)?;
        self.0.limit(&node, len)?;
        let response = node.put(put).await.map_err(status::node)?;
        let header = self.0.header(response.revision);
        Ok(vetch_translate::put_done(response, header))
    }

    pub(super) async fn answer_delete_range(
        &self,
        credentials: &Credentials,
        request: pb::DeleteRangeRequest,
    ) -> Result<wire::DeleteRangeResponse<Kv>, Status> {
        let len = request.encoded_len();
        let delete = vetch_translate::delete_range(request).map_err(status::store)?;
        let node = self.0.authorise(credentials, RequiredPermission::CheckedByNode)?;
        self.0.limit(&node, len)?;
        let response = node.delete_range(delete).await.map_err(status::node)?;
        let header = self.0.header(response.revision);
        Ok(vetch_translate::deleted(response, header))
    }

    pub(super) async fn answer_txn(
        &self,
        credentials: &Credentials,
        request: pb::TxnRequest,
    ) -> Result<wire::TxnResponse<Kv>, Status> {
        let len = request.encoded_len();
        let txn = vetch_translate::txn(request, self.0.settings.max_txn_ops).map_err(status::store)?;
        let node = self.0.authorise(credentials, RequiredPermission::CheckedByNode)?;
        if !txn.is_read_only() {
            self.0.limit(&node, len)?;
        }
        let response = node.txn(txn).await.map_err(status::node)?;
        let header = self.0.header(response.revision);
        Ok(vetch_translate::txn_done(response, header))
    }
}

/// The parts of a streamed range. The next chunk is read when the client's window has room for it,
/// so a slow client costs one chunk of memory.
fn parts(
    context: ServiceContext,
    chunks: RangeStream,
) -> impl Stream<Item = Result<wire::RangeStreamResponse<Kv>, Status>> + Send {
    stream::unfold(Some((context, chunks)), async |state| {
        let (context, mut chunks) = state?;
        match chunks.next().await? {
            Ok(chunk) => {
                let part = part(&context, chunk);
                Some((Ok(part), Some((context, chunks))))
            }
            Err(error) => Some((Err(status::node(error)), None)),
        }
    })
}

/// Header, count and more are in the last part only.
fn part(context: &ServiceContext, chunk: RangeChunk) -> wire::RangeStreamResponse<Kv> {
    let kvs = vetch_translate::wire_kvs(chunk.kvs);
    let range_response = match chunk.end {
        None => wire::RangeResponse { header: None, kvs, more: false, count: 0 },
        Some(end) => wire::RangeResponse {
            header: context.header(end.revision),
            kvs,
            more: end.more,
            count: end.count,
        },
    };
    wire::RangeStreamResponse { range_response }
}
