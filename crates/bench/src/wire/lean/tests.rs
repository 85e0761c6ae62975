//! The protocol against frames made by hand: what it sends, and what it makes of answers, good and
//! bad.

use std::time::Instant;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use vetch_http2::frame::{HEADER_LEN, Header, MAX_PAYLOAD, PREFACE, flag, kind, setting};
use vetch_http2::hpack::{Decoder, Encoder, Name};

use super::error::ProtocolError;
use super::frame;
use super::protocol::Protocol;
use crate::failure::Failure;
use crate::wire::{Happened, Inbox, Method};

const SETUP: usize = PREFACE.len() + HEADER_LEN + 12 + HEADER_LEN + 4;

/// The frames of what a protocol wants to send.
fn frames(mut bytes: &[u8]) -> Vec<(Header, Vec<u8>)> {
    let mut frames = Vec::new();
    while let Some(header) = Header::parse(bytes) {
        frames.push((header, bytes[HEADER_LEN..HEADER_LEN + header.len].to_vec()));
        bytes = &bytes[HEADER_LEN + header.len..];
    }
    assert!(bytes.is_empty(), "frames are whole");
    frames
}

fn sent(protocol: &mut Protocol) -> Vec<(Header, Vec<u8>)> {
    let output = protocol.output().to_vec();
    protocol.written(output.len());
    frames(&output)
}

/// A connection that has said hello.
fn connection() -> Protocol {
    let mut protocol = Protocol::new("localhost:2379");
    assert!(protocol.output().starts_with(PREFACE));
    assert_eq!(protocol.output().len(), SETUP);
    protocol.written(SETUP);
    protocol
}

fn put_frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    frame::put_header(out, payload.len(), kind, flags, stream);
    out.extend_from_slice(payload);
}

fn answer(encoder: &mut Encoder, stream: u32, message: &[u8], status: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut first = Vec::new();
    encoder.grpc_head(&mut first);
    put_frame(&mut out, kind::HEADERS, flag::END_HEADERS, stream, &first);
    let mut framed = vec![0];
    framed.extend_from_slice(&(message.len() as u32).to_be_bytes());
    framed.extend_from_slice(message);
    put_frame(&mut out, kind::DATA, 0, stream, &framed);
    let mut fields = HeaderMap::new();
    fields.insert("grpc-status", status.parse().unwrap());
    fields.insert("grpc-message", HeaderValue::from_static("words"));
    let mut last = Vec::new();
    encoder.trailers(&fields, &mut last);
    put_frame(&mut out, kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, stream, &last);
    out
}

/// The block of a response's head without further fields.
fn head(status: StatusCode) -> Vec<u8> {
    let mut block = Vec::new();
    Encoder::default().head(status, &HeaderMap::new(), &mut block);
    block
}

fn happenings(inbox: &Inbox) -> Vec<(u64, String)> {
    let text = |happened: Happened<'_>| match happened {
        Happened::Message(message) => String::from_utf8_lossy(message).into_owned(),
        Happened::End(None) => "done".to_owned(),
        Happened::End(Some(failure)) => failure.to_string(),
    };
    inbox.iter().map(|(tag, _, happened)| (tag, text(happened))).collect()
}

fn receive(protocol: &mut Protocol, bytes: &[u8]) -> (Result<(), ProtocolError>, Vec<(u64, String)>) {
    let mut inbox = Inbox::default();
    let outcome = protocol.receive(bytes, Instant::now(), &mut inbox);
    (outcome, happenings(&inbox))
}

