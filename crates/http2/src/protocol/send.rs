//! Answers.
//!
//! What fits into the client's windows is put into the output at once, or by [`Protocol::pump`]
//! when there is room; the rest waits with its stream. So the output holds what can be written now,
//! and of long answers never much more than [`ENOUGH_OUTPUT`].
//!
//! A long message waits as it is and is encoded a frame at a time, as the client takes it. A body
//! is asked for no more than the windows of its stream and of the connection have room for, and a
//! part: a client that does not read costs what it asked for, not what the answers would be.

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

use super::{Code, Protocol};
use crate::frame::{Header, MAX_PAYLOAD, flag, kind};
use crate::service::LongMessage;

/// Bytes in the output beyond which nothing is added that can wait.
const ENOUGH_OUTPUT: usize = 128 << 10;
/// Bytes in the output beyond which the client is not heard. Long answers never reach it: only
/// answers to what the client sends meanwhile do, and of these there should be no more until it has
/// taken some.
const MOST_OUTPUT: usize = 256 << 10;
/// Bytes of bodies that may wait for closed windows or for a full output. Within it a body is
/// asked for one part ahead, so that the end of one that has no more data is seen, and so that a
/// small body, of a watch above all, is not held up by long messages.
const AHEAD_MAX: usize = 256 << 10;
/// How many times [`Limits::queued_answers`](crate::Limits::queued_answers) is the end even for
/// streams that are read.
const QUEUED_FACTOR: usize = 4;

/// What ends an answer.
#[derive(Debug)]
pub enum Tail {
    Nothing,
    /// `grpc-status: 0`
    GrpcOk,
    /// Rare and large, so it is not part of every stream.
    Trailers(Box<HeaderMap>),
}

/// Whether more of an answer can be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    Yes,
    /// Not now; [`Protocol::resumed`] will name the stream.
    Later,
    /// The stream is gone.
    Never,
}

impl<T: Default> Protocol<T> {
    /// A whole answer to a unary gRPC call: one message with its prefix.
    pub fn reply(&mut self, id: u32, message: Bytes) {
        let Some(window) = self.window(id) else { return };
        let len = message.len();
        let fits = len <= MAX_PAYLOAD && len as i64 <= window.min(self.windows.send);
        self.write_grpc_head(id);
        if fits {
            self.windows.send -= len as i64;
            self.write_frame(kind::DATA, 0, id, len);
            self.output.push(message);
            self.write_tail(id, Tail::GrpcOk);
        } else {
            self.send(id, message);
            self.finish(id, Tail::GrpcOk);
        }
    }

    /// The same with a message that is encoded as it is sent.
    pub fn reply_long(&mut self, id: u32, message: Box<dyn LongMessage>) {
        if self.streams.contains(id) && message.remaining() > 0 {
            self.write_grpc_head(id);
            self.streams.attach(id, message);
            self.make_ready(id);
            self.finish(id, Tail::GrpcOk);
        }
    }

    /// What may be sent on a stream, as far as its own window is concerned.
    fn window(&self, id: u32) -> Option<i64> {
        self.streams.get(id).map(|stream| self.windows.first_send + stream.send_credit)
    }

    /// The head of an answer. If it `ends` there, it is the whole answer.
    pub fn respond(&mut self, id: u32, status: StatusCode, fields: &HeaderMap, ends: bool) {
        if self.streams.contains(id) {
            self.write_head(id, status, fields, ends);
            if ends {
                self.close(id);
            }
        }
    }

    /// A part of the body of an answer.
    pub fn send(&mut self, id: u32, data: Bytes) {
        if !data.is_empty() {
            self.streams.push(id, data);
            self.make_ready(id);
        }
    }

    /// The stream has something to send; it does so when there is a window for it.
    fn make_ready(&mut self, id: u32) {
        let first_window = self.windows.first_send;
        let Some(stream) = self.streams.get_mut(id) else { return };
        if first_window + stream.send_credit > 0 && !stream.is_ready {
            stream.is_ready = true;
            self.waiting.ready.push_back(id);
        }
    }

