//! The Election service.

use std::pin::Pin;

use bytes::Bytes;
use futures_util::Stream;
use tonic::{Request, Response, Status};
use vetch_api::EtcdError;
use vetch_api::v3electionpb::{
    CampaignRequest, CampaignResponse, LeaderKey, LeaderRequest, LeaderResponse, ProclaimRequest,
    ProclaimResponse, ResignRequest, ResignResponse, election_server,
};
use vetch_node::store::request::{DeleteRangeRequest, KeyRange, RequestOp, TxnRequest};

use super::recipes::{self, Client, ClientGone, Queue};
use super::service_context::ServiceContext;
use super::{observe, status};

type GrpcResult<T> = Result<Response<T>, Status>;

pub(super) struct ElectionService(pub(super) ServiceContext);

#[tonic::async_trait]
impl election_server::Election for ElectionService {
    type ObserveStream = Pin<Box<dyn Stream<Item = Result<LeaderResponse, Status>> + Send>>;

    async fn campaign(&self, request: Request<CampaignRequest>) -> GrpcResult<CampaignResponse> {
        let client = Client::of(&request);
        let (context, request) = recipes::authorise(&self.0, request)?;
        let queue = Queue::new(&request.name, client)?;
        let elected = recipes::run_to_completion(|gone| win(context, queue, request, gone)).await?;
        Ok(Response::new(elected))
    }

    async fn proclaim(&self, request: Request<ProclaimRequest>) -> GrpcResult<ProclaimResponse> {
        let leader = request.get_ref().leader.clone().ok_or(status::etcd(EtcdError::MissingLeaderKey))?;
        let (context, request) = recipes::authorise(&self.0, request)?;
        let candidate = Candidate::resume(&context, &leader).await?;
        let revision = candidate.proclaim(&context, request.value).await?;
        Ok(Response::new(ProclaimResponse { header: context.header(revision) }))
    }

    async fn leader(&self, request: Request<LeaderRequest>) -> GrpcResult<LeaderResponse> {
        let client = Client::of(&request);
        let (context, request) = recipes::authorise(&self.0, request)?;
        let queue = Queue::new(&request.name, client)?;
        let _permit = queue.scan_permit(&context).await;
        let found = recipes::range(&context, queue.first()).await?;
        let first = found.kvs.first().ok_or(status::etcd(EtcdError::ElectionNoLeader))?;
        Ok(Response::new(observe::leader(&context, found.revision, first)))
    }

    async fn observe(&self, request: Request<LeaderRequest>) -> GrpcResult<Self::ObserveStream> {
        let client = Client::of(&request);
        let (context, request) = recipes::authorise(&self.0, request)?;
        let queue = Queue::new(&request.name, client)?;
        Ok(Response::new(Box::pin(observe::leaders(context, queue))))
    }

    async fn resign(&self, request: Request<ResignRequest>) -> GrpcResult<ResignResponse> {
        let leader = request.get_ref().leader.clone().ok_or(status::etcd(EtcdError::MissingLeaderKey))?;
        let (context, _) = recipes::authorise(&self.0, request)?;
        let candidate = Candidate::resume(&context, &leader).await?;
        let revision = candidate.resign(&context).await?;
        Ok(Response::new(ResignResponse { header: context.header(revision) }))
    }
}

/// A key in the queue of an election. The client that created it at that revision owns it.
struct Candidate {
    key: Bytes,
    created: i64,
    lease: i64,
}

/// Enters the election and waits until it is won. If the caller goes away, its key is deleted so
/// that others do not wait behind it. If waiting fails, the caller is still there and keeps its
/// key.
async fn win(
    context: ServiceContext,
    mut queue: Queue,
    request: CampaignRequest,
    gone: ClientGone,
) -> Result<CampaignResponse, Status> {
    let CampaignRequest { name, lease, value } = request;
    // A copy: it shares the memory of the whole message, and its value may be large.
    let name = Bytes::copy_from_slice(&name);
    let (candidate, revision) = {
        let _permit = queue.write_permit().await;
        let lease = recipes::session(&context, lease).await?;
        enter(&context, &queue, lease, value).await?
    };
    tokio::select! {
        outcome = queue.wait_for_turn(&context, candidate.created) => outcome?,
        _ = gone => {
            // If this fails, the expiry of the lease deletes the key.
            let _ = candidate.resign(&context).await;
            return Err(status::etcd(EtcdError::ContextCanceled));
        }
    }
    let Candidate { key, created, lease } = candidate;
    let leader = Some(LeaderKey { name, key, rev: created, lease });
    Ok(CampaignResponse { header: context.header(revision), leader })
}

/// Enters the election, or finds the candidacy that this lease already has and gives it the new
/// value. Also returns the revision of the response: of the entry, not of the new value.
async fn enter(
    context: &ServiceContext,
    queue: &Queue,
    lease: i64,
    value: Bytes,
) -> Result<(Candidate, i64), Status> {
    let key = queue.key(lease);
    let response = recipes::txn(
        context,
        TxnRequest {
            compare: vec![recipes::created_at(key.clone(), 0)],
            success: vec![recipes::put(key.clone(), value.clone(), lease)],
            failure: vec![recipes::get(key.clone())],
        },
    )
    .await?;
    let own = if response.succeeded { None } else { recipes::found(&response, 0) };
    let created = own.map_or(response.revision, |own| own.create_revision());
    let candidate = Candidate { key, created, lease };
    if own.is_some_and(|own| *own.value() != *value)
        && let Err(error) = candidate.proclaim(context, value).await
    {
        // The old value must not win the election, whatever happened in between.
        let _ = candidate.resign(context).await;
        return Err(error);
    }
    Ok((candidate, response.revision))
}

impl Candidate {
    /// The candidate that a client says it is. Like etcd, a client that names no lease gets one.
    async fn resume(context: &ServiceContext, leader: &LeaderKey) -> Result<Candidate, Status> {
        let lease = recipes::session(context, leader.lease).await?;
        Ok(Candidate { key: leader.key.clone(), created: leader.rev, lease })
    }

    /// Changes the value of the candidacy. Returns the revision of the change.
    async fn proclaim(&self, context: &ServiceContext, value: Bytes) -> Result<i64, Status> {
        let response = recipes::txn(
            context,
            TxnRequest {
                compare: vec![recipes::created_at(self.key.clone(), self.created)],
                success: vec![recipes::put(self.key.clone(), value, self.lease)],
                failure: Vec::new(),
            },
        )
        .await?;
        if !response.succeeded {
            return Err(status::etcd(EtcdError::ElectionNotLeader));
        }
        Ok(response.revision)
    }

    /// Ends the candidacy. It is no error if it has ended already.
    async fn resign(&self, context: &ServiceContext) -> Result<i64, Status> {
        let delete = DeleteRangeRequest { range: KeyRange::single(self.key.clone()), prev_kv: false };
        let response = recipes::txn(
            context,
            TxnRequest {
                compare: vec![recipes::created_at(self.key.clone(), self.created)],
                success: vec![RequestOp::DeleteRange(delete)],
                failure: Vec::new(),
            },
        )
        .await?;
        Ok(response.revision)
    }
}
