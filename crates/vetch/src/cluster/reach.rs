//! How the other servers of a cluster are called: at the URLs they announce, over TLS if those say
//! so.

use std::sync::Arc;

use tonic::transport::{Channel, Endpoint};
use vetch_server::tls::TlsError;
use vetch_server::tls::calls::{self, Calls};
use vetch_server::tls::settings::TlsSettings;

use crate::commands::client::with_causes;

const SECURE: &str = "https://";

/// Cloning copies a pointer.
#[derive(Debug, Clone)]
pub(crate) struct Reach(Option<Arc<Calls>>);

impl Reach {
    /// Reads the files that `tls` names. Without it, only servers without TLS can be called.
    pub(crate) fn open(tls: Option<&TlsSettings>) -> Result<Reach, TlsError> {
        Ok(Reach(tls.map(Calls::open).transpose()?.map(Arc::new)))
    }

    pub(super) fn is_secure(url: &str) -> bool {
        url.starts_with(SECURE)
    }

    /// A connection that is made when it is needed. `set` says how the endpoint is to be treated.
    pub(super) fn lazily(
        &self,
        url: &str,
        set: impl FnOnce(Endpoint) -> Endpoint,
    ) -> Result<Channel, String> {
        let endpoint = set(calls::endpoint(url).map_err(with_causes)?);
        Ok(match self.calls(url)? {
            Some(calls) => calls.connect_lazy(&endpoint),
            None => endpoint.connect_lazy(),
        })
    }

    /// A connection that is there.
    pub(super) async fn at_once(
        &self,
        url: &str,
        set: impl FnOnce(Endpoint) -> Endpoint,
    ) -> Result<Channel, String> {
        let endpoint = set(calls::endpoint(url).map_err(with_causes)?);
        let connected = match self.calls(url)? {
            Some(calls) => calls.connect(&endpoint).await,
            None => endpoint.connect().await,
        };
        connected.map_err(with_causes)
    }

    fn calls(&self, url: &str) -> Result<Option<&Arc<Calls>>, String> {
        match &self.0 {
            _ if !Reach::is_secure(url) => Ok(None),
            Some(calls) => Ok(Some(calls)),
            None => Err(
                "it speaks TLS, and this server has neither --trusted-ca-file nor --peer-trusted-ca-file to \
                         verify it by"
                    .into(),
            ),
        }
    }
}
