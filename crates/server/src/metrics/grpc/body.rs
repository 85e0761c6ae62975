//! Bodies that count the gRPC messages passing through them.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Context, Poll, ready};

use http_body::{Body as HttpBody, Frame, SizeHint};
use tonic::body::Body;
use tonic::{Code, Status};

use super::{Call, Counters, Traffic};

/// Finds message boundaries in a gRPC body: each message is a flag byte, four bytes of length, and
/// that many bytes.
#[derive(Debug, Default)]
struct Scanner {
    /// Bytes of the message that are still to come.
    skip: usize,
    /// The part of a message's prefix seen so far.
    prefix: [u8; 5],
    prefix_len: usize,
}

impl Scanner {
    /// The messages that begin in `data`, and the bytes of messages in it without their prefixes.
    fn scan(&mut self, mut data: &[u8]) -> (u64, u64) {
        let (mut messages, mut bytes) = (0, 0);
        while !data.is_empty() {
            let skipped = self.skip.min(data.len());
            self.skip -= skipped;
            bytes += skipped as u64;
            data = &data[skipped..];
            let taken = data.len().min(5 - self.prefix_len);
            self.prefix[self.prefix_len..self.prefix_len + taken].copy_from_slice(&data[..taken]);
            self.prefix_len += taken;
            data = &data[taken..];
            if self.prefix_len == 5 {
                let [_, a, b, c, d] = self.prefix;
                self.skip = u32::from_be_bytes([a, b, c, d]) as usize;
                self.prefix_len = 0;
                messages += 1;
            }
        }
        (messages, bytes)
    }
}

type Frames = Poll<Option<Result<Frame<bytes::Bytes>, Status>>>;

/// A request on its way in.
#[derive(Debug)]
pub(super) struct Incoming {
    body: Body,
    scanner: Scanner,
    counters: Arc<Counters>,
    traffic: Arc<Traffic>,
}

impl Incoming {
    pub(super) fn new(body: Body, counters: Arc<Counters>, traffic: Arc<Traffic>) -> Incoming {
        Incoming { body, scanner: Scanner::default(), counters, traffic }
    }
}

impl HttpBody for Incoming {
    type Data = bytes::Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Frames {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let Some(data) = frame.as_ref().and_then(|f| f.as_ref().ok()?.data_ref()) {
            let (messages, bytes) = self.scanner.scan(data);
            self.counters.received.fetch_add(messages, Relaxed);
            self.traffic.received.fetch_add(bytes, Relaxed);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A response on its way out; its trailers have the status.
#[derive(Debug)]
pub(super) struct Outgoing {
    body: Body,
    scanner: Scanner,
    call: Call,
}

impl Outgoing {
    pub(super) fn new(body: Body, call: Call) -> Outgoing {
        Outgoing { body, scanner: Scanner::default(), call }
    }
}

impl HttpBody for Outgoing {
    type Data = bytes::Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Frames {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        match &frame {
            None => self.call.finish(Code::Ok),
            Some(Err(status)) => self.call.finish(status.code()),
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    let (messages, bytes) = self.scanner.scan(data);
                    self.call.counters.sent.fetch_add(messages, Relaxed);
                    self.call.traffic.sent.fetch_add(bytes, Relaxed);
                } else if let Some(status) = frame.trailers_ref().and_then(Status::from_header_map) {
                    self.call.finish(status.code());
                }
            }
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(len: usize) -> Vec<u8> {
        let mut out = vec![0];
        out.extend(u32::try_from(len).unwrap().to_be_bytes());
        out.resize(len + 5, 7);
        out
    }

    #[test]
    fn messages_are_found_however_the_bytes_are_cut() {
        let stream: Vec<u8> = [message(3), message(0), message(300), message(1)].concat();
        for size in [1, 2, 5, 7, 64, stream.len()] {
            let mut scanner = Scanner::default();
            let mut total = (0, 0);
            for part in stream.chunks(size) {
                let (messages, bytes) = scanner.scan(part);
                total = (total.0 + messages, total.1 + bytes);
            }
            assert_eq!(total, (4, 304), "in parts of {size}");
        }
    }
}
