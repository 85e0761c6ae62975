//! How the other servers of a cluster are called: at the URLs they announce, over TLS if those say
//! so.

use std::sync::Arc;

use tonic::transport::{Channel, Endpoint};
use vetch_tls::TlsError;
use vetch_tls::peer_connector::{self, PeerConnector};
use vetch_tls::settings::TlsSettings;

use crate::causes::with_causes;

const SECURE: &str = "https://";

/// Why another server cannot be called.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialError {
    #[error("{}", with_causes(.0))]
    Transport(#[from] tonic::transport::Error),
    #[error(
        "it speaks TLS, and this server has neither --trusted-ca-file nor --peer-trusted-ca-file to verify it by"
    )]
    NoCa,
}

/// Cloning copies a pointer.
#[derive(Debug, Clone)]
pub(crate) struct PeerDialer(Option<Arc<PeerConnector>>);

impl PeerDialer {
    /// Reads the files that `tls` names. Without it, only servers without TLS can be called.
    pub(crate) fn open(tls: Option<&TlsSettings>) -> Result<PeerDialer, TlsError> {
        Ok(PeerDialer(tls.map(PeerConnector::open).transpose()?.map(Arc::new)))
    }

    pub(super) fn is_secure(url: &str) -> bool {
        url.starts_with(SECURE)
    }

    /// A connection that is made when it is needed. `set` says how the endpoint is to be treated.
    pub(super) fn connect_lazy(
        &self,
        url: &str,
        set: impl FnOnce(Endpoint) -> Endpoint,
    ) -> Result<Channel, DialError> {
        let endpoint = set(peer_connector::endpoint(url)?);
        Ok(match self.connector(url)? {
            Some(connector) => connector.connect_lazy(&endpoint),
            None => endpoint.connect_lazy(),
        })
    }

    /// A connection that is there.
    pub(super) async fn connect(
        &self,
        url: &str,
        set: impl FnOnce(Endpoint) -> Endpoint,
    ) -> Result<Channel, DialError> {
        let endpoint = set(peer_connector::endpoint(url)?);
        let connected = match self.connector(url)? {
            Some(connector) => connector.connect(&endpoint).await,
            None => endpoint.connect().await,
        };
        Ok(connected?)
    }

    fn connector(&self, url: &str) -> Result<Option<&Arc<PeerConnector>>, DialError> {
        match &self.0 {
            _ if !PeerDialer::is_secure(url) => Ok(None),
            Some(connector) => Ok(Some(connector)),
            None => Err(DialError::NoCa),
        }
    }
}
