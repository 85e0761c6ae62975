//! One handshake, from a client's first byte to a connection that can be used.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::UnixTime;
use rustls::server::Acceptor;
use rustls::{Error, HandshakeKind};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

use super::client_verifier::describe;
use super::endpoint::{LoadedConfig, Tls};
use super::failures::Reason;
use super::peer::PeerIdentity;

/// A connection that is ready for use.
#[derive(Debug)]
pub(crate) struct Secured<IO> {
    pub(crate) stream: TlsStream<IO>,
    /// Set if the client showed a certificate.
    pub(crate) peer: Option<PeerIdentity>,
}

/// Why the handshake failed.
#[derive(Debug)]
pub(crate) struct HandshakeError {
    pub(crate) reason: Reason,
    /// The server name that the client requested, if it came that far.
    pub(crate) server_name: String,
    pub(crate) text: String,
}

impl Tls {
    /// Does the handshake. The caller sets the timeout.
    pub(crate) async fn accept<IO>(self: &Arc<Tls>, io: IO) -> Result<Secured<IO>, HandshakeError>
    where
        IO: AsyncRead + AsyncWrite + Unpin,
    {
        let start = LazyConfigAcceptor::new(Acceptor::default(), io).await;
        let start = start.map_err(|error| failure(String::new(), &error))?;
        let server_name = start.client_hello().server_name().unwrap_or_default().to_string();
        let loaded = self.current().await;
        let stream = match start.into_stream(loaded.config.clone()).into_fallible().await {
            Ok(stream) => stream,
            Err((error, io)) => {
                close_gracefully(io).await;
                return Err(failure(server_name, &error));
            }
        };
        match peer_identity(&loaded, &stream) {
            Ok(peer) => Ok(Secured { stream, peer }),
            Err(error) => {
                close_gracefully(stream).await;
                Err(HandshakeError { reason: Reason::Certificate, server_name, text: describe(&error) })
            }
        }
    }
}

/// Closes the connection and reads on for a while. A client that is still sending would otherwise
/// get a reset, and never read why it was refused.
pub(crate) async fn close_gracefully<IO>(mut io: IO)
where
    IO: AsyncRead + AsyncWrite + Unpin,
{
    const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);
    const BYTES: u64 = 64 << 10;
    let leaving = async {
        io.shutdown().await?;
        tokio::io::copy(&mut io.take(BYTES), &mut tokio::io::sink()).await
    };
    // Errors are ignored: the connection is closed anyway.
    let _ = tokio::time::timeout(CLOSE_TIMEOUT, leaving).await;
}

/// The client's identity. A resumed session shows no certificate; the one of the earlier session is
/// verified again, because it may have expired or been revoked since.
fn peer_identity<IO>(loaded: &LoadedConfig, stream: &TlsStream<IO>) -> Result<Option<PeerIdentity>, Error> {
    let connection = stream.get_ref().1;
    let chain = connection.peer_certificates().unwrap_or_default();
    if let Some(verifier) = &loaded.verifier
        && connection.handshake_kind() == Some(HandshakeKind::Resumed)
    {
        verifier.check(chain, UnixTime::now())?;
    }
    Ok(PeerIdentity::from_chain(chain))
}

fn failure(server_name: String, error: &io::Error) -> HandshakeError {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    let reason = match tls {
        Some(Error::InvalidCertificate(_) | Error::NoCertificatesPresented) => Reason::Certificate,
        Some(_) => Reason::Protocol,
        None => Reason::Closed,
    };
    HandshakeError { reason, server_name, text: tls.map_or_else(|| error.to_string(), describe) }
}
