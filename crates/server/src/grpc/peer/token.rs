//! A simple token is known to the server that gave it out, which is whoever wrote then. Any other
//! server that is shown one asks the writer whom it stands for, and remembers the answer for a
//! while.

use std::time::Duration;

use vetch_api::EtcdError;
use vetch_api::vetch::TokenRequest;
use vetch_api::vetch::peer_client::PeerClient;

use crate::auth::{Credentials, TokenOwner};
use crate::grpc::edge::Edge;
use crate::grpc::stand_in::{StandIn, Way};

/// How long the writer may take, and how long this server may be behind it.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(5);

/// Finds out whom the token of a request stands for that this server is about to answer, if it is
/// one that only the writer can know. Refuses if it cannot be asked; whether the token is valid is
/// not decided here.
pub(in crate::grpc) async fn learn(
    edge: &Edge,
    stand_in: &StandIn,
    credentials: &Credentials,
) -> Result<(), EtcdError> {
    let Some(token) = edge.authenticator().unknown(&edge.node, credentials) else { return Ok(()) };
    let channel = match stand_in.way().0 {
        Way::There(channel) => channel,
        Way::Here => return Ok(()),
        // It may be valid: that is not known without the writer.
        Way::Nowhere => return Err(EtcdError::NoLeader),
    };
    let to = super::writer(&edge.node)?;
    let request = TokenRequest { to: Some(to), token: token.to_string() };
    let mut client = PeerClient::new(channel);
    let asked = tokio::time::timeout(PATIENCE, client.token(request)).await;
    let answer = match asked {
        Ok(Ok(answer)) => answer.into_inner(),
        Ok(Err(error)) => {
            tracing::debug!(%error, "the writer did not say whom a token stands for");
            return Err(EtcdError::Timeout);
        }
        Err(_) => return Err(EtcdError::Timeout),
    };
    if let Some(owner) = answer.owner {
        let owner = TokenOwner { user: owner.user.into(), proved: owner.auth_revision };
        await_users(edge, owner.proved).await;
        edge.authenticator().borrow(&edge.node.auth(), token, owner);
    }
    Ok(())
}

/// The token may be younger than the users this server knows of.
async fn await_users(edge: &Edge, revision: u64) {
    let waiting = async {
        while edge.node.auth().revision() < revision {
            tokio::time::sleep(PAUSE).await;
        }
    };
    let _ = tokio::time::timeout(PATIENCE, waiting).await;
}
