//! A simple token is known to the server that issued it, which was the leader then. Any other
//! server that gets one asks the leader for its user, and caches the answer for a while.

use std::time::Duration;

use vetch_api::EtcdError;
use vetch_api::vetch::TokenRequest;
use vetch_api::vetch::peer_client::PeerClient;

use crate::auth::{Credentials, TokenOwner};
use crate::grpc::router::{LeaderChannel, RequestRouter};
use crate::grpc::service_context::ServiceContext;

/// How long the leader may take, and how long this server may be behind it.
const LEADER_TIMEOUT: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Requests the user of a token from the leader, if this server is about to answer the request and
/// only the leader can know the token. Refuses the request if the leader does not answer. Whether
/// the token is valid is not decided here.
pub(in crate::grpc) async fn resolve(
    context: &ServiceContext,
    router: &RequestRouter,
    credentials: &Credentials,
) -> Result<(), EtcdError> {
    let Some(token) = context.authenticator().unknown_token(&context.node, credentials) else {
        return Ok(());
    };
    let channel = match router.leader_channel().0 {
        LeaderChannel::Remote(channel) => channel,
        LeaderChannel::Local => return Ok(()),
        // It may be valid: that is not known without the leader.
        LeaderChannel::Unavailable => return Err(EtcdError::NoLeader),
    };
    let to = super::leader(&context.node)?;
    let request = TokenRequest { to: Some(to), token: token.to_string() };
    let mut client = PeerClient::new(channel);
    let asked = tokio::time::timeout(LEADER_TIMEOUT, client.token(request)).await;
    let answer = match asked {
        Ok(Ok(answer)) => answer.into_inner(),
        Ok(Err(error)) => {
            tracing::debug!(%error, "the leader did not resolve a token");
            return Err(EtcdError::Timeout);
        }
        Err(_) => return Err(EtcdError::Timeout),
    };
    if let Some(owner) = answer.owner {
        let owner = TokenOwner { user: owner.user.into(), auth_revision: owner.auth_revision };
        wait_for_auth_revision(context, owner.auth_revision).await;
        context.authenticator().cache(&context.node.auth(), token, owner);
    }
    Ok(())
}

/// The token may be younger than the users this server knows of.
async fn wait_for_auth_revision(context: &ServiceContext, revision: u64) {
    let waiting = async {
        while context.node.auth().revision() < revision {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    let _ = tokio::time::timeout(LEADER_TIMEOUT, waiting).await;
}
