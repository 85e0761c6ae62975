//! Requests that another server of the cluster passed on, and who sent them to it.
//!
//! On a connection between two servers the certificate names a server, not the client that it
//! speaks for. So whoever passes a request on says in metadata who sent it, or that nobody is known
//! to have, and proves by the hash of a recent announcement that it reads the journal. It is
//! believed if this server knows the announcement, and about a name only on a connection that
//! showed a trusted certificate. Whatever else comes with this metadata is refused: without it, it
//! would count as sent by the owner of the connection's certificate, which may be a server that
//! passed on what a stranger sent.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderName, HeaderValue, Request};
use tonic::Status;
use tonic::body::Body;
use vetch_node::Node;
use vetch_node::cluster::Proof;

use crate::tls::PeerIdentity;

/// Number and hash of the announcement and, if there is one, the name, with dots between them.
pub(crate) const SENDER: HeaderName = HeaderName::from_static("vetch-sender");

/// Who passes a request on may have read an announcement that its writer has not been told of yet.
const PATIENCE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(5);

const NOT_SHOWN: &str = "the server that passed this on does not show that it reads the journal";

#[derive(Debug, PartialEq, Eq)]
struct Claim {
    proof: Proof,
    sender: Option<PeerIdentity>,
}

/// Says who sent a request that is about to be passed on. False if this server has read no
/// announcement yet.
pub(super) fn stamp(node: &Node, request: &mut Request<Body>) -> bool {
    let sender = request.extensions().get::<PeerIdentity>().cloned();
    let stamped = node.proof().and_then(|proof| Claim { proof, sender }.to_header());
    match stamped {
        Some(value) => request.headers_mut().insert(SENDER, value),
        None => return false,
    };
    true
}

/// Who is claimed to have sent a request that came over a connection of `peer`, and the proof to be
/// checked before that is believed. None if no such claim may come from there.
pub(super) fn claimed(
    claim: &HeaderValue,
    peer: Option<&PeerIdentity>,
) -> Option<(Option<PeerIdentity>, Proof)> {
    let claim = Claim::of(claim).filter(|claim| claim.may_come_from(peer))?;
    Some((claim.sender, claim.proof))
}

/// The request as if its sender had sent it here.
pub(super) async fn settle(node: &Node, mut request: Request<Body>) -> Result<Request<Body>, Status> {
    let Some(claim) = request.headers_mut().remove(SENDER) else { return Ok(request) };
    let refused = || Status::unavailable(NOT_SHOWN);
    let peer = request.extensions_mut().remove::<PeerIdentity>();
    let claim = Claim::of(&claim).filter(|claim| claim.may_come_from(peer.as_ref())).ok_or_else(refused)?;
    if !becomes_known(node, &claim.proof).await {
        return Err(refused());
    }
    if let Some(sender) = claim.sender {
        request.extensions_mut().insert(sender);
    }
    Ok(request)
}

/// Waits a moment for an announcement that is younger than all this server knows.
async fn becomes_known(node: &Node, proof: &Proof) -> bool {
    let waiting = async {
        loop {
            if node.is_known(proof) {
                return true;
            }
            if node.proof().is_some_and(|newest| newest.seq >= proof.seq) {
                // It may have come between the two looks.
                return node.is_known(proof);
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or(false)
}

impl Claim {
    fn to_header(&self) -> Option<HeaderValue> {
        let mut text = format!("{}.{}", self.proof.seq, URL_SAFE_NO_PAD.encode(self.proof.hash));
        if let Some(sender) = &self.sender {
            text.push('.');
            text.push_str(&URL_SAFE_NO_PAD.encode(sender.common_name()));
        }
        HeaderValue::try_from(text).ok()
    }

    fn of(header: &HeaderValue) -> Option<Claim> {
        let mut parts = header.to_str().ok()?.splitn(3, '.');
        let seq = parts.next()?.parse().ok()?;
        let hash = URL_SAFE_NO_PAD.decode(parts.next()?).ok()?.try_into().ok()?;
        let sender = match parts.next() {
            None => None,
            Some(name) => {
                let name = String::from_utf8(URL_SAFE_NO_PAD.decode(name).ok()?).ok()?;
                Some(PeerIdentity::new(&name))
            }
        };
        Some(Claim { proof: Proof { seq, hash }, sender })
    }

    /// Names come from certificates, so whoever tells one has one to show.
    fn may_come_from(&self, peer: Option<&PeerIdentity>) -> bool {
        self.sender.is_none() || peer.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(name: Option<&str>) -> Claim {
        Claim { proof: Proof { seq: 9, hash: [200; 32] }, sender: name.map(PeerIdentity::new) }
    }

    #[test]
    fn a_claim_is_read_as_it_was_made() {
        for name in [None, Some(""), Some("root"), Some("a.b\u{e4} c\n")] {
            assert_eq!(Claim::of(&claim(name).to_header().unwrap()), Some(claim(name)), "{name:?}");
        }
    }

    #[test]
    fn what_is_no_claim_is_none() {
        for text in ["", ".", "9", "9.", "9.AAAA", "x.y.z", "9.AAAA.cm9vdA", "root"] {
            assert_eq!(Claim::of(&HeaderValue::from_static(text)), None, "{text}");
        }
        let broken = format!("{}.%", claim(None).to_header().unwrap().to_str().unwrap());
        assert_eq!(Claim::of(&HeaderValue::try_from(broken).unwrap()), None);
    }

    #[test]
    fn a_name_is_told_only_by_who_has_shown_one() {
        assert!(claim(None).may_come_from(None));
        assert!(!claim(Some("root")).may_come_from(None));
        assert!(claim(Some("root")).may_come_from(Some(&PeerIdentity::new("server"))));
    }
}
