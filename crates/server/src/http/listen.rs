//! Sockets: opening them, and accepting connections.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt;
use rustix::net::sockopt;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixStream};
use tokio_rustls::server::TlsStream;

use super::detect::Rewound;
use super::url::{Address, Url};

/// Opens the socket a URL names. A socket file left by an earlier process is replaced; any other
/// file is not.
pub async fn bind(url: &Url, reuse_port: bool) -> io::Result<Listener> {
    match url.target() {
        Address::Tcp(address) => Ok(Listener::Tcp(bind_tcp(address, reuse_port).await?)),
        Address::Unix(path) => {
            remove_stale_socket(path)?;
            Ok(Listener::Unix(UnixListener::bind(path)?, path.clone()))
        }
    }
}

/// The kernel's queue of connections that were not accepted yet.
const BACKLOG: u32 = 4096;

async fn bind_tcp(address: &str, reuse_port: bool) -> io::Result<TcpListener> {
    // An address without a host means every interface, one without a port any port.
    let address = match address.strip_prefix(':') {
        Some(port) => format!("[::]:{port}"),
        None => address.to_string(),
    };
    let address = if address.ends_with(':') { address + "0" } else { address };
    let mut found: Vec<SocketAddr> = tokio::net::lookup_host(&address).await?.collect();
    // A name such as localhost usually has both kinds of address, and IPv4 is the one clients try
    // first.
    found.sort_by_key(SocketAddr::is_ipv6);
    if let [SocketAddr::V4(all)] = found[..]
        && all.ip().is_unspecified()
    {
        // As in Go, 0.0.0.0 means every interface by either protocol; on machines without IPv6, by
        // one.
        found.insert(0, SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), all.port()));
    }
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in found {
        match bind_address(address, reuse_port) {
            Ok(listener) => return Ok(listener),
            Err(e) => failure = e,
        }
    }
    Err(failure)
}

fn bind_address(address: SocketAddr, reuse_port: bool) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    if address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED) {
        sockopt::set_ipv6_v6only(&socket, false)?;
    }
    // A restarted server must not wait for its predecessor's connections to time out.
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(reuse_port)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

fn remove_stale_socket(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => fs::remove_file(path),
        Ok(_) => Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            format!("{} exists and is not a socket", path.display()),
        )),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(e),
    }
}

/// An open listening socket. Dropping a Unix one removes its file.
#[derive(Debug)]
pub enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

impl Listener {
    pub async fn accept(&self) -> io::Result<Stream> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                // Responses are small and urgent; waiting to fill a packet would add milliseconds.
                stream.set_nodelay(true)?;
                enable_tcp_keepalive(&stream)?;
                Ok(Stream::Tcp(stream))
            }
            Listener::Unix(listener, _) => Ok(Stream::Unix(listener.accept().await?.0)),
        }
    }

    /// The bound address, for the log.
    pub fn address(&self) -> String {
        match self {
            Listener::Tcp(listener) => listener.local_addr().map(|a| a.to_string()).unwrap_or_default(),
            Listener::Unix(_, path) => path.display().to_string(),
        }
    }
}

/// A peer that vanished silently would otherwise hold its HTTP/1 stream for ever; HTTP/2 has its
/// own pings.
fn enable_tcp_keepalive(stream: &TcpStream) -> io::Result<()> {
    const IDLE: Duration = Duration::from_secs(15);
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, IDLE)?;
    sockopt::set_tcp_keepintvl(stream, IDLE)?;
    Ok(())
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listener::Unix(_, path) = self {
            // A failure here is harmless: the next start replaces the file.
            let _ = fs::remove_file(path);
        }
    }
}

/// One accepted connection.
#[derive(Debug)]
pub enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    /// Either of them, with TLS on top. Boxed, because a session takes a kilobyte that the others
    /// do not need.
    Tls(Box<TlsStream<Rewound<Stream>>>),
}

impl Stream {
    /// The other end, for the log.
    pub(super) fn remote(&self) -> String {
        match self {
            Stream::Tcp(stream) => stream.peer_addr().map(|a| a.to_string()).unwrap_or_default(),
            Stream::Unix(_) => "@".to_string(),
            Stream::Tls(stream) => stream.get_ref().0.inner().remote(),
        }
    }
}

/// A socket that knows whether the other end has closed its side.
pub(super) trait DetectsDisconnect {
    fn is_disconnected(&self) -> bool;
}

impl DetectsDisconnect for Stream {
    /// Whether the other end has closed its side, even if data is left to be read.
    fn is_disconnected(&self) -> bool {
        let ready = match self {
            Stream::Tcp(stream) => stream.ready(Interest::READABLE).now_or_never(),
            Stream::Unix(stream) => stream.ready(Interest::READABLE).now_or_never(),
            Stream::Tls(stream) => return stream.get_ref().0.inner().is_disconnected(),
        };
        ready.is_some_and(|ready| ready.is_ok_and(|ready| ready.is_read_closed()))
    }
}

impl DetectsDisconnect for Rewound<Stream> {
    fn is_disconnected(&self) -> bool {
        self.inner().is_disconnected()
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(s) => Pin::new(s).poll_read(cx, buf),
            Stream::Unix(s) => Pin::new(s).poll_read(cx, buf),
            Stream::Tls(s) => Pin::new(s).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Tcp(s) => Pin::new(s).poll_write(cx, buf),
            Stream::Unix(s) => Pin::new(s).poll_write(cx, buf),
            Stream::Tls(s) => Pin::new(s).poll_write(cx, buf),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(s) => Pin::new(s).poll_flush(cx),
            Stream::Unix(s) => Pin::new(s).poll_flush(cx),
            Stream::Tls(s) => Pin::new(s).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Tcp(s) => Pin::new(s).poll_shutdown(cx),
            Stream::Unix(s) => Pin::new(s).poll_shutdown(cx),
            Stream::Tls(s) => Pin::new(s).poll_shutdown(cx),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Tcp(s) => Pin::new(s).poll_write_vectored(cx, bufs),
            Stream::Unix(s) => Pin::new(s).poll_write_vectored(cx, bufs),
            Stream::Tls(s) => Pin::new(s).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Stream::Tcp(s) => s.is_write_vectored(),
            Stream::Unix(s) => s.is_write_vectored(),
            Stream::Tls(s) => s.is_write_vectored(),
        }
    }
}

#[cfg(test)]
mod tests;
