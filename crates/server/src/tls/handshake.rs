//! One handshake, from a client's first byte to a connection that can be used.

use std::io;
use std::sync::Arc;

use rustls::pki_types::UnixTime;
use rustls::server::Acceptor;
use rustls::{Error, HandshakeKind};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

use super::endpoint::{Generation, Tls};
use super::failures::Reason;
use super::peer::PeerIdentity;

/// A connection that is ready for use.
#[derive(Debug)]
pub(crate) struct Secured<IO> {
    pub(crate) stream: TlsStream<IO>,
    /// Set if the client showed a certificate.
    pub(crate) peer: Option<PeerIdentity>,
}

/// Why there is none.
#[derive(Debug)]
pub(crate) struct HandshakeError {
    pub(crate) reason: Reason,
    /// Whom the client asked for, if it came that far.
    pub(crate) server_name: String,
    pub(crate) text: String,
}

impl Tls {
    /// Does the handshake. How long it may take is the caller's business.
    pub(crate) async fn accept<IO>(self: &Arc<Tls>, io: IO) -> Result<Secured<IO>, HandshakeError>
    where
        IO: AsyncRead + AsyncWrite + Unpin,
    {
        let start = LazyConfigAcceptor::new(Acceptor::default(), io).await;
        let start = start.map_err(|error| failure(String::new(), &error))?;
        let server_name = start.client_hello().server_name().unwrap_or_default().to_string();
        let generation = self.current().await;
        let stream = start.into_stream(generation.config.clone()).await;
        let stream = stream.map_err(|error| failure(server_name.clone(), &error))?;
        let peer = admit(&generation, &stream).map_err(|error| HandshakeError {
            reason: Reason::Certificate,
            server_name,
            text: error.to_string(),
        })?;
        Ok(Secured { stream, peer })
    }
}

/// Who the client is. Whoever resumes an earlier session has shown a certificate then, not now: it is checked again,
/// because it may have ended or been revoked since.
fn admit<IO>(generation: &Generation, stream: &TlsStream<IO>) -> Result<Option<PeerIdentity>, Error> {
    let connection = stream.get_ref().1;
    let chain = connection.peer_certificates().unwrap_or_default();
    if let Some(gate) = &generation.gate
        && connection.handshake_kind() == Some(HandshakeKind::Resumed)
    {
        gate.check(chain, UnixTime::now())?;
    }
    Ok(PeerIdentity::of(chain))
}

fn failure(server_name: String, error: &io::Error) -> HandshakeError {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    let reason = match tls {
        Some(Error::InvalidCertificate(_) | Error::NoCertificatesPresented) => Reason::Certificate,
        Some(_) => Reason::Protocol,
        None => Reason::Closed,
    };
    HandshakeError { reason, server_name, text: error.to_string() }
}
