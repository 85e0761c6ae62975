//! A client that keeps to the rules, and knows what it has to be told.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use bytes::BytesMut;

use super::service::{Kind, SHARE_MAX, Script, is_content};
use super::setup::SHORT_KEEPALIVE;
use super::wire::{FarEnd, frame};
use super::{Choices, Summary};
use crate::Limits;
use crate::frame::{HEADER_LEN, Header, PREFACE, flag, kind, number, setting};
use crate::hpack::{Decoder, Name};

const FIRST_WINDOW: i64 = 65_535;
/// Windows are opened to this in the end.
const WIDE: i64 = 1 << 30;
/// Milliseconds in which nothing moves, after which nothing will.
const IDLE_MAX: usize = 900;
const CANCEL: u32 = 8;
const REFUSED_STREAM: u32 = 7;
const ENHANCE_YOUR_CALM: u32 = 11;

pub(super) struct Client {
    pub(super) far_end: FarEnd,
    pub(super) limits: Limits,
    input: BytesMut,
    decoder: Decoder,
    pub(super) next_stream: u32,
    pub(super) streams: BTreeMap<u32, Stream>,
    /// What the server may still send, in all and at first on a stream.
    window: i64,
    first_window: i64,
    /// What the client may still send, in all and at first on a stream.
    pub(super) room: i64,
    pub(super) first_room: i64,
    has_settings: bool,
    /// What it has cost without asking for anything, at most.
    spent: u64,
    farewell: Farewell,
    /// The server hung up with calls in progress.
    is_cut: bool,
    pub(super) summary: Summary,
}

/// What the server has said of the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Farewell {
    None,
    /// Nothing new is served.
    Leaves,
    /// The client was told that it asks too much.
    SentAway,
}

/// A call from its first frame until its answer has ended.
pub(super) struct Stream {
    kind: Kind,
    /// Bytes of the answer, and how many of them have come.
    len: usize,
    read: usize,
    /// Parts of the request that are still to be sent, the last one first.
    pub(super) unsent: Vec<Vec<u8>>,
    /// What was granted to this stream less what was sent on it, either way.
    credit: i64,
    pub(super) room: i64,
    /// Of each part of the request.
    pub(super) padding: u8,
    pub(super) has_trailers: bool,
    /// Its answer does not wait for the request.
    pub(super) is_unheard: bool,
}

impl Stream {
    pub(super) fn new(kind: Kind, len: usize) -> Stream {
        Stream {
            kind,
            len,
            read: 0,
            unsent: Vec::new(),
            credit: 0,
            room: 0,
            padding: 0,
            has_trailers: false,
            is_unheard: false,
        }
    }
}

impl Client {
    pub(super) fn new(far_end: FarEnd, limits: Limits) -> Client {
        far_end.send(PREFACE);
        far_end.send(&frame(kind::SETTINGS, 0, 0, &[]));
        Client {
            far_end,
            limits,
            input: BytesMut::new(),
            decoder: Decoder::default(),
            next_stream: 1,
            streams: BTreeMap::new(),
            window: FIRST_WINDOW,
            first_window: FIRST_WINDOW,
            room: FIRST_WINDOW,
            first_room: FIRST_WINDOW,
            has_settings: false,
            spent: 20,
            farewell: Farewell::None,
            is_cut: false,
            summary: Summary::default(),
        }
    }

    pub(super) fn summary(&self) -> Summary {
        self.summary
    }

    /// Waits for the server's settings: what is sent before may be more than they allow.
    pub(super) async fn greet(&mut self) {
        while !self.has_settings {
            self.read(1 << 20);
            tokio::task::yield_now().await;
        }
    }

    pub(super) fn close(&self) {
        self.far_end.close();
    }

    /// It must not ask for anything any more.
    pub(super) fn is_leaving(&self) -> bool {
        self.farewell != Farewell::None || self.far_end.is_over()
    }

    /// What became of it was said, and there was a reason.
    pub(super) fn was_sent_away(&self) -> bool {
        self.spent > u64::from(self.limits.overhead)
    }

