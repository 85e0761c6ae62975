//! From listen URLs to open sockets, with TLS where the URL has it.

use std::io;
use std::sync::Arc;

use vetch_server::http::listen::{self, Listener};
use vetch_server::http::url::Url;
use vetch_server::http::{ListenerConfig, Security, Serves};
use vetch_server::tls::settings::TlsSettings;
use vetch_server::tls::{Tls, TlsError};

use crate::settings::Settings;

#[derive(Debug, thiserror::Error)]
pub(crate) enum SocketError {
    #[error("cannot listen on {url}: {error}")]
    Listen { url: String, error: io::Error },
    #[error("cannot serve TLS: {0}")]
    Tls(#[from] TlsError),
}

/// Opens all sockets. Certificates are read first, so that a wrong one is found before any client
/// can connect.
pub(crate) async fn bind(settings: &Settings) -> Result<Vec<(Listener, ListenerConfig)>, SocketError> {
    let mut endpoints = Endpoints::default();
    let mut listeners: Vec<(Listener, ListenerConfig)> = Vec::new();
    let mut addresses: Vec<(String, Serves)> = Vec::new();
    for (url, serves) in &settings.listeners {
        let tls = settings.tls(*serves);
        let security = endpoints.security(url, *serves, tls)?;
        let place = (url.address(), *serves);
        if let Some(same) = addresses.iter().position(|known| *known == place) {
            let (_, config) = &mut listeners[same];
            config.security = both(&config.security, security);
            continue;
        }
        let listener = listen::bind(url, settings.reuse_port).await;
        let failed = |error| SocketError::Listen { url: url.to_string(), error };
        listeners.push((listener.map_err(failed)?, ListenerConfig { serves: *serves, security }));
        addresses.push(place);
    }
    Ok(listeners)
}

/// One address that is given with TLS and without it.
fn both(first: &Security, second: Security) -> Security {
    match (first, second) {
        (Security::Plain, Security::Tls(tls)) => Security::Either(tls),
        (Security::Tls(tls), Security::Plain) => Security::Either(tls.clone()),
        (first, _) => first.clone(),
    }
}

/// TLS for clients and for peers, each read when it is needed and then shared.
#[derive(Default)]
struct Endpoints {
    client: Option<Arc<Tls>>,
    peer: Option<Arc<Tls>>,
}

impl Endpoints {
    fn security(&mut self, url: &Url, serves: Serves, tls: &TlsSettings) -> Result<Security, TlsError> {
        if !url.is_secure() {
            warn_of_plaintext(url, tls);
            return Ok(Security::Plain);
        }
        let slot = if serves == Serves::Peer { &mut self.peer } else { &mut self.client };
        if slot.is_none() {
            *slot = Some(Arc::new(Tls::open(tls)?));
        }
        Ok(Security::Tls(slot.clone().expect("it was just opened")))
    }
}

/// TLS is configured, but this URL does not use it. That is allowed, and often a mistake.
fn warn_of_plaintext(url: &Url, tls: &TlsSettings) {
    if !tls.is_empty() {
        tracing::warn!(
            %url,
            "scheme is http or unix while key and cert files are present; ignoring key and cert files"
        );
    }
    if tls.client_cert_auth {
        tracing::warn!(
            %url,
            "scheme is http or unix while --client-cert-auth is enabled; ignoring client cert auth for this URL"
        );
    }
}
