//! The Peer service: what the servers on one journal tell each other. [`Passing`] has the checkpoints on their way.
//!
//! No user is asked for here: whoever proves that he can read the journal may have what is in it.

mod passing;

use tonic::{Request, Response, Status};
use vetch_api::vetch::peer_server::Peer;
use vetch_api::vetch::{self, CheckpointRequest, ReportRequest, ReportResponse};
use vetch_node::cluster::{Proof, Report};
use vetch_node::fence::Index;
use vetch_node::journal::{Position, Tip};

use super::edge::Edge;
use passing::{CheckpointStream, Passing};

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
}

#[tonic::async_trait]
impl Peer for PeerService {
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

fn index(place: vetch::Place) -> Result<Index, Status> {
    let vetch::Place { position, epoch, seq, hash, next_rev } = place;
    let hash = hash.as_slice().try_into().map_err(|_| Status::invalid_argument("a hash has 32 bytes"))?;
    Ok(Index { position: Position(position), tip: Tip { epoch, seq, hash, next_rev } })
}

fn place(index: &Index) -> vetch::Place {
    let Tip { epoch, seq, hash, next_rev } = index.tip;
    vetch::Place { position: index.position.0, epoch, seq, hash: hash.to_vec(), next_rev }
}
