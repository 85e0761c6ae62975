//! The identity of the client whose request another server of the cluster forwarded.
//!
//! On a connection between two servers the certificate names a server, not the client whose request
//! it forwards. So a forwarding server names the client in metadata, or says that it is unknown,
//! and proves by the hash of a recent announcement that it reads the journal. The metadata is
//! accepted if this server knows the announcement; a name only on a connection with a trusted
//! certificate. Other requests with this metadata are refused: without it, they would have the
//! identity of the connection's certificate, which may be that of a server that forwarded an
//! attacker's request.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderName, HeaderValue, Request};
use tonic::Status;
use tonic::body::Body;
use vetch_base::Seq;
use vetch_members::Proof;
use vetch_node::Node;

use vetch_tls::PeerIdentity;

/// Number and hash of the announcement and, if there is one, the name, with dots between them.
pub(crate) const FORWARDED_IDENTITY: HeaderName = HeaderName::from_static("vetch-sender");

/// A forwarding server may have read an announcement that the leader has not read yet.
const PROOF_TIMEOUT: Duration = Duration::from_secs(1);
const PROOF_POLL_INTERVAL: Duration = Duration::from_millis(5);

const UNPROVEN: &str = "the forwarding server did not prove that it reads the journal";

#[derive(Debug, PartialEq, Eq)]
struct ForwardedIdentity {
    proof: Proof,
    sender: Option<PeerIdentity>,
}

/// Attaches the identity of the client to a request that is about to be forwarded. False if this
/// server has read no announcement yet.
pub(super) fn attach(node: &Node, request: &mut Request<Body>) -> bool {
    let sender = request.extensions().get::<PeerIdentity>().cloned();
    let header = node.proof().and_then(|proof| ForwardedIdentity { proof, sender }.to_header());
    match header {
        Some(value) => request.headers_mut().insert(FORWARDED_IDENTITY, value),
        None => return false,
    };
    true
}

/// The attached identity of a request that came over a connection of `peer`, and the proof to be
/// checked before it is accepted. `None` if `peer` must not attach one.
pub(super) fn parse(
    identity: &HeaderValue,
    peer: Option<&PeerIdentity>,
) -> Option<(Option<PeerIdentity>, Proof)> {
    let identity =
        ForwardedIdentity::from_header(identity).filter(|identity| identity.may_come_from(peer))?;
    Some((identity.sender, identity.proof))
}

/// The request as if its sender had sent it here.
pub(super) async fn verify(node: &Node, mut request: Request<Body>) -> Result<Request<Body>, Status> {
    let Some(identity) = request.headers_mut().remove(FORWARDED_IDENTITY) else { return Ok(request) };
    let refused = || Status::unavailable(UNPROVEN);
    let peer = request.extensions_mut().remove::<PeerIdentity>();
    let identity = ForwardedIdentity::from_header(&identity)
        .filter(|identity| identity.may_come_from(peer.as_ref()))
        .ok_or_else(refused)?;
    if !wait_until_known(node, &identity.proof).await {
        return Err(refused());
    }
    if let Some(sender) = identity.sender {
        request.extensions_mut().insert(sender);
    }
    Ok(request)
}

/// Waits for an announcement that is newer than all this server knows.
async fn wait_until_known(node: &Node, proof: &Proof) -> bool {
    let waiting = async {
        loop {
            if node.is_known(proof) {
                return true;
            }
            if node.proof().is_some_and(|newest| newest.seq >= proof.seq) {
                // It may have come between the two looks.
                return node.is_known(proof);
            }
            tokio::time::sleep(PROOF_POLL_INTERVAL).await;
        }
    };
    tokio::time::timeout(PROOF_TIMEOUT, waiting).await.unwrap_or(false)
}

impl ForwardedIdentity {
    fn to_header(&self) -> Option<HeaderValue> {
        let mut text = format!("{}.{}", self.proof.seq, URL_SAFE_NO_PAD.encode(self.proof.hash));
        if let Some(sender) = &self.sender {
            text.push('.');
            text.push_str(&URL_SAFE_NO_PAD.encode(sender.common_name()));
        }
        HeaderValue::try_from(text).ok()
    }

    fn from_header(header: &HeaderValue) -> Option<ForwardedIdentity> {
        let mut parts = header.to_str().ok()?.splitn(3, '.');
        let seq = Seq::new(parts.next()?.parse().ok()?);
        let hash = URL_SAFE_NO_PAD.decode(parts.next()?).ok()?.try_into().ok()?;
        let sender = match parts.next() {
            None => None,
            Some(name) => {
                let name = String::from_utf8(URL_SAFE_NO_PAD.decode(name).ok()?).ok()?;
                Some(PeerIdentity::new(&name))
            }
        };
        Some(ForwardedIdentity { proof: Proof { seq, hash }, sender })
    }

    /// Names come from certificates, so a server that forwards one has a certificate itself.
    fn may_come_from(&self, peer: Option<&PeerIdentity>) -> bool {
        self.sender.is_none() || peer.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(name: Option<&str>) -> ForwardedIdentity {
        ForwardedIdentity {
            proof: Proof { seq: Seq::new(9), hash: [200; 32] },
            sender: name.map(PeerIdentity::new),
        }
    }

    #[test]
    fn a_claim_is_read_as_it_was_made() {
        for name in [None, Some(""), Some("root"), Some("a.b\u{e4} c\n")] {
            assert_eq!(
                ForwardedIdentity::from_header(&identity(name).to_header().unwrap()),
                Some(identity(name)),
                "{name:?}"
            );
        }
    }

    #[test]
    fn what_is_no_claim_is_none() {
        for text in ["", ".", "9", "9.", "9.AAAA", "x.y.z", "9.AAAA.cm9vdA", "root"] {
            assert_eq!(ForwardedIdentity::from_header(&HeaderValue::from_static(text)), None, "{text}");
        }
        let broken = format!("{}.%", identity(None).to_header().unwrap().to_str().unwrap());
        assert_eq!(ForwardedIdentity::from_header(&HeaderValue::try_from(broken).unwrap()), None);
    }

    #[test]
    fn a_user_is_forwarded_only_for_a_verified_certificate() {
        assert!(identity(None).may_come_from(None));
        assert!(!identity(Some("root")).may_come_from(None));
        assert!(identity(Some("root")).may_come_from(Some(&PeerIdentity::new("server"))));
    }
}
