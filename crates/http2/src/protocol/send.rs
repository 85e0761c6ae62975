//! Answers.
//!
//! What fits into the client's windows is put into the output at once, or by [`Protocol::pump`] when there is room;
//! the rest waits with its stream. So the output holds what can be written now, and of long answers never much more than
//! [`ENOUGH_OUTPUT`].

use bytes::Bytes;
use http::{HeaderMap, StatusCode};

use super::{Code, Protocol};
use crate::frame::{Header, MAX_PAYLOAD, flag, kind};

/// Bytes in the output beyond which nothing is added that can wait.
const ENOUGH_OUTPUT: usize = 128 << 10;
/// Bytes in the output beyond which the client is not heard. Long answers never reach it: only answers to what the
/// client sends meanwhile do, and of these there should be no more until it has taken some.
const MOST_OUTPUT: usize = 256 << 10;

/// What ends an answer.
#[derive(Debug)]
pub enum Tail {
    Nothing,
    /// `grpc-status: 0`
    GrpcOk,
    Trailers(HeaderMap),
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
        let Some(stream) = self.streams.get(&id) else { return };
        let len = message.len();
        let fits = len <= MAX_PAYLOAD && len as i64 <= stream.send_window.min(self.send_window);
        self.write_grpc_head(id);
        if fits {
            self.send_window -= len as i64;
            self.write_frame(kind::DATA, 0, id, len);
            self.output.push(message);
            self.write_tail(id, Tail::GrpcOk);
        } else {
            self.send(id, message);
            self.finish(id, Tail::GrpcOk);
        }
    }

    /// The head of an answer. If it `ends` there, it is the whole answer.
    pub fn respond(&mut self, id: u32, status: StatusCode, fields: &HeaderMap, ends: bool) {
        if self.streams.contains_key(&id) {
            self.write_head(id, status, fields, ends);
            if ends {
                self.close(id);
            }
        }
    }

    /// A part of the body of an answer.
    pub fn send(&mut self, id: u32, data: Bytes) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        if data.is_empty() {
            return;
        }
        stream.queued += data.len();
        stream.queue.push_back(data);
        if stream.send_window > 0 && !stream.is_ready {
            stream.is_ready = true;
            self.ready.push_back(id);
        }
    }

    /// The end of an answer.
    pub fn finish(&mut self, id: u32, tail: Tail) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        if stream.queued > 0 {
            stream.tail = Some(tail);
        } else {
            self.write_tail(id, tail);
        }
    }

    /// Gives up an answer.
    pub fn reset(&mut self, id: u32, code: Code) {
        if self.streams.remove(&id).is_some() {
            self.write_reset(id, code);
        }
    }

    /// Whether an answer may say more. It is asked again when there is room.
    pub fn room(&mut self, id: u32) -> Room {
        let Some(stream) = self.streams.get_mut(&id) else { return Room::Never };
        if stream.queued >= self.limits.send_buffer {
            stream.wants_room = true;
            return Room::Later;
        }
        if self.output.len() >= ENOUGH_OUTPUT {
            self.congested.push(id);
            return Room::Later;
        }
        Room::Yes
    }

    /// Streams that were told to wait for room and have some now.
    pub fn resumed(&mut self, out: &mut Vec<u32>) {
        if self.output.len() < ENOUGH_OUTPUT {
            out.append(&mut self.congested);
        }
        out.append(&mut self.resumed);
    }

    /// The client should take something before it asks for more.
    pub fn is_congested(&self) -> bool {
        self.output.len() >= MOST_OUTPUT
    }

    /// Moves data to the output, as far as it and the windows have room; every stream a frame in turn.
    pub fn pump(&mut self) {
        while self.send_window > 0
            && self.output.len() < ENOUGH_OUTPUT
            && let Some(id) = self.ready.pop_front()
        {
            self.send_frame(id);
        }
    }

    fn send_frame(&mut self, id: u32) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        stream.is_ready = false;
        let window = stream.send_window.min(self.send_window);
        let Some(front) = stream.queue.front_mut().filter(|_| window > 0) else { return };
        let len = front.len().min(MAX_PAYLOAD).min(window as usize);
        let data = front.split_to(len);
        if front.is_empty() {
            stream.queue.pop_front();
        }
        stream.queued -= len;
        stream.send_window -= len as i64;
        self.send_window -= len as i64;
        let is_last = stream.queued == 0;
        if stream.wants_room && stream.queued < self.limits.send_buffer {
            stream.wants_room = false;
            self.resumed.push(id);
        }
        if !is_last && stream.send_window > 0 {
            stream.is_ready = true;
            self.ready.push_back(id);
        }
        let tail = if is_last { stream.tail.take() } else { None };
        let ends = matches!(tail, Some(Tail::Nothing));
        self.write_frame(kind::DATA, if ends { flag::END_STREAM } else { 0 }, id, len);
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

    /// The answer is complete. What the client might still send of its request does not matter any more.
    fn close(&mut self, id: u32) {
        if let Some(stream) = self.streams.remove(&id) {
            self.nuisances = self.nuisances.saturating_sub(1);
            if !stream.is_received {
                self.write_reset(id, Code::NoError);
            }
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