    pub(super) fn check_end(&self, ended: std::io::Result<()>) {
        use std::io::ErrorKind::{BrokenPipe, InvalidData, TimedOut};
        match ended.as_ref().map_err(std::io::Error::kind) {
            Ok(()) => assert!(!self.is_cut, "the connection ended before its calls"),
            Err(BrokenPipe) => {}
            Err(InvalidData) => {
                assert!(self.was_sent_away(), "a client that keeps to the rules is sent away: {ended:?}");
            }
            Err(TimedOut) => assert_eq!(self.limits.keepalive_interval, Some(SHORT_KEEPALIVE)),
            Err(_) => panic!("{ended:?}"),
        }
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
            12 => self.ping(choices.one_of(&[1, 1, 50])),
            13..=15 => self.read(choices.one_of(&[1 << 20, 1, 10, 1000, 20_000])),
            16 => {
                script.gate.add_permits(choices.below(4));
                script.share.store(choices.one_of(&[SHARE_MAX, 1, 5]), SeqCst);
            }
            17 => tokio::time::sleep(Duration::from_millis(choices.below(2000) as u64)).await,
            _ => {
                for _ in 0..choices.below(8) {
                    tokio::task::yield_now().await;
                }
            }
        }
    }

    fn ping(&mut self, times: u64) {
        self.spent += times;
        (0..times).for_each(|_| self.far_end.send(&frame(kind::PING, 0, 0, b"are you?")));
    }

    /// One of the streams that are open.
    pub(super) fn any(&self, choices: &mut Choices) -> Option<u32> {
        let at = choices.below(self.streams.len());
        self.streams.keys().nth(at).copied()
    }

    fn cancel(&mut self, choices: &mut Choices) {
        if let Some(id) = self.any(choices) {
            self.cancel_stream(id);
        }
    }

    fn cancel_stream(&mut self, id: u32) {
        if self.streams.remove(&id).is_some() {
            self.summary.cancelled += 1;
            self.spent += 5;
            self.far_end.send(&frame(kind::RST_STREAM, 0, id, &CANCEL.to_be_bytes()));
        }
    }

    fn grow_connection(&mut self, by: i64) {
        if by > 0 && self.window + by < WIDE {
            self.window += by;
            self.spent += 1;
            self.far_end.send(&frame(kind::WINDOW_UPDATE, 0, 0, &(by as u32).to_be_bytes()));
        }
    }

    fn grow_stream(&mut self, choices: &mut Choices) {
        let by = 1 + choices.below(60_000) as i64;
        let Some(id) = self.any(choices) else { return };
        if let Some(stream) = self.streams.get_mut(&id).filter(|stream| stream.credit < WIDE) {
            stream.credit += by;
            self.spent += 1;
            self.far_end.send(&frame(kind::WINDOW_UPDATE, 0, id, &(by as u32).to_be_bytes()));
        }
    }

    /// The server may have sent by the old window what the client reads by the new one, so the
    /// larger one counts here.
    fn change_first_window(&mut self, size: i64) {
        self.first_window = self.first_window.max(size);
        self.spent += 20 + self.streams.len() as u64 / 16 + 1;
        let payload =
            [&setting::INITIAL_WINDOW_SIZE.to_be_bytes()[..], &(size as u32).to_be_bytes()].concat();
        self.far_end.send(&frame(kind::SETTINGS, 0, 0, &payload));
    }

    /// Reads what has come, and checks it.
    fn read(&mut self, max: usize) {
        self.far_end.take(max, &mut self.input);
        while let Some(header) = Header::parse(&self.input) {
            if self.input.len() < HEADER_LEN + header.len {
                break;
            }
            let frame = self.input.split_to(HEADER_LEN + header.len);
            self.take(header, &frame[HEADER_LEN..]);
        }
    }

    fn take(&mut self, header: Header, payload: &[u8]) {
        match header.kind {
            kind::DATA => self.take_data(header, payload),
            kind::HEADERS => self.take_headers(header, payload),
            kind::RST_STREAM => self.take_reset(header.stream, number(payload)),
            kind::SETTINGS => self.take_settings(header, payload),
            kind::PING if !header.has(flag::ACK) => {
                self.spent += 1;
                self.far_end.send(&frame(kind::PING, flag::ACK, 0, payload));
            }
            kind::PING => {}
            kind::WINDOW_UPDATE if header.stream == 0 => self.room += i64::from(number(payload)),
            kind::WINDOW_UPDATE => {
                if let Some(stream) = self.streams.get_mut(&header.stream) {
                    stream.room += i64::from(number(payload));
                }
            }
            kind::GOAWAY => self.take_farewell(number(payload), number(&payload[4..])),
            other => panic!("a frame of kind {other}: {:?}", String::from_utf8_lossy(payload)),
        }
    }

    fn take_settings(&mut self, header: Header, payload: &[u8]) {
        if header.has(flag::ACK) {
            return;
        }
        self.has_settings = true;
        for entry in payload.chunks_exact(6) {
            if entry[..2] == setting::INITIAL_WINDOW_SIZE.to_be_bytes() {
                self.first_room = i64::from(number(&entry[2..]));
            }
        }
        self.far_end.send(&frame(kind::SETTINGS, flag::ACK, 0, &[]));
    }

    /// Requests after `last` are not served.
    fn take_farewell(&mut self, last: u32, code: u32) {
        if code != 0 {
            assert_eq!(code, ENHANCE_YOUR_CALM);
            assert!(self.was_sent_away(), "a client that keeps to the rules is sent away");
            self.farewell = Farewell::SentAway;
            self.summary.sent_away += 1;
        } else if self.farewell == Farewell::None {
            self.farewell = Farewell::Leaves;
            self.summary.left += 1;
        }
        let unserved = self.streams.split_off(&(last + 1));
        self.summary.refused += unserved.len();
    }

    fn take_data(&mut self, header: Header, payload: &[u8]) {
        self.window -= payload.len() as i64;
        assert!(self.window >= 0, "more than the connection's window");
        let Some(stream) = self.streams.get_mut(&header.stream) else { return };
        stream.credit -= payload.len() as i64;
        assert!(self.first_window + stream.credit >= 0, "more than the window of stream {}", header.stream);
        let end = stream.read + payload.len();
        let is_right = is_content(header.stream, stream.read, payload);
        assert!(is_right, "stream {} between {} and {end}", header.stream, stream.read);
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
        let is_unheard = stream.is_unheard || stream.kind == Kind::TooLarge;
        if !stream.unsent.is_empty() && !is_unheard {
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
            self.read(64 << 20);
            self.is_cut = self.far_end.is_over() && !self.streams.is_empty();
            if self.streams.is_empty() || self.is_cut {
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
