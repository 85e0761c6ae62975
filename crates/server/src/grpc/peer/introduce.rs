//! A server registers with the leader of its cluster at an interval, which is also its heartbeat.

use std::time::{Duration, Instant};

use tonic::Status;
use tonic::transport::Channel;
use vetch_api::vetch;
use vetch_api::vetch::introduce_response::Verdict;
use vetch_api::vetch::peer_client::PeerClient;
use vetch_api::vetch::{IntroduceRequest, IntroduceResponse};
use vetch_members::{Member, Registration};
use vetch_node::Node;

use crate::grpc::router::{LeaderChannel, RequestRouter};

/// Between two signs of life, and how long one may take.
const INTRODUCE_INTERVAL: Duration = Duration::from_millis(500);
const INTRODUCE_TIMEOUT: Duration = Duration::from_secs(2);

/// Registers this server with the leader until the node ends. Ends the node if it is refused.
pub async fn stay_registered(node: Node, router: RequestRouter) {
    let Some(me) = node.as_member() else { return };
    let mut asking: Option<Instant> = None;
    loop {
        // The leader looks after its own place.
        let (leader, changed) = router.leader_channel();
        if let LeaderChannel::Remote(channel) = leader {
            let since = *asking.get_or_insert_with(Instant::now);
            match tokio::time::timeout(INTRODUCE_TIMEOUT, introduce(&node, &me, channel, since.elapsed()))
                .await
            {
                Ok(Ok(Registration::Accepted)) => asking = None,
                Ok(Ok(Registration::Wait)) => {
                    tracing::info!(name = me.name, "waiting for an earlier member of this name to expire")
                }
                Ok(Ok(Registration::Refused(why))) => return node.leave(&why),
                Ok(Err(error)) => tracing::debug!(%error, "the leader did not accept the registration"),
                Err(_) => tracing::debug!("the leader did not answer the registration in time"),
            }
        }
        tokio::select! {
            () = tokio::time::sleep(INTRODUCE_INTERVAL) => {}
            // A new leader has to hear of everybody.
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
) -> Result<Registration, Status> {
    let request = IntroduceRequest {
        to: Some(super::leader(node)?),
        member: Some(vetch::Member {
            id: me.id,
            life: me.incarnation,
            name: me.name.clone(),
            client_urls: me.client_urls.clone(),
            peer_urls: me.peer_urls.clone(),
        }),
        asking_millis: u64::try_from(asking.as_millis()).unwrap_or(u64::MAX),
    };
    let answer = PeerClient::new(channel).introduce(request).await?.into_inner();
    Ok(match answer.verdict() {
        Verdict::Wait => Registration::Wait,
        Verdict::Known => Registration::Accepted,
        Verdict::Refused => Registration::Refused(answer.reason),
    })
}

pub(super) fn from_wire(member: vetch::Member) -> Member {
    let vetch::Member { id, life, name, client_urls, peer_urls } = member;
    Member { id, incarnation: life, name, client_urls, peer_urls }
}

pub(super) fn to_wire(introduced: Registration) -> IntroduceResponse {
    let (verdict, reason) = match introduced {
        Registration::Wait => (Verdict::Wait, String::new()),
        Registration::Accepted => (Verdict::Known, String::new()),
        Registration::Refused(why) => (Verdict::Refused, why),
    };
    IntroduceResponse { verdict: verdict.into(), reason }
}
