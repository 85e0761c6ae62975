//! What is between client and server: bytes that are read and written in pieces of any size.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::BytesMut;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::Choices;
use crate::frame::Header;

#[derive(Debug, Default)]
struct Pipe {
    bytes: BytesMut,
    /// Bytes that have been taken out.
    moved: u64,
    is_closed: bool,
    /// The server's end was dropped.
    is_left: bool,
    /// The server's task, if it waits for bytes or for room.
    waker: Option<Waker>,
    /// Bytes that one read or write moves.
    step_max: usize,
    /// Bytes that it holds.
    capacity: usize,
}

impl Pipe {
    fn new(step_max: usize, capacity: usize) -> Arc<Mutex<Pipe>> {
        Arc::new(Mutex::new(Pipe { step_max, capacity, ..Pipe::default() }))
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    [&Header { len: payload.len(), kind, flags, stream }.encode(), payload].concat()
}

/// No limit that matters.
const WIDE: usize = 1 << 20;

/// The server's end.
#[derive(Debug)]
pub(super) struct Wire {
    to_server: Arc<Mutex<Pipe>>,
    to_client: Arc<Mutex<Pipe>>,
}

/// The client's end. Dropping it closes the connection.
#[derive(Debug)]
pub(super) struct FarEnd {
    to_server: Arc<Mutex<Pipe>>,
    to_client: Arc<Mutex<Pipe>>,
}

impl Wire {
    pub(super) fn new(choices: &mut Choices) -> (Wire, FarEnd) {
        let to_server = Pipe::new(choices.one_of(&[WIDE, 1, 9, 100, 5000]), usize::MAX);
        let write_max = choices.one_of(&[WIDE, 1000, 20_000, 30]);
        let to_client = Pipe::new(write_max, choices.one_of(&[WIDE, 100, 10_000, 100_000]));
        let wire = Wire { to_server: Arc::clone(&to_server), to_client: Arc::clone(&to_client) };
        (wire, FarEnd { to_server, to_client })
    }
}

impl FarEnd {
    pub(super) fn send(&self, bytes: &[u8]) {
        let mut pipe = self.to_server.lock();
        pipe.bytes.extend_from_slice(bytes);
        pipe.wake();
    }

    /// Adds at most `max` bytes of what has come to `input`.
    pub(super) fn take(&self, max: usize, input: &mut BytesMut) {
        let mut pipe = self.to_client.lock();
        let len = pipe.bytes.len().min(max);
        pipe.moved += len as u64;
        pipe.wake();
        input.extend_from_slice(&pipe.bytes.split_to(len));
    }
}

impl FarEnd {
    /// Lifts the limits. Most of a run would otherwise be spent on moving the last answers by a
    /// few bytes at a time.
    pub(super) fn widen(&self) {
        for pipe in [&self.to_server, &self.to_client] {
            let mut pipe = pipe.lock();
            (pipe.step_max, pipe.capacity) = (WIDE, WIDE);
            pipe.wake();
        }
    }

    /// The server has hung up, and everything that it sent was taken.
    pub(super) fn is_over(&self) -> bool {
        let pipe = self.to_client.lock();
        pipe.is_left && pipe.bytes.is_empty()
    }

    /// Bytes that have come through, either way.
    pub(super) fn moved(&self) -> u64 {
        self.to_server.lock().moved + self.to_client.lock().moved
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.to_client.lock().is_left = true;
    }
}

impl FarEnd {
    pub(super) fn close(&self) {
        for pipe in [&self.to_server, &self.to_client] {
            let mut pipe = pipe.lock();
            pipe.is_closed = true;
            pipe.wake();
        }
    }
}

impl Drop for FarEnd {
    fn drop(&mut self) {
        self.close();
    }
}

impl AsyncRead for Wire {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut pipe = self.to_server.lock();
        let len = pipe.bytes.len().min(buf.remaining()).min(pipe.step_max);
        if len == 0 && !pipe.is_closed {
            pipe.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        pipe.moved += len as u64;
        buf.put_slice(&pipe.bytes.split_to(len));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let mut pipe = self.to_client.lock();
        if pipe.is_closed {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let room = pipe.capacity.saturating_sub(pipe.bytes.len());
        let len = buf.len().min(pipe.step_max).min(room);
        if len == 0 {
            pipe.waker = Some(cx.waker().clone());
            return Poll::Pending;
        }
        pipe.bytes.extend_from_slice(&buf[..len]);
        Poll::Ready(Ok(len))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
