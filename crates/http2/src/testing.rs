//! A client that writes frames by hand and reads what comes back as text.

use bytes::Bytes;

use crate::LongMessage;
use crate::frame::{HEADER_LEN, Header, PREFACE, flag, kind, number};
use crate::hpack::{Decoder, Name};

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let header = Header { len: payload.len(), kind, flags, stream };
    [&header.encode(), payload].concat()
}

pub(crate) fn opening() -> Vec<u8> {
    [PREFACE, &frame(kind::SETTINGS, 0, 0, &[])].concat()
}

/// A field that is not remembered; both texts are short.
pub(crate) fn field(name: &str, value: &str) -> Vec<u8> {
    let mut out = vec![0];
    for text in [name, value] {
        assert!(text.len() < 127);
        out.push(text.len() as u8);
        out.extend(text.as_bytes());
    }
    out
}

pub(crate) fn headers(path: &str) -> Vec<u8> {
    let fields =
        [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "x"), ("te", "trailers")];
    fields.iter().flat_map(|(name, value)| field(name, value)).collect()
}

pub(crate) fn call(stream: u32, body: &[u8]) -> Vec<u8> {
    [
        frame(kind::HEADERS, flag::END_HEADERS, stream, &headers("/kv")),
        frame(kind::DATA, flag::END_STREAM, stream, body),
    ]
    .concat()
}

/// The tables it needs to read headers.
#[derive(Default)]
pub(crate) struct Client {
    decoder: Decoder,
    block: Vec<u8>,
    begun: Option<Header>,
}

impl Client {
    /// One line for every frame; a header block in several frames is one.
    pub(crate) fn read(&mut self, mut bytes: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        while !bytes.is_empty() {
            let header = Header::parse(bytes).expect("whole frames are written");
            let payload = &bytes[HEADER_LEN..HEADER_LEN + header.len];
            bytes = &bytes[HEADER_LEN + header.len..];
            lines.extend(self.frame(header, payload));
        }
        lines
    }

    fn frame(&mut self, header: Header, payload: &[u8]) -> Option<String> {
        let stream = header.stream;
        let end = if header.has(flag::END_STREAM) { " END" } else { "" };
        Some(match header.kind {
            kind::DATA => format!("DATA {stream}{end} {} bytes", payload.len()),
            kind::HEADERS | kind::CONTINUATION => return self.block(header, payload),
            kind::RST_STREAM => format!("RST_STREAM {stream} {}", number(payload)),
            kind::SETTINGS => {
                format!("SETTINGS{} {} bytes", if end.is_empty() { "" } else { " ACK" }, payload.len())
            }
            kind::PING => format!(
                "PING{} {}",
                if end.is_empty() { "" } else { " ACK" },
                String::from_utf8_lossy(payload)
            ),
            kind::GOAWAY => format!("GOAWAY {} {}", number(payload), number(&payload[4..])),
            kind::WINDOW_UPDATE => format!("WINDOW_UPDATE {stream} {}", number(payload)),
            other => panic!("no server writes frames of kind {other}"),
        })
    }

    fn block(&mut self, header: Header, payload: &[u8]) -> Option<String> {
        self.block.extend_from_slice(payload);
        let first = *self.begun.get_or_insert(header);
        assert_eq!(first.stream, header.stream);
        if !header.has(flag::END_HEADERS) {
            return None;
        }
        self.begun = None;
        let mut fields = Vec::new();
        self.decoder
            .decode(&self.block, |field| {
                let name = match &field.name {
                    Name::Header(name) => name.as_str(),
                    _ => ":",
                };
                fields.push(format!("{name} {}", field.value.to_str().unwrap()));
            })
            .expect("a server writes what can be decoded");
        self.block.clear();
        let end = if first.has(flag::END_STREAM) { " END" } else { "" };
        Some(format!("HEADERS {}{end} {}", first.stream, fields.join(", ")))
    }
}

/// A message that is encoded piece by piece.
#[derive(Debug)]
pub(crate) struct Sevens {
    pub(crate) left: usize,
}

impl LongMessage for Sevens {
    fn remaining(&self) -> usize {
        self.left
    }

    fn held(&self) -> usize {
        0
    }

    fn next(&mut self, max: usize) -> Bytes {
        let len = self.left.min(max);
        self.left -= len;
        Bytes::from(vec![7; len])
    }
}
