//! Detects the protocol of a new connection by its first bytes.
//!
//! HTTP/2 with prior knowledge opens with a fixed preface; anything that differs from it is HTTP/1.
//! The bytes that were read are replayed to the protocol's own reader.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    Http1,
    Http2,
}

/// The first byte of a TLS handshake, with which no request of either protocol begins.
const TLS_HANDSHAKE: u8 = 0x16;

/// Reads until the protocol is certain. `seen` was read before. `None` if the peer left before
/// that, or opened a TLS handshake on a plain listener: it would not understand any answer.
pub(super) async fn detect<T>(mut io: T, mut seen: BytesMut) -> io::Result<Option<(Protocol, Rewound<T>)>>
where
    T: AsyncRead + Unpin,
{
    seen.reserve(PREFACE.len());
    loop {
        if seen.is_empty() && io.read_buf(&mut seen).await? == 0 {
            return Ok(None);
        }
        if seen[0] == TLS_HANDSHAKE {
            return Ok(None);
        }
        let compared = seen.len().min(PREFACE.len());
        if seen[..compared] != PREFACE[..compared] {
            return Ok(Some((Protocol::Http1, Rewound { first: seen.freeze(), io })));
        }
        if compared == PREFACE.len() {
            return Ok(Some((Protocol::Http2, Rewound { first: seen.freeze(), io })));
        }
        if io.read_buf(&mut seen).await? == 0 {
            return Ok(None);
        }
    }
}

/// A connection that first yields what was already read from it.
#[derive(Debug)]
pub struct Rewound<T> {
    first: Bytes,
    io: T,
}

impl<T> Rewound<T> {
    pub(super) fn new(first: Bytes, io: T) -> Rewound<T> {
        Rewound { first, io }
    }

    pub(super) fn inner(&self) -> &T {
        &self.io
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Rewound<T> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.first.is_empty() {
            return Pin::new(&mut this.io).poll_read(cx, buf);
        }
        let n = this.first.len().min(buf.remaining());
        buf.put_slice(&this.first[..n]);
        this.first.advance(n);
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Rewound<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().io).poll_write(cx, buf)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}

#[cfg(test)]
mod tests;
