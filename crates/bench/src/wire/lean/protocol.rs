//! One HTTP/2 connection with gRPC calls on it, as a machine of bytes in and bytes out.
//!
//! Invariants: no byte of data is sent that the server's windows do not allow, and no stream above
//! its limit; what has to wait does so in the order it came. A call succeeds only if its trailers
//! say status 0.

use std::collections::VecDeque;
use std::time::Instant;

use hashbrown::HashMap;
use vetch_http2::frame::{HEADER_LEN, Header, MAX_PAYLOAD, PREFACE, flag, kind, setting};
use vetch_http2::hpack::{Decoder, Name};

use super::error::ProtocolError;
use super::frame::{self, INITIAL_WINDOW};
use super::headers::{self, Headers};
use crate::failure::Failure;
use crate::wire::{Inbox, Method, Tag};

/// How much the server may send on one stream, and on all of them, before it hears of us.
const STREAM_WINDOW: u32 = 16 << 20;
const CONNECTION_WINDOW: u32 = 64 << 20;

struct Stream {
    tag: Tag,
    /// How much we may still send.
    window: i64,
    /// What we have read and not yet given back.
    consumed: u32,
    /// The beginning of a message whose end has not come.
    partial: Vec<u8>,
    answered: bool,
}

/// Waits for room in a window or for a free stream.
enum Waiting {
    Call { tag: Tag, method: Method, message: Vec<u8>, last: bool },
    Data { stream: u32, bytes: Vec<u8>, sent: usize, last: bool },
}

pub(super) struct Protocol {
    requests: Headers,
    decoder: Decoder,
    streams: HashMap<u32, Stream, foldhash::fast::FixedState>,
    by_tag: HashMap<Tag, u32, foldhash::fast::FixedState>,
    next_stream: u32,
    waiting: VecDeque<Waiting>,
    window: i64,
    initial_window: i64,
    max_payload: usize,
    max_streams: usize,
    consumed: u32,
    input: Vec<u8>,
    output: Vec<u8>,
    written: usize,
    /// A header block of which the rest follows: its stream, its flags, its beginning.
    headers: Option<(Header, Vec<u8>)>,
    leaving: bool,
}

impl Protocol {
    pub(super) fn new(authority: &str) -> Protocol {
        let mut output = PREFACE.to_vec();
        frame::put_header(&mut output, 12, kind::SETTINGS, 0, 0);
        frame::put_setting(&mut output, setting::ENABLE_PUSH, 0);
        frame::put_setting(&mut output, setting::INITIAL_WINDOW_SIZE, STREAM_WINDOW);
        frame::put_window_update(&mut output, 0, CONNECTION_WINDOW - INITIAL_WINDOW as u32);
        Protocol {
            requests: Headers::new(authority),
            decoder: Decoder::default(),
            streams: HashMap::default(),
            by_tag: HashMap::default(),
            next_stream: 1,
            waiting: VecDeque::new(),
            window: INITIAL_WINDOW,
            initial_window: INITIAL_WINDOW,
            max_payload: MAX_PAYLOAD,
            max_streams: usize::MAX,
            consumed: 0,
            input: Vec::new(),
            output,
            written: 0,
            headers: None,
            leaving: false,
        }
    }

    pub(super) fn output(&self) -> &[u8] {
        &self.output[self.written..]
    }

    pub(super) fn written(&mut self, length: usize) {
        self.written += length;
        if self.written == self.output.len() {
            self.output.clear();
            self.written = 0;
        }
    }

    pub(super) fn open(&mut self, tag: Tag, method: Method, message: &[u8], last: bool) {
        if self.waiting.is_empty() && self.streams.len() < self.max_streams && !self.leaving {
            self.begin(tag, method, message, last);
        } else {
            self.waiting.push_back(Waiting::Call { tag, method, message: message.to_vec(), last });
        }
    }

    pub(super) fn send(&mut self, tag: Tag, message: &[u8]) {
        if let Some(&stream) = self.by_tag.get(&tag) {
            self.data(stream, message, false);
        }
    }

    pub(super) fn abandon(&mut self, tag: Tag) {
        if let Some(stream) = self.by_tag.remove(&tag) {
            self.streams.remove(&stream);
            const CANCEL: u32 = 8;
            frame::put_header(&mut self.output, 4, kind::RST_STREAM, 0, stream);
            self.output.extend_from_slice(&CANCEL.to_be_bytes());
        }
    }

