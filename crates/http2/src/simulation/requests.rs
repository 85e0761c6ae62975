//! The client's side of requests: what it sends, and what it may send.

use super::Choices;
use super::client::{Client, Stream};
use super::service::{AS_REQUEST, KINDS, Kind, content};
use super::wire::frame;
use crate::frame::{flag, kind};

/// Bytes of one frame of a body.
const PART_MAX: usize = 16_384;

/// A frame with so many bytes of padding, if any.
fn padded(kind: u8, flags: u8, stream: u32, payload: &[u8], padding: u8) -> Vec<u8> {
    if padding == 0 {
        return frame(kind, flags, stream, payload);
    }
    let payload = [&[padding][..], payload, &vec![0; usize::from(padding)]].concat();
    frame(kind, flags | flag::PADDED, stream, &payload)
}

/// A header block, and what it counts for.
fn headers(path: &str, pad: usize) -> (Vec<u8>, usize) {
    let pad = "y".repeat(pad);
    let mut fields = vec![
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "x"),
        ("content-type", "application/grpc"),
    ];
    if !pad.is_empty() {
        fields.push(("x-pad", &pad));
    }
    let size = fields.iter().map(|(name, value)| name.len() + value.len() + 32).sum();
    let field = |(name, value): (&str, &str)| {
        [&[0, name.len() as u8][..], name.as_bytes(), &length(value.len()), value.as_bytes()].concat()
    };
    (fields.into_iter().flat_map(field).collect(), size)
}

/// That of a string, in the seven bits of HPACK and as many more bytes as it takes.
fn length(len: usize) -> Vec<u8> {
    if len < 127 {
        return vec![len as u8];
    }
    let (mut out, mut rest) = (vec![127], len - 127);
    while rest >= 128 {
        out.push((rest % 128) as u8 | 128);
        rest /= 128;
    }
    out.push(rest as u8);
    out
}

impl Client {
    fn open(&mut self, choices: &mut Choices, kind_of: Kind, len: usize, path: &str) -> Option<u32> {
        if self.streams.len() >= self.limits.streams as usize || self.is_leaving() {
            return None;
        }
        let id = self.next_stream;
        self.next_stream += 2;
        self.summary.calls += 1;
        let (block, size) = headers(path, choices.one_of(&[0, 0, 0, 0, 100, 5000]));
        let padding = choices.one_of(&[0, 0, 0, 9]);
        self.far_end.send(&padded(kind::HEADERS, flag::END_HEADERS, id, &block, padding));
        let is_too_large = size > self.limits.header_list;
        let (kind, len) = if is_too_large { (Kind::TooLarge, 0) } else { (kind_of, len) };
        let padding = choices.one_of(&[0, 0, 0, 1, 255]);
        let has_trailers = choices.below(4) == 3;
        self.summary.too_large += usize::from(is_too_large);
        let mut stream = Stream::new(kind, len);
        (stream.padding, stream.has_trailers) = (padding, has_trailers);
        self.streams.insert(id, stream);
        Some(id)
    }

    pub(super) fn open_unary(&mut self, choices: &mut Choices) {
        let which = choices.below(KINDS.len());
        let kind = KINDS[which];
        let mut len = 1 + choices.one_of(&[10, 1000, 16_384, 65_535, 200_000]) + choices.below(1000);
        // Giant: none of its memory is counted but what it says.
        if matches!(kind, Kind::LongNow) && choices.below(32) == 31 {
            len += 17 << 20;
            self.summary.giant += 1;
        }
        let as_request = choices.below(8) == 7 && ![Kind::Refused, Kind::Never].contains(&kind);
        let len = if kind == Kind::Refused { 0 } else { len };
        let extra = choices.one_of(&[0, 0, 0, 20_000, 60_000]);
        let parts = 1 + choices.below(3);
        let Some(id) = self.open(choices, kind, len, "/unary") else { return };
        let mut message = vec![which as u8];
        message.extend(id.to_be_bytes());
        message.extend((len as u32).to_be_bytes());
        message.push(choices.byte() % 4);
        message.push(if as_request { AS_REQUEST } else { 0 });
        message.resize(message.len() + extra, 7);
        self.ask(choices, id, &message, parts);
    }

    pub(super) fn open_stream(&mut self, choices: &mut Choices) {
        let (len, part) = (choices.one_of(&[0, 1000, 65_535, 300_000]), choices.one_of(&[999, 7000, 30_001]));
        let (weight, reads, trailers) = (choices.below(3), choices.below(2), choices.below(2));
        let path = format!("/{weight}/{}/{len}/{part}/{reads}/{trailers}", self.next_stream);
        let Some(id) = self.open(choices, Kind::Stream, len, &path) else { return };
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.is_unheard = reads == 0;
        }
        let body = content(id, 0, choices.one_of(&[0, 10, 5000, 70_000]));
        self.ask(choices, id, &body, 4);
    }

    /// The message of a call, in some parts. Half of the calls are sent at once, the others part by
    /// part, between other things.
    fn ask(&mut self, choices: &mut Choices, id: u32, message: &[u8], parts: usize) {
        let body = [&[0][..], &(message.len() as u32).to_be_bytes(), message].concat();
        // A part with its padding fits into the windows, once these are open.
        let window = self.limits.stream_window.min(self.limits.connection_window) as usize;
        let part = body.len().div_ceil(parts).min(PART_MAX - 256).min(window / 2);
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.unsent = body.chunks(part).map(<[u8]>::to_vec).rev().collect();
        }
        if choices.below(2) == 0 {
            while self.send_next(id) {}
        }
    }

    /// Sends the next part of a request. False: there is none, or no room for it.
    pub(super) fn send_next(&mut self, id: u32) -> bool {
        let Some(stream) = self.streams.get_mut(&id) else { return false };
        let Some(part) = stream.unsent.last() else { return false };
        let padding = if stream.padding > 0 { 1 + i64::from(stream.padding) } else { 0 };
        let flow = part.len() as i64 + padding;
        if flow > self.room || flow > self.first_room + stream.room {
            return false;
        }
        self.room -= flow;
        stream.room -= flow;
        let is_last = stream.unsent.len() == 1;
        let end = if is_last && !stream.has_trailers { flag::END_STREAM } else { 0 };
        self.far_end.send(&padded(kind::DATA, end, id, part, stream.padding));
        stream.unsent.pop();
        if is_last && stream.has_trailers {
            let block = [&[0, 3][..], b"x-t", &[1], b"y"].concat();
            let flags = flag::END_STREAM | flag::END_HEADERS;
            self.far_end.send(&frame(kind::HEADERS, flags, id, &block));
        }
        true
    }

    pub(super) fn send_part(&mut self, choices: &mut Choices) {
        if let Some(id) = self.any(choices) {
            self.send_next(id);
        }
    }
}
