//! Connections to other servers, on which this one is the client.
//!
//! The files are checked before every handshake, so a new connection always uses their present
//! contents; the last usable contents stay in use until newer ones are usable, as on listeners.
//! Sessions are not resumed, so none outlives the files that it was agreed on with.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Uri;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rustls::client::Resumption;
use rustls::pki_types::{ServerName, UnixTime};
use rustls::sign::SingleCertAndKey;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::transport::{Channel, Endpoint, Error};
use tower::service_fn;
use vetch_http2::border;

use super::endpoint::{StaticConfig, identity, incomplete_pair, reload};
use super::error::TlsError;
use super::files::Reloadable;
use super::material::{Identity, TrustedCas};
use super::settings::TlsSettings;

/// A server that cannot be reached is called again and again; the reason is logged at this
/// interval.
const FAILURE_LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Does the TLS handshakes of calls to other servers.
pub struct PeerConnector {
    fixed: StaticConfig,
    files: Mutex<Files>,
    last_logged: Mutex<Option<Instant>>,
}

struct Files {
    /// None: no client certificate.
    identity: Option<Reloadable<Identity>>,
    trust: Reloadable<TrustedCas>,
}

impl PeerConnector {
    /// Uses the client certificate in `settings`, if there is one, and verifies servers with their
    /// CAs.
    pub fn open(settings: &TlsSettings) -> Result<PeerConnector, TlsError> {
        let files = Files::open(settings)?;
        Ok(PeerConnector {
            fixed: StaticConfig::from_settings(settings)?,
            files: Mutex::new(files),
            last_logged: Mutex::default(),
        })
    }

    /// A connection that is made when it is first used, and made again when it was lost. `endpoint`
    /// comes from [`endpoint`].
    pub fn connect_lazy(self: &Arc<PeerConnector>, endpoint: &Endpoint) -> Channel {
        let this = Arc::clone(self);
        endpoint.connect_with_connector_lazy(service_fn(move |uri| Arc::clone(&this).open_stream(uri)))
    }

    /// The same, made at once.
    pub async fn connect(self: &Arc<PeerConnector>, endpoint: &Endpoint) -> Result<Channel, Error> {
        let this = Arc::clone(self);
        endpoint.connect_with_connector(service_fn(move |uri| Arc::clone(&this).open_stream(uri))).await
    }

    async fn open_stream(self: Arc<PeerConnector>, uri: Uri) -> io::Result<TokioIo<TlsStream<TcpStream>>> {
        let host = uri.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let stream = TcpStream::connect((host, uri.port_u16().unwrap_or(443))).await?;
        stream.set_nodelay(true)?;
        let secured = self.secure(host, stream).await;
        secured.map(TokioIo::new).inspect_err(|error| self.log_failure(&uri, error))
    }

    async fn secure(
        self: &Arc<PeerConnector>,
        host: &str,
        stream: TcpStream,
    ) -> io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from(host.to_string()).map_err(io::Error::other)?;
        let this = Arc::clone(self);
        // A file may be on a disk that hangs, which must not block a thread that serves others.
        let config = border::spawn_blocking(move || this.config()).await.map_err(io::Error::other)?;
        TlsConnector::from(config.map_err(io::Error::other)?).connect(name, stream).await
    }

    /// The configuration of the next handshake.
    fn config(&self) -> Result<Arc<ClientConfig>, TlsError> {
        let mut files = self.files.lock();
        files.reload();
        files.config(&self.fixed).map(Arc::new)
    }

    fn log_failure(&self, uri: &Uri, error: &io::Error) {
        let mut last_logged = self.last_logged.lock();
        if last_logged.is_none_or(|last| last.elapsed() >= FAILURE_LOG_INTERVAL) {
            *last_logged = Some(Instant::now());
            let server = uri.authority().map(|authority| authority.as_str()).unwrap_or_default();
            tracing::warn!(server, %error, "TLS handshake with another server failed");
        }
    }
}

impl fmt::Debug for PeerConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerConnector").finish_non_exhaustive()
    }
}

/// The endpoint of a server with an `https://` URL. The library would do TLS itself, so it gets the
/// URL with `http`; the server sees the real scheme.
pub fn endpoint(url: &str) -> Result<Endpoint, Error> {
    let Some(rest) = url.strip_prefix("https://") else { return Endpoint::from_shared(url.to_string()) };
    let endpoint = Endpoint::from_shared(format!("http://{rest}"))?;
    Ok(match Uri::try_from(url) {
        Ok(origin) => endpoint.origin(origin),
        // It was valid with the other scheme.
        Err(_) => endpoint,
    })
}

impl Files {
    fn open(settings: &TlsSettings) -> Result<Files, TlsError> {
        let cas = settings.trusted_ca_file.clone().ok_or(TlsError::NoTrustedCa)?;
        let identity = match (&settings.cert_file, &settings.key_file) {
            (None, None) => None,
            (Some(cert), Some(key)) => Some(Reloadable::open(vec![cert.clone(), key.clone()], identity)?),
            (cert, key) => return Err(incomplete_pair(cert, key)),
        };
        Ok(Files { identity, trust: Reloadable::open(vec![cas], trust)? })
    }

    fn reload(&mut self) {
        if let Some(identity) = &mut self.identity {
            reload(identity, "client certificate for peers");
        }
        reload(&mut self.trust, "trusted CAs for peers");
    }

    fn config(&self, fixed: &StaticConfig) -> Result<ClientConfig, TlsError> {
        let builder = ClientConfig::builder_with_provider(fixed.provider.clone())
            .with_protocol_versions(&fixed.versions)?
            .with_root_certificates(self.roots());
        let mut config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let key = SingleCertAndKey::from(identity.value().key.clone());
                builder.with_client_cert_resolver(Arc::new(key))
            }
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        config.resumption = Resumption::disabled();
        Ok(config)
    }

    /// An expired CA is not trusted. The library does not check that.
    fn roots(&self) -> RootCertStore {
        let now = UnixTime::now().as_secs() as i64;
        let trust = self.trust.value();
        let valid = trust.cas.iter().filter(|a| a.valid.0 <= now && now <= a.valid.1);
        RootCertStore { roots: valid.map(|authority| authority.anchor.clone()).collect() }
    }
}

fn trust(files: &[(PathBuf, Vec<u8>)]) -> Result<TrustedCas, TlsError> {
    let [(path, contents)] = files else { unreachable!("one path was given") };
    TrustedCas::parse(path, contents)
}