    /// The connection is lost: so are all calls on it.
    pub(super) fn fail_all(&mut self, why: &str, inbox: &mut Inbox) {
        let now = Instant::now();
        for (_, stream) in self.streams.drain() {
            inbox.end(stream.tag, now, Some(Failure::transport(why)));
        }
        for waiting in self.waiting.drain(..) {
            if let Waiting::Call { tag, .. } = waiting {
                inbox.end(tag, now, Some(Failure::transport(why)));
            }
        }
        self.by_tag.clear();
        self.output.clear();
        self.written = 0;
    }

    fn begin(&mut self, tag: Tag, method: Method, message: &[u8], last: bool) {
        let stream = self.next_stream;
        self.next_stream += 2;
        let output = &mut self.output;
        self.requests.write(method, &mut |block| {
            frame::put_header(output, block.len(), kind::HEADERS, flag::END_HEADERS, stream);
            output.extend_from_slice(block);
        });
        let state =
            Stream { tag, window: self.initial_window, consumed: 0, partial: Vec::new(), answered: false };
        self.streams.insert(stream, state);
        if !last {
            self.by_tag.insert(tag, stream);
        }
        self.data(stream, message, last);
    }

    /// A message, framed as gRPC wants it, as far as the windows allow.
    fn data(&mut self, stream: u32, message: &[u8], last: bool) {
        let length = u32::try_from(message.len()).expect("messages are below 4 GiB").to_be_bytes();
        let total = message.len() + 5;
        let room = self.window.min(self.streams.get(&stream).map_or(0, |state| state.window));
        if self.waiting.is_empty() && total <= self.max_payload && total as i64 <= room {
            let flags = if last { flag::END_STREAM } else { 0 };
            frame::put_header(&mut self.output, total, kind::DATA, flags, stream);
            self.output.push(0);
            self.output.extend_from_slice(&length);
            self.output.extend_from_slice(message);
            self.spend(stream, total);
            return;
        }
        let mut bytes = Vec::with_capacity(total);
        bytes.push(0);
        bytes.extend_from_slice(&length);
        bytes.extend_from_slice(message);
        // The data of a call that is begun goes before calls that are not.
        let place = self.waiting.iter().position(|w| matches!(w, Waiting::Call { .. }));
        let place = place.unwrap_or(self.waiting.len());
        self.waiting.insert(place, Waiting::Data { stream, bytes, sent: 0, last });
        self.pump();
    }

    fn spend(&mut self, stream: u32, length: usize) {
        self.window -= length as i64;
        if let Some(state) = self.streams.get_mut(&stream) {
            state.window -= length as i64;
        }
    }

    /// Sends what waits, in order, until something has to go on waiting.
    fn pump(&mut self) {
        while let Some(first) = self.waiting.pop_front() {
            match first {
                Waiting::Call { tag, method, message, last } => {
                    if self.streams.len() >= self.max_streams || self.leaving {
                        self.waiting.push_front(Waiting::Call { tag, method, message, last });
                        return;
                    }
                    self.begin(tag, method, &message, last);
                }
                Waiting::Data { stream, bytes, sent, last } => {
                    // An abandoned stream needs no more data.
                    let Some(state) = self.streams.get(&stream) else { continue };
                    let room = usize::try_from(self.window.min(state.window)).unwrap_or(0);
                    let part = room.min(self.max_payload).min(bytes.len() - sent);
                    if part == 0 {
                        self.waiting.push_front(Waiting::Data { stream, bytes, sent, last });
                        return;
                    }
                    let ends = last && sent + part == bytes.len();
                    let flags = if ends { flag::END_STREAM } else { 0 };
                    frame::put_header(&mut self.output, part, kind::DATA, flags, stream);
                    self.output.extend_from_slice(&bytes[sent..sent + part]);
                    self.spend(stream, part);
                    if sent + part < bytes.len() {
                        self.waiting.push_front(Waiting::Data { stream, bytes, sent: sent + part, last });
                    }
                }
            }
        }
    }

    /// Bytes from the server. An error ends the connection.
    pub(super) fn receive(
        &mut self,
        bytes: &[u8],
        at: Instant,
        inbox: &mut Inbox,
    ) -> Result<(), ProtocolError> {
        let mut input = std::mem::take(&mut self.input);
        let outcome = if input.is_empty() {
            // Usually whole frames arrive; they need not be copied.
            self.frames(bytes, at, inbox).map(|used| input.extend_from_slice(&bytes[used..]))
        } else {
            input.extend_from_slice(bytes);
            self.frames(&input, at, inbox).map(|used| drop(input.drain(..used)))
        };
        self.input = input;
        outcome
    }

