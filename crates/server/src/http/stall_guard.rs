//! An HTTP/1 connection that is given up when its client takes nothing of its answer, or has left
//! without being heard.
//!
//! hyper writes on for as long as the socket may have room again, and reads only what it needs: a
//! client that leaves while more of it is to be read than an answer needs would keep its
//! connection, and what it watches, for ever.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Interval, MissedTickBehavior, Sleep, interval, sleep};

use super::Timeouts;
use super::detect::Rewound;
use super::listen::Stream;

/// Something that knows whether the other end sends nothing more.
pub(super) trait DetectsDisconnect {
    fn is_disconnected(&self) -> bool;
}

impl DetectsDisconnect for Rewound<Stream> {
    fn is_disconnected(&self) -> bool {
        self.inner().is_disconnected()
    }
}

pub(super) struct StallGuard<T> {
    io: T,
    timeouts: Timeouts,
    /// Since something could not be written.
    stalled: Option<Pin<Box<Sleep>>>,
    checks: Interval,
    seemed_gone: bool,
}

impl<T: DetectsDisconnect> StallGuard<T> {
    pub(super) fn new(io: T, timeouts: Timeouts) -> StallGuard<T> {
        let mut checks = interval(timeouts.disconnect_check_interval);
        checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        StallGuard { io, timeouts, stalled: None, checks, seemed_gone: false }
    }

    /// Whether the client has left. Twice, because one that only sends nothing more may be waiting
    /// for a quick answer.
    fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        loop {
            ready!(self.checks.poll_tick(cx));
            let seems_gone = self.io.is_disconnected();
            if std::mem::replace(&mut self.seemed_gone, seems_gone) && seems_gone {
                return Poll::Ready(io::Error::new(
                    io::ErrorKind::NotConnected,
                    "the client has disconnected",
                ));
            }
        }
    }

    /// Passes on what became of a write, unless that has been waited for too long.
    fn fail_if_stalled<R>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        if written.is_ready() {
            self.stalled = None;
            return written;
        }
        let timeout = self.timeouts.unread_response;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(timeout)));
        ready!(stalled.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the response was not read in time")))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for StallGuard<T> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_read(cx, buf)
    }
}

impl<T: AsyncWrite + DetectsDisconnect + Unpin> AsyncWrite for StallGuard<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.io).poll_write(cx, buf);
        this.fail_if_stalled(cx, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.io).poll_write_vectored(cx, bufs);
        this.fail_if_stalled(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    /// hyper asks for this whenever it has done what it can, so this is where it is told what it
    /// does not look for.
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if let Poll::Ready(gone) = this.poll_gone(cx) {
            return Poll::Ready(Err(gone));
        }
        let flushed = Pin::new(&mut this.io).poll_flush(cx);
        this.fail_if_stalled(cx, flushed)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let ended = Pin::new(&mut this.io).poll_shutdown(cx);
        this.fail_if_stalled(cx, ended)
    }
}
