//! A client that keeps to the rules, and knows what it has to be told.

use std::collections::BTreeMap;
use std::time::Duration;

use super::service::{KINDS, Kind, Script, content};
use super::wire::FarEnd;
use super::{Choices, Summary};
use crate::Limits;
use crate::frame::{HEADER_LEN, Header, PREFACE, flag, kind, number, setting};
use crate::hpack::{Decoder, Name};

const FIRST_WINDOW: i64 = 65_535;
/// Windows are opened to this in the end.
const WIDE: i64 = 1 << 30;
/// Milliseconds in which nothing moves, after which nothing will.
const IDLE_MAX: usize = 1000;
const CANCEL: u32 = 8;
const REFUSED_STREAM: u32 = 7;
const ENHANCE_YOUR_CALM: u32 = 11;

pub(super) struct Client {
    far_end: FarEnd,
    limits: Limits,
    input: Vec<u8>,
    decoder: Decoder,
    next_stream: u32,
    streams: BTreeMap<u32, Stream>,
    /// What the server may still send, in all and at first on a stream.
    window: i64,
    first_window: i64,
    summary: Summary,
}

/// A call from its first frame until its answer has ended.
struct Stream {
    kind: Kind,
    /// Bytes of the answer, and how many of them have come.
    len: usize,
    read: usize,
    /// Parts of the request that are still to be sent.
    unsent: Vec<Vec<u8>>,
    /// What was granted to this stream less what was sent on it.
    credit: i64,
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    [&Header { len: payload.len(), kind, flags, stream }.encode(), payload].concat()
}

fn headers(path: &str) -> Vec<u8> {
    let fields = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "x"),
        ("content-type", "application/grpc"),
    ];
    let field = |(name, value): (&str, &str)| {
        [&[0, name.len() as u8][..], name.as_bytes(), &[value.len() as u8], value.as_bytes()].concat()
    };
    fields.into_iter().flat_map(field).collect()
}

impl Client {
    pub(super) fn new(far_end: FarEnd, limits: Limits) -> Client {
        far_end.send(PREFACE);
        far_end.send(&frame(kind::SETTINGS, 0, 0, &[]));
        Client {
            far_end,
            limits,
            input: Vec::new(),
            decoder: Decoder::new(),
            next_stream: 1,
            streams: BTreeMap::new(),
            window: FIRST_WINDOW,
            first_window: FIRST_WINDOW,
            summary: Summary::default(),
        }
    }

    pub(super) fn summary(&self) -> Summary {
        self.summary
    }

    /// Does one thing.
    pub(super) async fn act(&mut self, choices: &mut Choices, script: &Script) {
        match choices.below(20) {
            0..=4 => self.open_unary(choices),
            5 => self.open_stream(choices),
            6 => self.send_part(choices),
            7 | 8 => self.cancel(choices),
            9 => self.grow_connection(1 + choices.below(60_000) as i64),
            10 => self.grow_stream(choices),
            11 => self.change_first_window(choices.one_of(&[65_535, 0, 1, 100, 1 << 20])),
            12 => self.far_end.send(&frame(kind::PING, 0, 0, b"are you?")),
            13..=15 => self.read(choices.one_of(&[1 << 20, 1, 10, 1000, 20_000])),
            16 => script.gate.add_permits(choices.below(4)),
            17 => tokio::time::sleep(Duration::from_millis(choices.below(2000) as u64)).await,
            _ => {
                for _ in 0..choices.below(8) {
                    tokio::task::yield_now().await;
                }
            }
        }
    }

    fn open(&mut self, kind_of: Kind, len: usize, path: &str) -> Option<u32> {
        if self.streams.len() >= self.limits.streams as usize {
            return None;
        }
        let id = self.next_stream;
        self.next_stream += 2;
        self.summary.calls += 1;
        self.far_end.send(&frame(kind::HEADERS, flag::END_HEADERS, id, &headers(path)));
        let stream = Stream { kind: kind_of, len, read: 0, unsent: Vec::new(), credit: 0 };
        self.streams.insert(id, stream);
        Some(id)
    }