    /// Takes all whole frames; answers how many bytes they were.
    fn frames(&mut self, bytes: &[u8], at: Instant, inbox: &mut Inbox) -> Result<usize, ProtocolError> {
        let mut used = 0;
        while let Some(header) = Header::parse(&bytes[used..]) {
            if header.len > MAX_PAYLOAD {
                return Err(ProtocolError::FrameTooLong(header.len));
            }
            let Some(payload) = bytes.get(used + HEADER_LEN..used + HEADER_LEN + header.len) else {
                break;
            };
            self.frame(header, payload, at, inbox)?;
            used += HEADER_LEN + header.len;
        }
        Ok(used)
    }

    fn frame(
        &mut self,
        header: Header,
        payload: &[u8],
        at: Instant,
        inbox: &mut Inbox,
    ) -> Result<(), ProtocolError> {
        if self.headers.is_some() && header.kind != kind::CONTINUATION {
            return Err(ProtocolError::InterruptedHeaders);
        }
        match header.kind {
            kind::DATA => self.on_data(header, payload, at, inbox),
            kind::HEADERS => {
                let block = frame::content(header, payload)?;
                if header.has(flag::END_HEADERS) {
                    return self.on_headers(header, block, at, inbox);
                }
                self.headers = Some((header, block.to_vec()));
                Ok(())
            }
            kind::CONTINUATION => {
                let (first, mut block) = self.headers.take().ok_or(ProtocolError::UnexpectedContinuation)?;
                block.extend_from_slice(payload);
                if header.has(flag::END_HEADERS) {
                    return self.on_headers(first, &block, at, inbox);
                }
                self.headers = Some((first, block));
                Ok(())
            }
            kind::RST_STREAM => {
                let why = format!("the server reset the stream (HTTP/2 error {})", number(payload)?);
                self.finish(header.stream, at, Some(Failure::transport(why)), inbox);
                Ok(())
            }
            kind::SETTINGS => self.on_settings(header, payload),
            kind::PING => {
                if !header.has(flag::ACK) {
                    frame::put_header(&mut self.output, payload.len(), kind::PING, flag::ACK, 0);
                    self.output.extend_from_slice(payload);
                }
                Ok(())
            }
            kind::GOAWAY => self.on_goaway(payload, at, inbox),
            kind::WINDOW_UPDATE => {
                let increment = i64::from(number(payload)? & 0x7fff_ffff);
                match (header.stream, self.streams.get_mut(&header.stream)) {
                    (0, _) => self.window += increment,
                    (_, Some(state)) => state.window += increment,
                    (_, None) => {}
                }
                self.pump();
                Ok(())
            }
            kind::PUSH_PROMISE => Err(ProtocolError::Push),
            _ => Ok(()),
        }
    }

    fn on_data(
        &mut self,
        header: Header,
        payload: &[u8],
        at: Instant,
        inbox: &mut Inbox,
    ) -> Result<(), ProtocolError> {
        self.consumed += payload.len() as u32;
        if self.consumed >= CONNECTION_WINDOW / 2 {
            frame::put_window_update(&mut self.output, 0, self.consumed);
            self.consumed = 0;
        }
        // Data of an abandoned stream is only counted.
        let Some(state) = self.streams.get_mut(&header.stream) else { return Ok(()) };
        state.consumed += payload.len() as u32;
        if state.consumed >= STREAM_WINDOW / 2 && !header.has(flag::END_STREAM) {
            frame::put_window_update(&mut self.output, header.stream, state.consumed);
            state.consumed = 0;
        }
        let content = frame::content(header, payload)?;
        if state.partial.is_empty() {
            let used = messages(content, state.tag, at, inbox)?;
            state.partial.extend_from_slice(&content[used..]);
        } else {
            state.partial.extend_from_slice(content);
            if whole(&state.partial) {
                let used = messages(&state.partial, state.tag, at, inbox)?;
                state.partial.drain(..used);
            }
        }
        if header.has(flag::END_STREAM) {
            let why = Failure::transport("the server ended a call without a status");
            self.finish(header.stream, at, Some(why), inbox);
        }
        Ok(())
    }

