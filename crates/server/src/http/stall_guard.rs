//! An HTTP/1 connection that fails if its client does not read its response, or has left silently.
//!
//! hyper waits for the socket to have room without a timeout, and reads only what it needs: a
//! client that leaves while unread data is queued would keep its connection, and its watches, for
//! ever.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Interval, MissedTickBehavior, Sleep, interval, sleep};

use super::Timeouts;
use super::listen::DetectsDisconnect;

pub(super) struct StallGuard<T> {
    io: T,
    timeouts: Timeouts,
    /// The time since which a write has been blocked.
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

    /// Whether the client has left. Checked twice, because one that only closed its sending side
    /// may wait for a quick response.
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

    /// Returns the result of a write, or an error if it was blocked for too long.
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

    /// hyper flushes whenever it has no more to do, so this is where it gets the errors that it
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
