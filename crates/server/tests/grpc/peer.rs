//! The service between servers is not for clients.

use tonic::Code;
use vetch_api::vetch::peer_client::PeerClient;
use vetch_api::vetch::{Addressed, CheckpointRequest, Place, Proof, ReportRequest, TokenRequest};

use crate::{World, refused};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_cannot_read_the_journal_gets_and_changes_nothing() {
    let world = World::new().await;
    let mut peer = PeerClient::new(world.rpc.clone());
    let hash = |len: usize| vec![0; len];
    for proof in [None, Some(Proof { seq: 0, hash: hash(32) }), Some(Proof { seq: 1, hash: hash(31) })] {
        let report = ReportRequest {
            proof: proof.clone(),
            member: 7,
            url: "http://somewhere".into(),
            vote: Some(Place { position: 1 << 40, hash: hash(32), ..Place::default() }),
            keep: 0,
        };
        assert_eq!(refused(peer.report(report).await).0, Code::PermissionDenied);
        let asked = peer.checkpoint(CheckpointRequest { proof }).await;
        assert_eq!(refused(asked).0, Code::PermissionDenied);
    }
    let identity = world.node.identity();
    for key in [0, 1] {
        let to = Addressed { cluster_id: identity.cluster_id, member_id: identity.member_id, key };
        let asked = peer.token(TokenRequest { to: Some(to), token: "x.1".into() }).await;
        assert_eq!(refused(asked).0, Code::PermissionDenied);
    }
}