#[test]
fn headers_of_later_requests_are_references_and_mean_the_same() {
    let mut protocol = connection();
    let methods = [
        Method::Put,
        Method::Txn,
        Method::Put,
        Method::Put,
        Method::Txn,
        Method::Range,
        Method::Put,
        Method::Put,
    ];
    for (tag, method) in methods.into_iter().enumerate() {
        protocol.open(tag as u64, method, b"x", true);
    }
    let mut decoder = Decoder::default();
    let mut lengths = Vec::new();
    let all = sent(&mut protocol);
    let blocks = all.iter().filter(|(header, _)| header.kind == kind::HEADERS);
    for ((_, block), method) in blocks.zip(methods) {
        lengths.push(block.len());
        let mut fields = Vec::new();
        decoder.decode(block, |field| fields.push((field.name.clone(), field.value.clone()))).unwrap();
        let value = |name: Name| fields.iter().find(|(n, _)| *n == name).map(|(_, v)| v.to_str().unwrap());
        let named = |name| value(Name::Header(HeaderName::from_static(name)));
        assert_eq!(value(Name::Path), Some(method.path()));
        assert_eq!(value(Name::Method), Some("POST"));
        assert_eq!(value(Name::Authority), Some("localhost:2379"));
        assert_eq!(named("content-type"), Some("application/grpc"));
        assert_eq!(named("te"), Some("trailers"));
        assert_eq!(fields.len(), 7);
    }
    assert_eq!(lengths.len(), methods.len());
    assert!(lengths[3] == 7 && lengths[7] == 7, "references only: {lengths:?}");
}

#[test]
fn an_answer_is_the_same_however_its_bytes_are_cut() {
    for cut in 1..60 {
        let mut protocol = connection();
        protocol.open(5, Method::Range, b"q", true);
        let bytes = answer(&mut Encoder::default(), 1, b"hello", "0");
        let mut seen = Vec::new();
        for piece in bytes.chunks(cut) {
            let (outcome, happened) = receive(&mut protocol, piece);
            outcome.unwrap();
            seen.extend(happened);
        }
        assert_eq!(seen, [(5, "hello".to_owned()), (5, "done".to_owned())], "pieces of {cut}");
    }
}

#[test]
fn a_status_other_than_zero_is_a_failure_with_its_words() {
    let mut protocol = connection();
    protocol.open(5, Method::Range, b"q", true);
    let (outcome, happened) = receive(&mut protocol, &answer(&mut Encoder::default(), 1, b"", "11"));
    outcome.unwrap();
    assert_eq!(happened.last().unwrap(), &(5, Failure { code: Some(11), text: "words".into() }.to_string()));
}

#[test]
fn an_end_without_a_status_is_a_failure() {
    let mut protocol = connection();
    protocol.open(5, Method::Range, b"q", true);
    let mut bytes = Vec::new();
    put_frame(&mut bytes, kind::HEADERS, flag::END_HEADERS, 1, &head(StatusCode::OK));
    put_frame(&mut bytes, kind::DATA, flag::END_STREAM, 1, b"\0\0\0\0\x01x");
    let (outcome, happened) = receive(&mut protocol, &bytes);
    outcome.unwrap();
    assert!(happened.last().unwrap().1.contains("without a status"), "{happened:?}");
}

#[test]
fn a_reset_stream_and_a_bad_http_status_are_failures() {
    let mut protocol = connection();
    protocol.open(5, Method::Range, b"q", true);
    protocol.open(6, Method::Range, b"q", true);
    let mut bytes = Vec::new();
    put_frame(&mut bytes, kind::RST_STREAM, 0, 1, &7u32.to_be_bytes());
    put_frame(&mut bytes, kind::HEADERS, flag::END_HEADERS, 3, &head(StatusCode::SERVICE_UNAVAILABLE));
    let (outcome, happened) = receive(&mut protocol, &bytes);
    outcome.unwrap();
    assert!(happened[0].1.contains("reset") && happened[1].1.contains("503"), "{happened:?}");
}

