//! The Peer service: what the servers on one journal ask and tell each other. One file for each
//! question, with both of its ends; [`Passing`] has the checkpoints on their way.
//!
//! No user is asked for here: whoever proves that he can read the journal may have what is in it.

mod introduce;
mod passing;
mod read_index;
mod token;

use tonic::{Request, Response, Status};
use vetch_api::EtcdError;
use vetch_api::vetch::peer_server::Peer;
use vetch_api::vetch::{
    self, Addressed, CheckpointRequest, IntroduceRequest, IntroduceResponse, ReadIndexRequest,
    ReadIndexResponse, ReportRequest, ReportResponse, TokenOwner, TokenRequest, TokenResponse,
};
use vetch_node::Node;
use vetch_node::cluster::{Proof, Report};
use vetch_node::fence::Index;
use vetch_node::journal::{Position, Tip};

use super::edge::Edge;
use super::status;
use passing::{CheckpointStream, Passing};

pub use introduce::stay_introduced;
pub use read_index::carry_questions;
pub(super) use token::learn as learn_token;

pub(super) struct PeerService {
    edge: Edge,
    passing: Passing,
}

impl PeerService {
    pub(super) fn new(edge: Edge) -> PeerService {
        PeerService { edge, passing: Passing::default() }
    }

    fn check(&self, proof: Option<vetch::Proof>) -> Result<Proof, Status> {
        let stranger = || Status::permission_denied("this is for servers on the same journal");
        let proof = proof.ok_or_else(stranger)?;
        let hash = proof.hash.as_slice().try_into().map_err(|_| stranger())?;
        let proof = Proof { seq: proof.seq, hash };
        self.edge.node.is_known(&proof).then_some(proof).ok_or_else(stranger)
    }

    /// Refuses what was meant for another server, and whoever is none of this cluster.
    fn meant(&self, to: Option<&Addressed>) -> Result<(), Status> {
        let (identity, to) = (self.edge.node.identity(), to.cloned().unwrap_or_default());
        if to.cluster_id != identity.cluster_id {
            return Err(status::of(EtcdError::ClusterIDMismatch));
        }
        if to.member_id != identity.member_id {
            return Err(status::of(EtcdError::MemberNotFound));
        }
        match self.edge.node.cluster() {
            Some(cluster) if to.key != 0 && cluster.borrow().key == to.key => Ok(()),
            _ => Err(status::of(EtcdError::PermissionDenied)),
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
        self.meant(request.to.as_ref())?;
        let index = self.edge.node.read_index().await.map_err(status::node)?;
        Ok(Response::new(read_index::to_wire(&index)))
    }

    async fn introduce(
        &self,
        request: Request<IntroduceRequest>,
    ) -> Result<Response<IntroduceResponse>, Status> {
        let request = request.into_inner();
        self.meant(request.to.as_ref())?;
        let asking = std::time::Duration::from_millis(request.asking_millis);
        let member = introduce::from_wire(request.member.unwrap_or_default());
        let introduced = self.edge.node.introduce(member, asking).await.map_err(status::node)?;
        Ok(Response::new(introduce::to_wire(introduced)))
    }

    async fn token(&self, request: Request<TokenRequest>) -> Result<Response<TokenResponse>, Status> {
        let request = request.into_inner();
        self.meant(request.to.as_ref())?;
        let owner = self.edge.authenticator().owner(&self.edge.node, &request.token);
        let owner =
            owner.map(|owner| TokenOwner { user: owner.user.to_string(), auth_revision: owner.proved });
        Ok(Response::new(TokenResponse { owner }))
    }

    async fn report(&self, request: Request<ReportRequest>) -> Result<Response<ReportResponse>, Status> {
        let ReportRequest { proof, member, url, vote, keep } = request.into_inner();
        let proof = self.check(proof)?;
        let vote = vote.map(index).transpose()?;
        let keep = (keep > 0).then_some(Position(keep));
        self.edge.node.take_report(&proof, Report { member, url, vote, keep });
        Ok(Response::new(ReportResponse {}))
    }

    type CheckpointStream = CheckpointStream;

    async fn checkpoint(
        &self,
        request: Request<CheckpointRequest>,
    ) -> Result<Response<CheckpointStream>, Status> {
        self.check(request.into_inner().proof)?;
        Ok(Response::new(self.passing.begin(&self.edge.node)?))
    }
}

/// The writer, as the one whom a question is meant for.
fn writer(node: &Node) -> Result<Addressed, EtcdError> {
    let cluster = node.cluster().ok_or(EtcdError::NoLeader)?;
    let told = cluster.borrow();
    match &told.writer {
        Some(writer) if told.key != 0 => {
            Ok(Addressed { cluster_id: node.identity().cluster_id, member_id: writer.member, key: told.key })
        }
        _ => Err(EtcdError::NoLeader),
    }
}

fn index(place: vetch::Place) -> Result<Index, Status> {
    let vetch::Place { position, epoch, seq, hash, next_rev } = place;
    let hash = hash.as_slice().try_into().map_err(|_| Status::invalid_argument("a hash has 32 bytes"))?;
    Ok(Index { position: Position(position), tip: Tip { epoch, seq, hash, next_rev } })
}

fn place(index: &Index) -> vetch::Place {
    let Tip { epoch, seq, hash, next_rev } = index.tip;
    vetch::Place { position: index.position.0, epoch, seq, hash: hash.to_vec(), next_rev }
}