    /// The end of an answer.
    pub fn finish(&mut self, id: u32, tail: Tail) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        if stream.unsent() > 0 {
            stream.tail = Some(tail);
        } else {
            self.write_tail(id, tail);
        }
    }

    /// Gives up an answer.
    pub fn reset(&mut self, id: u32, code: Code) {
        if self.streams.remove(id).is_some() {
            self.write_reset(id, code);
        }
    }

    /// Whether the body of an answer may give more. If not, [`Protocol::resumed`] names it when it
    /// may.
    ///
    /// A body of which nothing waits may always give one part while [`AHEAD_MAX`] allows, however
    /// full the output is. [`Protocol::pump`] sends a frame of each stream in turn, so that part
    /// soon goes out. Bodies that had to wait for room in the output would starve beside long
    /// messages: each time the socket takes something, those fill the output again.
    pub fn room(&mut self, id: u32) -> Room {
        let (is_open, is_flowing) =
            (self.is_open(), self.output.len() < ENOUGH_OUTPUT && self.windows.send > 0);
        let (all_queued, first_window) = (self.streams.queued(), self.windows.first_send);
        let Some(stream) = self.streams.get_mut(id) else { return Room::Never };
        let window = usize::try_from(first_window + stream.send_credit).unwrap_or(0);
        if stream.queued == 0 && all_queued < AHEAD_MAX {
            return Room::Yes;
        }
        let is_full = stream.queued >= self.limits.send_buffer.min(window);
        if is_full || (stream.queued > 0 && !is_open) {
            // Resumed when some of it has been sent, or its window opens.
            stream.wants_room = true;
            return Room::Later;
        }
        // One part, for a client that reads this stream, however little it reads others.
        let is_read =
            is_flowing && !self.holds_bodies && all_queued < QUEUED_FACTOR * self.limits.queued_answers;
        if is_open || is_read {
            return Room::Yes;
        }
        stream.wants_room = true;
        if !std::mem::replace(&mut stream.is_congested, true) {
            self.waiting.congested.push(id);
        }
        Room::Later
    }

    /// Whether the connection as a whole can take more of the bodies of answers.
    fn is_open(&self) -> bool {
        self.output.len() < ENOUGH_OUTPUT
            && self.windows.send > 0
            && !self.holds_bodies
            && self.streams.queued() < self.limits.queued_answers
    }

    /// Streams whose bodies were refused room and have some now.
    pub fn resumed(&mut self, out: &mut Vec<u32>) {
        if self.is_open() || self.streams.queued() < AHEAD_MAX {
            for id in self.waiting.congested.drain(..) {
                let Some(stream) = self.streams.get_mut(id) else { continue };
                stream.is_congested = false;
                if std::mem::take(&mut stream.wants_room) {
                    out.push(id);
                }
            }
        }
        out.append(&mut self.waiting.resumed);
    }

    /// The client should take something before it asks for more.
    pub fn is_congested(&self) -> bool {
        self.output.len() >= MOST_OUTPUT
    }

    /// Moves data to the output, as far as it and the windows have room; every stream a frame in
    /// turn.
    pub fn pump(&mut self) {
        while self.windows.send > 0
            && self.output.len() < ENOUGH_OUTPUT
            && let Some(id) = self.waiting.ready.pop_front()
        {
            self.send_frame(id);
        }
    }

    fn send_frame(&mut self, id: u32) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        stream.is_ready = false;
        let window = (self.windows.first_send + stream.send_credit).min(self.windows.send);
        // Its window may have been closed since; whatever opens it again makes the stream ready
        // again.
        let Ok(window @ 1..) = usize::try_from(window) else { return };
        let Some(data) = self.streams.take(id, window.min(MAX_PAYLOAD)) else { return };
        self.windows.send -= data.len() as i64;
        let Some(stream) = self.streams.get_mut(id) else { return };
        stream.send_credit -= data.len() as i64;
        let window = self.windows.first_send + stream.send_credit;
        let is_last = stream.unsent() == 0;
        if stream.wants_room && (stream.queued as i64) < window.min(self.limits.send_buffer as i64) {
            stream.wants_room = false;
            self.waiting.resumed.push(id);
        }
        if !is_last && window > 0 {
            stream.is_ready = true;
            self.waiting.ready.push_back(id);
        }
        let tail = if is_last { stream.tail.take() } else { None };
        let ends = matches!(tail, Some(Tail::Nothing));
        self.write_frame(kind::DATA, if ends { flag::END_STREAM } else { 0 }, id, data.len());
        self.output.push(data);
        match tail {
            Some(_) if ends => self.close(id),
            Some(tail) => self.write_tail(id, tail),
            None => {}
        }
    }

    fn write_tail(&mut self, id: u32, tail: Tail) {
        let mut block = std::mem::take(&mut self.scratch);
        block.clear();
        match tail {
            Tail::Nothing => self.write_frame(kind::DATA, flag::END_STREAM, id, 0),
            Tail::GrpcOk => {
                self.encoder.grpc_ok(&mut block);
                self.write_block(id, &block, flag::END_STREAM);
            }
            Tail::Trailers(fields) => {
                self.encoder.trailers(&fields, &mut block);
                self.write_block(id, &block, flag::END_STREAM);
            }
        }
        self.scratch = block;
        self.close(id);
    }

    /// The answer is complete. What the client might still send of its request does not matter any
    /// more.
    fn close(&mut self, id: u32) {
        if self.streams.close(id) == Some(false) {
            self.write_reset(id, Code::NoError);
        }
    }

    fn write_grpc_head(&mut self, id: u32) {
        let mut block = std::mem::take(&mut self.scratch);
        block.clear();
        self.encoder.grpc_head(&mut block);
        self.write_block(id, &block, 0);
        self.scratch = block;
    }

    pub(super) fn write_head(&mut self, id: u32, status: StatusCode, fields: &HeaderMap, ends: bool) {
        let mut block = std::mem::take(&mut self.scratch);
        block.clear();
        self.encoder.head(status, fields, &mut block);
        self.write_block(id, &block, if ends { flag::END_STREAM } else { 0 });
        self.scratch = block;
    }

    /// A header block, in as many frames as it takes.
    fn write_block(&mut self, id: u32, block: &[u8], flags: u8) {
        if block.len() <= MAX_PAYLOAD {
            return self.write(kind::HEADERS, flags | flag::END_HEADERS, id, block);
        }
        let (first, rest) = block.split_at(MAX_PAYLOAD);
        self.write(kind::HEADERS, flags, id, first);
        let mut parts = rest.chunks(MAX_PAYLOAD).peekable();
        while let Some(part) = parts.next() {
            let flags = if parts.peek().is_none() { flag::END_HEADERS } else { 0 };
            self.write(kind::CONTINUATION, flags, id, part);
        }
    }

    pub(super) fn write(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        self.write_frame(kind, flags, stream, payload.len());
        self.output.copy(payload);
    }

    #[inline]
    fn write_frame(&mut self, kind: u8, flags: u8, stream: u32, len: usize) {
        self.output.copy(&Header { len, kind, flags, stream }.encode());
    }
}