#[test]
fn no_more_is_sent_than_the_windows_allow_and_the_rest_follows() {
    let mut protocol = connection();
    let message = vec![7; 100_000];
    protocol.open(5, Method::Put, &message, true);
    protocol.open(6, Method::Put, b"small", true);
    let bytes_of = |frames: &[(Header, Vec<u8>)]| -> usize {
        frames.iter().filter(|(header, _)| header.kind == kind::DATA).map(|(_, payload)| payload.len()).sum()
    };
    let first = sent(&mut protocol);
    assert_eq!(bytes_of(&first), 65_535);
    assert!(first.iter().all(|(header, _)| header.len <= MAX_PAYLOAD));
    let mut more = Vec::new();
    frame::put_window_update(&mut more, 0, 1 << 20);
    receive(&mut protocol, &more).0.unwrap();
    assert_eq!(bytes_of(&sent(&mut protocol)), 0, "the stream's own window is still full");
    more.clear();
    frame::put_window_update(&mut more, 1, 1 << 20);
    receive(&mut protocol, &more).0.unwrap();
    let rest = sent(&mut protocol);
    assert_eq!(bytes_of(&rest), 100_005 - 65_535 + 10);
    let ends: Vec<u32> = rest
        .iter()
        .filter(|(header, _)| header.kind == kind::DATA && header.has(flag::END_STREAM))
        .map(|(header, _)| header.stream)
        .collect();
    assert_eq!(ends, [1, 3]);
}

#[test]
fn calls_beyond_the_limit_of_streams_wait_for_earlier_ones() {
    let mut protocol = connection();
    let mut settings = Vec::new();
    frame::put_setting(&mut settings, setting::MAX_CONCURRENT_STREAMS, 1);
    let mut bytes = Vec::new();
    put_frame(&mut bytes, kind::SETTINGS, 0, 0, &settings);
    receive(&mut protocol, &bytes).0.unwrap();
    sent(&mut protocol);
    protocol.open(5, Method::Range, b"q", true);
    protocol.open(6, Method::Range, b"q", true);
    let opened = |frames: Vec<(Header, Vec<u8>)>| {
        frames.iter().filter(|(header, _)| header.kind == kind::HEADERS).count()
    };
    assert_eq!(opened(sent(&mut protocol)), 1);
    receive(&mut protocol, &answer(&mut Encoder::default(), 1, b"", "0")).0.unwrap();
    assert_eq!(opened(sent(&mut protocol)), 1);
}

#[test]
fn what_is_read_is_given_back_to_the_windows() {
    let mut protocol = connection();
    protocol.open(5, Method::RangeStream, b"q", true);
    sent(&mut protocol);
    let (mut for_stream, mut for_all) = (0, 0);
    let mut bytes = Vec::new();
    put_frame(
        &mut bytes,
        kind::DATA,
        0,
        1,
        &[0, 0, 0, 0x3f, 0xfb].iter().copied().chain([9; 16_379]).collect::<Vec<_>>(),
    );
    for _ in 0..8192 {
        receive(&mut protocol, &bytes).0.unwrap();
        for (header, payload) in sent(&mut protocol) {
            let given = u32::from_be_bytes(payload[..4].try_into().unwrap());
            *(if header.stream == 0 { &mut for_all } else { &mut for_stream }) += given;
        }
    }
    assert_eq!((for_stream, for_all), (128 << 20, 128 << 20));
}

#[test]
fn a_ping_is_answered_and_a_push_ends_the_connection() {
    let mut protocol = connection();
    let mut bytes = Vec::new();
    put_frame(&mut bytes, kind::PING, 0, 0, b"12345678");
    receive(&mut protocol, &bytes).0.unwrap();
    let answers = sent(&mut protocol);
    assert!(answers[0].0.kind == kind::PING && answers[0].0.has(flag::ACK) && answers[0].1 == b"12345678");
    bytes.clear();
    put_frame(&mut bytes, kind::PUSH_PROMISE, 0, 1, b"");
    assert!(receive(&mut protocol, &bytes).0.is_err());
}

#[test]
fn calls_fail_with_their_connection() {
    let mut protocol = connection();
    protocol.open(5, Method::Range, b"q", true);
    let mut inbox = Inbox::default();
    protocol.fail_all("gone", &mut inbox);
    assert_eq!(happenings(&inbox), [(5, "transport: gone".to_owned())]);
}
