//! Reading what is there and writing what can be written.

use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};

use crate::protocol::Output;

/// Bytes per read: little at first, more from clients that send much.
const LITTLE: usize = 16 << 10;
const MUCH: usize = 64 << 10;
/// Parts of one write.
const PARTS: usize = 64;

#[derive(Debug)]
pub(crate) struct Transport<I> {
    io: I,
    pub(crate) input: BytesMut,
    read_size: usize,
}

impl<I: AsyncRead + AsyncWrite + Unpin> Transport<I> {
    pub(crate) fn new(io: I) -> Transport<I> {
        Transport { io, input: BytesMut::new(), read_size: LITTLE }
    }

    /// Adds to the input. 0: the client has sent its last byte.
    pub(crate) fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.input.capacity() - self.input.len() < self.read_size / 2 {
            self.input.reserve(self.read_size);
        }
        let len = ready!(pin!(self.io.read_buf(&mut self.input)).poll(cx))?;
        if self.input.len() == self.input.capacity() {
            self.read_size = MUCH;
        }
        Poll::Ready(Ok(len))
    }

    /// Nothing is read for now, so no memory is held for it but for what has come of a frame.
    pub(crate) fn rest(&mut self) {
        if self.input.capacity() > 2 * self.input.len() {
            self.input = BytesMut::from(&self.input[..]);
        }
    }

    /// Writes once. The number of bytes that were taken.
    pub(crate) fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        output: &mut Output,
    ) -> Poll<io::Result<usize>> {
        let written = {
            let mut places = [IoSlice::new(&[]); PARTS];
            let filled = output.parts(&mut places);
            let io = Pin::new(&mut self.io);
            match filled {
                1 => ready!(io.poll_write(cx, &places[0]))?,
                _ => ready!(io.poll_write_vectored(cx, &places[..filled]))?,
            }
        };
        if written == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        output.advance(written);
        Poll::Ready(Ok(written))
    }

    pub(crate) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    pub(crate) fn poll_shutdown(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}
