//! From an accepted socket to a connection whose protocol is known: TLS first if the listener
//! speaks it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::detect::{Protocol, Rewound, detect};
use super::listen::Stream;
use super::listener_config::{ListenerConfig, Security, Serves};
use vetch_tls::{HandshakeError, PeerIdentity, Reason, Tls, close_gracefully};

/// A connection that is ready to be served.
pub(super) struct Established {
    pub(super) protocol: Protocol,
    pub(super) io: Rewound<Stream>,
    pub(super) is_secure: bool,
    /// The client's certificate, if it showed one.
    pub(super) peer: Option<PeerIdentity>,
}

/// Timeout of a whole handshake, as in etcd.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout for the first bytes, which tell the protocol.
const PROTOCOL_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// The first byte of every TLS handshake.
const TLS_HANDSHAKE: u8 = 0x16;

/// None: the client is gone, or was refused.
pub(super) async fn establish(stream: Stream, config: &ListenerConfig) -> Option<Established> {
    let (stream, seen, peer) = match &config.security {
        Security::Plain => (stream, BytesMut::new(), None),
        Security::Tls(tls) => establish_tls(stream, tls, false, config.serves).await?,
        Security::Either(tls) => establish_tls(stream, tls, true, config.serves).await?,
    };
    let is_secure = matches!(stream, Stream::Tls(_));
    let detecting = tokio::time::timeout(PROTOCOL_TIMEOUT, detect(stream, seen)).await;
    let (protocol, io) = detecting.ok()?.ok()??;
    Some(Established { protocol, io, is_secure, peer })
}

type Opened = (Stream, BytesMut, Option<PeerIdentity>);

async fn establish_tls(stream: Stream, tls: &Arc<Tls>, or_plain: bool, serves: Serves) -> Option<Opened> {
    let remote = stream.remote();
    let opened = tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake(stream, tls, or_plain)).await;
    let error = match opened {
        Ok(Ok(opened)) => return Some(opened),
        Ok(Err(error)) => error,
        Err(_) => refused(Reason::Timeout, "TLS handshake took too long"),
    };
    tls.failures.note(serves.endpoint(), error.reason, &remote, &error.server_name, &error.text);
    None
}

async fn handshake(mut stream: Stream, tls: &Arc<Tls>, or_plain: bool) -> Result<Opened, HandshakeError> {
    let mut seen = BytesMut::with_capacity(SNIFF_LEN);
    let gone = |e: io::Error| refused(Reason::Closed, &e.to_string());
    if stream.read_buf(&mut seen).await.map_err(gone)? == 0 {
        return Err(refused(Reason::Closed, "EOF"));
    }
    if seen[0] == TLS_HANDSHAKE {
        let secured = tls.accept(Rewound::new(seen.freeze(), stream)).await?;
        return Ok((Stream::Tls(Box::new(secured.stream)), BytesMut::new(), secured.peer));
    }
    if or_plain {
        return Ok((stream, seen, None));
    }
    while seen.len() < SNIFF_LEN && stream.read_buf(&mut seen).await.map_err(gone)? > 0 {}
    if !looks_like_http(&seen) {
        return Err(refused(Reason::NotTls, "first record does not look like a TLS handshake"));
    }
    // The client may be gone; the write may fail.
    let _ = stream.write_all(HTTP_ON_TLS_PORT).await;
    close_gracefully(stream).await;
    Err(refused(Reason::NotTls, "client sent an HTTP request to an HTTPS server"))
}

/// The response to plain HTTP on a TLS listener, in the words of Go's servers.
const HTTP_ON_TLS_PORT: &[u8] =
    b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";

/// Bytes that suffice to recognise HTTP.
const SNIFF_LEN: usize = 5;

fn looks_like_http(seen: &[u8]) -> bool {
    let known: [&[u8; SNIFF_LEN]; 5] = [b"GET /", b"HEAD ", b"POST ", b"PUT /", b"OPTIO"];
    known.iter().any(|opening| seen.starts_with(*opening))
}

fn refused(reason: Reason, text: &str) -> HandshakeError {
    HandshakeError { reason, server_name: String::new(), text: text.to_string() }
}
