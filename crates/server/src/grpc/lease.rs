//! The Lease service.

use std::pin::Pin;

use futures_util::{Stream, stream};
use tonic::{Request, Response, Status, Streaming};
use vetch_api::pb::lease_server;
use vetch_api::{EtcdError, pb};

use super::authorise::RequiredPermission;
use super::service_context::ServiceContext;
use super::{status, unary_reply};
use crate::auth::Credentials;

type GrpcResult<T> = Result<Response<T>, Status>;

/// The time to live of a lease that does not exist.
const NO_LEASE: i64 = -1;

pub(super) struct LeaseService(pub(super) ServiceContext);

#[tonic::async_trait]
impl lease_server::Lease for LeaseService {
    type LeaseKeepAliveStream =
        Pin<Box<dyn Stream<Item = Result<pb::LeaseKeepAliveResponse, Status>> + Send>>;

    async fn lease_grant(
        &self,
        request: Request<pb::LeaseGrantRequest>,
    ) -> GrpcResult<pb::LeaseGrantResponse> {
        let (node, request) = self.0.authorise_request(request, RequiredPermission::User)?;
        let granted = node.lease_grant(request.id, request.ttl).await.map_err(status::node)?;
        Ok(Response::new(pb::LeaseGrantResponse {
            header: self.0.header(granted.revision),
            id: granted.id,
            ttl: granted.ttl,
            error: String::new(),
        }))
    }

    async fn lease_revoke(
        &self,
        request: Request<pb::LeaseRevokeRequest>,
    ) -> GrpcResult<pb::LeaseRevokeResponse> {
        let (node, request) = self.0.authorise_request(request, RequiredPermission::User)?;
        let revision = node.lease_revoke(request.id).await.map_err(status::node)?;
        Ok(Response::new(pb::LeaseRevokeResponse { header: self.0.header(revision) }))
    }

    async fn lease_keep_alive(
        &self,
        request: Request<Streaming<pb::LeaseKeepAliveRequest>>,
    ) -> GrpcResult<Self::LeaseKeepAliveStream> {
        let (credentials, requests) = Credentials::split(request);
        let state = KeepAlive { context: self.0.clone(), credentials, requests };
        let answers = stream::unfold(Some(state), async |state| {
            let mut state = state?;
            match state.next().await? {
                Ok(answer) => Some((Ok(answer), Some(state))),
                // The first failure ends the stream.
                Err(status) => Some((Err(status), None)),
            }
        });
        Ok(Response::new(Box::pin(answers)))
    }

    async fn lease_time_to_live(
        &self,
        request: Request<pb::LeaseTimeToLiveRequest>,
    ) -> GrpcResult<pb::LeaseTimeToLiveResponse> {
        let holdings = unary_reply::holdings(&request);
        let (node, request) = self.0.authorise_request(request, RequiredPermission::User)?;
        let permit = if request.keys { self.0.list_permit().await } else { None };
        let expected = if request.keys { node.lease_keys_estimate(request.id) } else { 0 };
        let reserved = unary_reply::reserve(holdings.as_ref(), expected)?;
        let info = node.lease_time_to_live(request.id, request.keys).await.map_err(status::node)?;
        let mut response = pb::LeaseTimeToLiveResponse {
            header: self.0.header_now(),
            id: request.id,
            ttl: NO_LEASE,
            ..Default::default()
        };
        if let Some(info) = info {
            response.header = self.0.header(info.revision);
            response.ttl = info.ttl;
            response.granted_ttl = info.granted_ttl;
            response.keys = info.keys.iter().map(|version| version.key().to_vec().into()).collect();
        }
        drop(reserved);
        unary_reply::charged(holdings.as_ref(), permit, response)
    }

    async fn lease_leases(
        &self,
        request: Request<pb::LeaseLeasesRequest>,
    ) -> GrpcResult<pb::LeaseLeasesResponse> {
        let holdings = unary_reply::holdings(&request);
        let (node, _) = self.0.authorise_request(request, RequiredPermission::CheckedByNode)?;
        let permit = self.0.list_permit().await;
        let leases = node.leases().await.map_err(status::node)?;
        let leases = leases.into_iter().map(|id| pb::LeaseStatus { id }).collect();
        let response = pb::LeaseLeasesResponse { header: self.0.header_now(), leases };
        unary_reply::charged(holdings.as_ref(), permit, response)
    }
}

/// One stream of renewals, answered one by one and in order: while a client does not read its
/// responses, its requests are not read.
struct KeepAlive {
    context: ServiceContext,
    credentials: Credentials,
    requests: Streaming<pb::LeaseKeepAliveRequest>,
}

impl KeepAlive {
    /// None when the client has sent its last request.
    async fn next(&mut self) -> Option<Result<pb::LeaseKeepAliveResponse, Status>> {
        let request = tokio::select! {
            request = self.requests.message() => request,
            _ = self.context.node.stopped() => return Some(Err(status::etcd(EtcdError::Stopped))),
        };
        let request = match request {
            Ok(request) => request?,
            Err(broken) => return Some(Err(status::request_stream(broken, EtcdError::ContextCanceled))),
        };
        Some(self.renew(request.id).await)
    }

    async fn renew(&self, id: i64) -> Result<pb::LeaseKeepAliveResponse, Status> {
        let node = self.context.authorise(&self.credentials, RequiredPermission::CheckedByNode)?;
        // The header comes first: a lease revoked at this revision must not be shown as renewed
        // after it.
        let header = self.context.header(node.confirmed_revision().await.map_err(status::node)?);
        let ttl = node.lease_keep_alive(id).await.map_err(status::node)?;
        Ok(pb::LeaseKeepAliveResponse { header, id, ttl })
    }
}
