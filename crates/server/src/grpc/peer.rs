//! The Peer service: the requests between the servers of a cluster. One file for each, with client
//! and server; [`CheckpointTransfers`] has the checkpoint transfers in progress.
//!
//! No user is authenticated here: a server that proves that it reads the journal may have what is
//! in it.

mod checkpoint_transfer;
mod introduce;
mod read_index;
mod token;

use tonic::{Request, Response, Status};
use vetch_api::EtcdError;
use vetch_api::vetch::peer_server::Peer;
use vetch_api::vetch::{
    self, Addressed, CheckpointRequest, IntroduceRequest, IntroduceResponse, ReadIndexRequest,
    ReadIndexResponse, ReportRequest, ReportResponse, TokenOwner, TokenRequest, TokenResponse,
};
use vetch_base::{Epoch, Seq};
use vetch_cluster::LogIndex;
use vetch_members::{Proof, Report};
use vetch_node::Node;
use vetch_node::journal::{Position, Tip};

use super::service_context::ServiceContext;
use super::status;
use checkpoint_transfer::{CheckpointStream, CheckpointTransfers};

pub use introduce::stay_registered;
pub use read_index::forward_read_index_requests;
pub(super) use token::resolve as resolve_token;

pub(super) struct PeerService {
    context: ServiceContext,
    transfers: CheckpointTransfers,
}

impl PeerService {
    pub(super) fn new(context: ServiceContext) -> PeerService {
        PeerService { context, transfers: CheckpointTransfers::default() }
    }

    fn check(&self, proof: Option<vetch::Proof>) -> Result<Proof, Status> {
        let denied = || Status::permission_denied("only servers on the same journal may call this");
        let proof = proof.ok_or_else(denied)?;
        let hash = proof.hash.as_slice().try_into().map_err(|_| denied())?;
        let proof = Proof { seq: Seq::new(proof.seq), hash };
        self.context.node.is_known(&proof).then_some(proof).ok_or_else(denied)
    }

    /// Refuses requests for another server, and those of servers of another cluster.
    fn check_addressee(&self, to: Option<&Addressed>) -> Result<(), Status> {
        let (identity, to) = (self.context.node.identity(), to.cloned().unwrap_or_default());
        if to.cluster_id != identity.cluster_id {
            return Err(status::etcd(EtcdError::ClusterIDMismatch));
        }
        if to.member_id != identity.member_id {
            return Err(status::etcd(EtcdError::MemberNotFound));
        }
        match self.context.node.cluster() {
            Some(cluster) if to.key != 0 && cluster.borrow().key == to.key => Ok(()),
            _ => Err(status::etcd(EtcdError::PermissionDenied)),
        }
    }
}

#[tonic::async_trait]
impl Peer for PeerService {
    async fn read_index(
        &self,
        request: Request<ReadIndexRequest>,
    ) -> Result<Response<ReadIndexResponse>, Status> {
        let request = request.into_inner();
        self.check_addressee(request.to.as_ref())?;
        let index = self.context.node.read_index().await.map_err(status::node)?;
        Ok(Response::new(read_index::to_wire(&index)))
    }

    async fn introduce(
        &self,
        request: Request<IntroduceRequest>,
    ) -> Result<Response<IntroduceResponse>, Status> {
        let request = request.into_inner();
        self.check_addressee(request.to.as_ref())?;
        let asking = std::time::Duration::from_millis(request.asking_millis);
        let member = introduce::from_wire(request.member.unwrap_or_default());
        let introduced = self.context.node.register(member, asking).await.map_err(status::node)?;
        Ok(Response::new(introduce::to_wire(introduced)))
    }

    async fn token(&self, request: Request<TokenRequest>) -> Result<Response<TokenResponse>, Status> {
        let request = request.into_inner();
        self.check_addressee(request.to.as_ref())?;
        let owner = self.context.authenticator().owner(&self.context.node, &request.token);
        let owner = owner
            .map(|owner| TokenOwner { user: owner.user.to_string(), auth_revision: owner.auth_revision });
        Ok(Response::new(TokenResponse { owner }))
    }

    async fn report(&self, request: Request<ReportRequest>) -> Result<Response<ReportResponse>, Status> {
        let ReportRequest { proof, member, url, vote, keep } = request.into_inner();
        let proof = self.check(proof)?;
        let vote = vote.map(index_from_wire).transpose()?;
        let keep = (keep > 0).then_some(Position(keep));
        self.context.node.take_report(&proof, Report { member, url, vote, keep });
        Ok(Response::new(ReportResponse {}))
    }

    type CheckpointStream = CheckpointStream;

    async fn checkpoint(
        &self,
        request: Request<CheckpointRequest>,
    ) -> Result<Response<CheckpointStream>, Status> {
        self.check(request.into_inner().proof)?;
        Ok(Response::new(self.transfers.begin(&self.context.node)?))
    }
}

/// The leader, as the addressee of a request.
fn leader(node: &Node) -> Result<Addressed, EtcdError> {
    let cluster = node.cluster().ok_or(EtcdError::NoLeader)?;
    let status = cluster.borrow();
    match &status.leader {
        Some(leader) if status.key != 0 => Ok(Addressed {
            cluster_id: node.identity().cluster_id,
            member_id: leader.member,
            key: status.key,
        }),
        _ => Err(EtcdError::NoLeader),
    }
}

fn index_from_wire(place: vetch::Place) -> Result<LogIndex, Status> {
    let vetch::Place { position, epoch, seq, hash, next_rev } = place;
    let hash = hash.as_slice().try_into().map_err(|_| Status::invalid_argument("a hash has 32 bytes"))?;
    Ok(LogIndex {
        position: Position(position),
        tip: Tip { epoch: Epoch::new(epoch), seq: Seq::new(seq), hash, next_rev },
    })
}

fn index_to_wire(index: &LogIndex) -> vetch::Place {
    let Tip { epoch, seq, hash, next_rev } = index.tip;
    vetch::Place {
        position: index.position.0,
        epoch: epoch.get(),
        seq: seq.get(),
        hash: hash.to_vec(),
        next_rev,
    }
}