    fn open_unary(&mut self, choices: &mut Choices) {
        let which = choices.below(KINDS.len());
        let len = 1 + choices.one_of(&[10, 1000, 16_384, 65_535, 200_000]) + choices.below(1000);
        let len = if KINDS[which] == Kind::Refused { 0 } else { len };
        let extra = choices.one_of(&[0, 0, 0, 20_000, 60_000]);
        let parts = 1 + choices.below(3);
        let Some(id) = self.open(KINDS[which], len, "/unary") else { return };
        let mut message = vec![which as u8];
        message.extend(id.to_be_bytes());
        message.extend((len as u32).to_be_bytes());
        message.push(choices.byte() % 4);
        message.resize(message.len() + extra, 7);
        let body = [&[0][..], &(message.len() as u32).to_be_bytes(), &message].concat();
        let part = body.len().div_ceil(parts).min(16_384);
        let mut parts: Vec<Vec<u8>> = body.chunks(part).map(<[u8]>::to_vec).collect();
        parts.reverse();
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.unsent = parts;
        }
        // Half of the calls are sent at once, the others part by part, between other things.
        if choices.below(2) == 0 {
            while self.send_next(id) {}
        }
    }

    fn open_stream(&mut self, choices: &mut Choices) {
        let (len, part) = (choices.one_of(&[0, 1000, 65_535, 300_000]), choices.one_of(&[999, 7000, 30_001]));
        let path = format!("/stream/{}/{len}/{part}", self.next_stream);
        let Some(id) = self.open(Kind::Here, len, &path) else { return };
        if choices.below(2) == 0 {
            self.far_end.send(&frame(kind::DATA, flag::END_STREAM, id, &[]));
        }
    }

    /// Sends the next part of a request. False: there is none.
    fn send_next(&mut self, id: u32) -> bool {
        let Some(stream) = self.streams.get_mut(&id) else { return false };
        let Some(part) = stream.unsent.pop() else { return false };
        let end = if stream.unsent.is_empty() { flag::END_STREAM } else { 0 };
        self.far_end.send(&frame(kind::DATA, end, id, &part));
        true
    }

    /// One of the streams that are open.
    fn any(&self, choices: &mut Choices) -> Option<u32> {
        let at = choices.below(self.streams.len());
        self.streams.keys().nth(at).copied()
    }

    fn send_part(&mut self, choices: &mut Choices) {
        if let Some(id) = self.any(choices) {
            self.send_next(id);
        }
    }

    fn cancel(&mut self, choices: &mut Choices) {
        if let Some(id) = self.any(choices) {
            self.cancel_stream(id);
        }
    }

    fn cancel_stream(&mut self, id: u32) {
        if self.streams.remove(&id).is_some() {
            self.summary.cancelled += 1;
            self.far_end.send(&frame(kind::RST_STREAM, 0, id, &CANCEL.to_be_bytes()));
        }
    }

    fn grow_connection(&mut self, by: i64) {
        if by > 0 && self.window + by < WIDE {
            self.window += by;
            self.far_end.send(&frame(kind::WINDOW_UPDATE, 0, 0, &(by as u32).to_be_bytes()));
        }
    }

    fn grow_stream(&mut self, choices: &mut Choices) {
        let by = 1 + choices.below(60_000) as i64;
        let Some(id) = self.any(choices) else { return };
        if let Some(stream) = self.streams.get_mut(&id).filter(|stream| stream.credit < WIDE) {
            stream.credit += by;
            self.far_end.send(&frame(kind::WINDOW_UPDATE, 0, id, &(by as u32).to_be_bytes()));
        }
    }

    /// The server may have sent by the old window what the client reads by the new one, so the
    /// larger one counts here.
    fn change_first_window(&mut self, size: i64) {
        self.first_window = self.first_window.max(size);
        let payload =
            [&setting::INITIAL_WINDOW_SIZE.to_be_bytes()[..], &(size as u32).to_be_bytes()].concat();
        self.far_end.send(&frame(kind::SETTINGS, 0, 0, &payload));
    }

    /// Reads what has come, and checks it.
    fn read(&mut self, max: usize) {
        self.input.extend(self.far_end.take(max));
        let input = std::mem::take(&mut self.input);
        let mut rest = &input[..];
        while let Some(header) = Header::parse(rest) {
            if rest.len() < HEADER_LEN + header.len {
                break;
            }
            let (frame, after) = rest.split_at(HEADER_LEN + header.len);
            self.take(header, &frame[HEADER_LEN..]);
            rest = after;
        }
        self.input = rest.to_vec();
    }

    fn take(&mut self, header: Header, payload: &[u8]) {
        match header.kind {
            kind::DATA => self.take_data(header, payload),
            kind::HEADERS => self.take_headers(header, payload),
            kind::RST_STREAM => self.take_reset(header.stream, number(payload)),
            kind::SETTINGS | kind::PING | kind::WINDOW_UPDATE => {}
            other => panic!("a frame of kind {other}: {:?}", String::from_utf8_lossy(payload)),
        }
    }

    fn take_data(&mut self, header: Header, payload: &[u8]) {
        self.window -= payload.len() as i64;
        assert!(self.window >= 0, "more than the connection's window");
        let Some(stream) = self.streams.get_mut(&header.stream) else { return };
        stream.credit -= payload.len() as i64;
        assert!(self.first_window + stream.credit >= 0, "more than the window of stream {}", header.stream);
        let end = stream.read + payload.len();
        let expected = content(header.stream, stream.read, end);
        assert!(payload == expected, "stream {} between {} and {end}", header.stream, stream.read);
        stream.read = end;
        if header.has(flag::END_STREAM) {
            self.end(header.stream);
        }
    }

    fn take_headers(&mut self, header: Header, payload: &[u8]) {
        assert!(header.has(flag::END_HEADERS), "answers have short headers");
        let mut status = None;
        let decoded = self.decoder.decode(payload, |field| {
            if let Name::Header(name) = &field.name
                && name == "grpc-status"
            {
                status = Some(field.value.clone());
            }
        });
        assert!(decoded.is_ok(), "headers that cannot be decoded");
        if header.has(flag::END_STREAM) {
            if let Some(stream) = self.streams.get(&header.stream) {
                let expected = if stream.kind == Kind::Refused { "8" } else { "0" };
                assert!(status.is_none_or(|status| status == expected), "another status than {expected}");
            }
            self.end(header.stream);
        }
    }

    fn end(&mut self, id: u32) {
        let Some(stream) = self.streams.remove(&id) else { return };
        assert_eq!(stream.read, stream.len, "the answer to {id} ({:?}) is cut short", stream.kind);
        self.summary.answered += 1;
        if !stream.unsent.is_empty() {
            panic!("stream {id} ({:?}) was answered before it was asked", stream.kind);
        }
    }

    fn take_reset(&mut self, id: u32, code: u32) {
        // After an answer, that the rest of the request is not wanted.
        if self.streams.remove(&id).is_some() {
            assert!([REFUSED_STREAM, ENHANCE_YOUR_CALM].contains(&code), "stream {id} was reset with {code}");
            self.summary.refused += 1;
        }
    }

    /// Cancels what never ends, lets everything else end, and sees that it does.
    pub(super) async fn finish(&mut self, script: &Script) {
        let endless: Vec<u32> =
            self.streams.iter().filter(|(_, stream)| stream.kind == Kind::Never).map(|(id, _)| *id).collect();
        endless.into_iter().for_each(|id| self.cancel_stream(id));
        script.gate.add_permits(1 << 20);
        self.far_end.widen();
        self.change_first_window(WIDE);
        let (mut last, mut idle) = (0, 0);
        while idle < IDLE_MAX {
            for id in self.streams.keys().copied().collect::<Vec<_>>() {
                while self.send_next(id) {}
            }
            self.grow_connection(WIDE - 1 - self.window.max(0));
            self.read(1 << 20);
            if self.streams.is_empty() {
                return;
            }
            let moved = self.far_end.moved();
            if moved == last {
                idle += 1;
                tokio::time::sleep(Duration::from_millis(1)).await;
            } else {
                (last, idle) = (moved, 0);
                tokio::task::yield_now().await;
            }
        }
        let left: Vec<_> =
            self.streams.iter().map(|(id, stream)| (id, stream.kind, stream.read, stream.len)).collect();
        panic!("calls without an answer: {left:?}");
    }
}