    fn on_headers(
        &mut self,
        header: Header,
        block: &[u8],
        at: Instant,
        inbox: &mut Inbox,
    ) -> Result<(), ProtocolError> {
        let (mut http, mut code, mut text) = (None, None, String::new());
        // Also for streams that are gone: the table must stay in step.
        let decoded = self.decoder.decode(block, |field| match &field.name {
            Name::Status => http = Some(field.value.clone()),
            Name::Header(name) if name == "grpc-status" => {
                code = field.value.to_str().ok().and_then(|value| value.parse::<u32>().ok());
            }
            Name::Header(name) if name == "grpc-message" => {
                text = String::from_utf8_lossy(field.value.as_bytes()).into_owned();
            }
            _ => {}
        });
        decoded.map_err(|_| ProtocolError::BadHeaders)?;
        let Some(state) = self.streams.get_mut(&header.stream) else { return Ok(()) };
        if !state.answered {
            state.answered = true;
            if http.as_ref().is_none_or(|status| status != "200") {
                let status = http.as_ref().and_then(|status| status.to_str().ok()).unwrap_or_default();
                self.finish(
                    header.stream,
                    at,
                    Some(Failure::transport(format!("HTTP status {status}"))),
                    inbox,
                );
                return Ok(());
            }
        }
        if header.has(flag::END_STREAM) {
            let cut = !state.partial.is_empty();
            let failure = match code {
                Some(0) if cut => Some(Failure::transport("the last message is incomplete")),
                Some(0) => None,
                Some(code) => Some(Failure { code: Some(code), text }),
                None => Some(Failure::transport("the server ended a call without a status")),
            };
            self.finish(header.stream, at, failure, inbox);
        }
        Ok(())
    }

    fn on_settings(&mut self, header: Header, payload: &[u8]) -> Result<(), ProtocolError> {
        if header.has(flag::ACK) {
            return Ok(());
        }
        for setting in payload.chunks_exact(6) {
            let value = number(&setting[2..])?;
            match u16::from_be_bytes([setting[0], setting[1]]) {
                setting::HEADER_TABLE_SIZE if value < headers::TABLE_BYTES => {
                    return Err(ProtocolError::SmallHeaderTable);
                }
                setting::MAX_CONCURRENT_STREAMS => self.max_streams = value as usize,
                setting::INITIAL_WINDOW_SIZE => {
                    let change = i64::from(value) - self.initial_window;
                    self.initial_window = i64::from(value);
                    self.streams.values_mut().for_each(|state| state.window += change);
                }
                setting::MAX_FRAME_SIZE => self.max_payload = value as usize,
                _ => {}
            }
        }
        frame::put_header(&mut self.output, 0, kind::SETTINGS, flag::ACK, 0);
        self.pump();
        Ok(())
    }

    /// What the server has not begun it never will; when the rest is done, the connection ends.
    fn on_goaway(&mut self, payload: &[u8], at: Instant, inbox: &mut Inbox) -> Result<(), ProtocolError> {
        let last = number(payload)? & 0x7fff_ffff;
        self.leaving = true;
        let late: Vec<u32> = self.streams.keys().copied().filter(|stream| *stream > last).collect();
        for stream in late {
            self.finish(stream, at, Some(Failure::transport("the server is going away")), inbox);
        }
        if self.streams.is_empty() {
            return Err(ProtocolError::GoneAway);
        }
        Ok(())
    }

    fn finish(&mut self, stream: u32, at: Instant, failure: Option<Failure>, inbox: &mut Inbox) {
        if let Some(state) = self.streams.remove(&stream) {
            self.by_tag.remove(&state.tag);
            inbox.end(state.tag, at, failure);
            if !self.waiting.is_empty() {
                self.pump();
            }
        }
    }
}

/// Is there at least one whole message?
fn whole(bytes: &[u8]) -> bool {
    bytes
        .get(1..5)
        .and_then(|length| number(length).ok())
        .is_some_and(|length| bytes.len() >= 5 + length as usize)
}

/// Hands out all whole messages; answers how many bytes they were.
fn messages(bytes: &[u8], tag: Tag, at: Instant, inbox: &mut Inbox) -> Result<usize, ProtocolError> {
    let mut used = 0;
    while whole(&bytes[used..]) {
        if bytes[used] != 0 {
            return Err(ProtocolError::Compressed);
        }
        let length = number(&bytes[used + 1..])? as usize;
        inbox.message(tag, at, &bytes[used + 5..used + 5 + length]);
        used += 5 + length;
    }
    Ok(used)
}

fn number(bytes: &[u8]) -> Result<u32, ProtocolError> {
    bytes.first_chunk().map(|four| u32::from_be_bytes(*four)).ok_or(ProtocolError::FrameTooShort)
}
