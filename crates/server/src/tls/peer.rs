//! The identity of the other end of a connection, by its certificate.

use std::sync::Arc;

use rustls::pki_types::CertificateDer;

use super::client_verifier;

/// A client with a verified certificate. An extension of every request on its connection, also of
/// those that are not gRPC; requests on connections without such a certificate have none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerIdentity {
    common_name: Arc<str>,
}

impl PeerIdentity {
    pub fn new(common_name: &str) -> PeerIdentity {
        PeerIdentity { common_name: common_name.into() }
    }

    /// Of the certificate's subject; empty if it has none.
    pub fn common_name(&self) -> &str {
        &self.common_name
    }

    pub(super) fn from_chain(chain: &[CertificateDer<'_>]) -> Option<PeerIdentity> {
        let leaf = client_verifier::parsed(chain.first()?).ok()?;
        Some(PeerIdentity::new(&client_verifier::common_name(&leaf).unwrap_or_default()))
    }
}
