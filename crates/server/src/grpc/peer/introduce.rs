//! A server says who it is to the writer of its cluster, again and again, which is also its sign of
//! life.

use std::time::{Duration, Instant};

use tonic::Status;
use tonic::transport::Channel;
use vetch_api::vetch;
use vetch_api::vetch::introduce_response::Verdict;
use vetch_api::vetch::peer_client::PeerClient;
use vetch_api::vetch::{IntroduceRequest, IntroduceResponse};
use vetch_node::Node;
use vetch_node::members::{Introduced, Member};

use crate::grpc::stand_in::{StandIn, Way};

/// Between two signs of life, and how long one may take.
const PAUSE: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(2);

/// Says to whoever writes that this server is here, until the node ends. Ends the node if it is not
/// let in.
pub async fn stay_introduced(node: Node, stand_in: StandIn) {
    let Some(me) = node.as_member() else { return };
    let mut asking: Option<Instant> = None;
    loop {
        // The writer looks after its own place.
        let (way, changed) = stand_in.way();
        if let Way::There(channel) = way {
            let since = *asking.get_or_insert_with(Instant::now);
            match tokio::time::timeout(PATIENCE, introduce(&node, &me, channel, since.elapsed())).await {
                Ok(Ok(Introduced::Known)) => asking = None,
                Ok(Ok(Introduced::Wait)) => {
                    tracing::info!(name = me.name, "waiting for the place of an earlier server of this name")
                }
                Ok(Ok(Introduced::Refused(why))) => return node.leave(&why),
                Ok(Err(error)) => tracing::debug!(%error, "the writer did not take an introduction"),
                Err(_) => tracing::debug!("the writer did not answer an introduction in time"),
            }
        }
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            // A new writer has to hear of everybody.
            () = changed => {}
            _ = node.stopped() => return,
        }
    }
}

async fn introduce(
    node: &Node,
    me: &Member,
    channel: Channel,
    asking: Duration,
) -> Result<Introduced, Status> {
    let request = IntroduceRequest {
        to: Some(super::writer(node)?),
        member: Some(vetch::Member {
            id: me.id,
            life: me.life,
            name: me.name.clone(),
            client_urls: me.client_urls.clone(),
            peer_urls: me.peer_urls.clone(),
        }),
        asking_millis: u64::try_from(asking.as_millis()).unwrap_or(u64::MAX),
    };
    let answer = PeerClient::new(channel).introduce(request).await?.into_inner();
    Ok(match answer.verdict() {
        Verdict::Wait => Introduced::Wait,
        Verdict::Known => Introduced::Known,
        Verdict::Refused => Introduced::Refused(answer.reason),
    })
}

pub(super) fn from_wire(member: vetch::Member) -> Member {
    let vetch::Member { id, life, name, client_urls, peer_urls } = member;
    Member { id, life, name, client_urls, peer_urls }
}

pub(super) fn to_wire(introduced: Introduced) -> IntroduceResponse {
    let (verdict, reason) = match introduced {
        Introduced::Wait => (Verdict::Wait, String::new()),
        Introduced::Known => (Verdict::Known, String::new()),
        Introduced::Refused(why) => (Verdict::Refused, why),
    };
    IntroduceResponse { verdict: verdict.into(), reason }
}
