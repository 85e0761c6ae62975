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

use super::edge::Edge;
use super::recipes::{self, Gone, Queue};
use super::{observe, status};

type Answer<T> = Result<Response<T>, Status>;

pub(super) struct ElectionService(pub(super) Edge);

#[tonic::async_trait]
impl election_server::Election for ElectionService {
    type ObserveStream = Pin<Box<dyn Stream<Item = Result<LeaderResponse, Status>> + Send>>;

    async fn campaign(&self, request: Request<CampaignRequest>) -> Answer<CampaignResponse> {
        let (edge, request) = recipes::admit(&self.0, request)?;
        let elected = recipes::attended(|gone| win(edge, request, gone)).await?;
        Ok(Response::new(elected))
    }

    async fn proclaim(&self, request: Request<ProclaimRequest>) -> Answer<ProclaimResponse> {
        let leader = request.get_ref().leader.clone().ok_or(status::of(EtcdError::MissingLeaderKey))?;
        let (edge, request) = recipes::admit(&self.0, request)?;
        let candidate = Candidate::resume(&edge, &leader).await?;
        let revision = candidate.proclaim(&edge, request.value).await?;
        Ok(Response::new(ProclaimResponse { header: edge.header(revision) }))
    }

    async fn leader(&self, request: Request<LeaderRequest>) -> Answer<LeaderResponse> {
        let (edge, request) = recipes::admit(&self.0, request)?;
        let found = recipes::range(&edge, Queue::new(&request.name).first()).await?;
        let first = found.kvs.first().ok_or(status::of(EtcdError::ElectionNoLeader))?;
        Ok(Response::new(observe::leader(&edge, found.revision, first)))
    }

    async fn observe(&self, request: Request<LeaderRequest>) -> Answer<Self::ObserveStream> {
        let (edge, request) = recipes::admit(&self.0, request)?;
        Ok(Response::new(Box::pin(observe::leaders(edge, Queue::new(&request.name)))))
    }

    async fn resign(&self, request: Request<ResignRequest>) -> Answer<ResignResponse> {
        let leader = request.get_ref().leader.clone().ok_or(status::of(EtcdError::MissingLeaderKey))?;
        let (edge, _) = recipes::admit(&self.0, request)?;
        let candidate = Candidate::resume(&edge, &leader).await?;
        let revision = candidate.resign(&edge).await?;
        Ok(Response::new(ResignResponse { header: edge.header(revision) }))
    }
}

/// A key in the queue of an election. Who created it at that revision speaks for it.
struct Candidate {
    key: Bytes,
    created: i64,
    lease: i64,
}

/// Enters the election and waits until it is won. A caller who goes away must not keep others
/// waiting behind its key; one for whom waiting fails is still there and keeps its key.
async fn win(edge: Edge, request: CampaignRequest, gone: Gone) -> Result<CampaignResponse, Status> {
    let CampaignRequest { name, lease, value } = request;
    let lease = recipes::session(&edge, lease).await?;
    let queue = Queue::new(&name);
    let (candidate, revision) = stand(&edge, &queue, lease, value).await?;
    tokio::select! {
        outcome = queue.wait_for_turn(&edge, candidate.created) => outcome?,
        _ = gone => {
            // If this fails the lease will end the wait of those behind.
            let _ = candidate.resign(&edge).await;
            return Err(status::of(EtcdError::ContextCanceled));
        }
    }
    let Candidate { key, created, lease } = candidate;
    let leader = Some(LeaderKey { name, key, rev: created, lease });
    Ok(CampaignResponse { header: edge.header(revision), leader })
}

/// Enters the election, or finds the candidacy that this lease already has and gives it the new
/// value. Also returns the revision of the answer, which is that of the entry and not of the new
/// value.
async fn stand(edge: &Edge, queue: &Queue, lease: i64, value: Bytes) -> Result<(Candidate, i64), Status> {
    let key = queue.key(lease);
    let response = recipes::txn(
        edge,
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
        && let Err(error) = candidate.proclaim(edge, value).await
    {
        // Whatever came between, the old value must not win the election.
        let _ = candidate.resign(edge).await;
        return Err(error);
    }
    Ok((candidate, response.revision))
}

impl Candidate {
    /// The candidate that a client says it is. Like etcd, a client that names no lease gets one.
    async fn resume(edge: &Edge, leader: &LeaderKey) -> Result<Candidate, Status> {
        let lease = recipes::session(edge, leader.lease).await?;
        Ok(Candidate { key: leader.key.clone(), created: leader.rev, lease })
    }

    /// Gives the candidacy another value. Returns the revision of the change.
    async fn proclaim(&self, edge: &Edge, value: Bytes) -> Result<i64, Status> {
        let response = recipes::txn(
            edge,
            TxnRequest {
                compare: vec![recipes::created_at(self.key.clone(), self.created)],
                success: vec![recipes::put(self.key.clone(), value, self.lease)],
                failure: Vec::new(),
            },
        )
        .await?;
        if !response.succeeded {
            return Err(status::of(EtcdError::ElectionNotLeader));
        }
        Ok(response.revision)
    }

    /// Gives the candidacy up. It is no error if that happened before.
    async fn resign(&self, edge: &Edge) -> Result<i64, Status> {
        let delete = DeleteRangeRequest { range: KeyRange::single(self.key.clone()), prev_kv: false };
        let response = recipes::txn(
            edge,
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
