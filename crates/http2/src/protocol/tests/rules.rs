//! What a client must not do, and what comes of it.

use super::*;
use crate::testing::field;

fn headers_frame(flags: u8, stream: u32, block: &[u8]) -> Vec<u8> {
    frame(kind::HEADERS, flag::END_HEADERS | flags, stream, block)
}

/// What ends the connection.
#[test]
fn mistakes_that_end_the_connection() {
    let good = client::headers("/kv");
    let cases: Vec<(&str, Code, Vec<u8>)> = vec![
        ("data on stream 0", Code::Protocol, frame(kind::DATA, 0, 0, b"x")),
        ("data on an idle stream", Code::Protocol, frame(kind::DATA, 0, 1, b"x")),
        ("headers on stream 0", Code::Protocol, headers_frame(0, 0, &good)),
        ("headers on an even stream", Code::Protocol, headers_frame(0, 2, &good)),
        (
            "a smaller stream",
            Code::StreamClosed,
            [headers_frame(0, 5, &good), headers_frame(0, 3, &good)].concat(),
        ),
        ("a pushed promise", Code::Protocol, frame(kind::PUSH_PROMISE, flag::END_HEADERS, 1, &good)),
        ("a continuation of nothing", Code::Protocol, frame(kind::CONTINUATION, flag::END_HEADERS, 1, b"")),
        ("a frame too long", Code::FrameSize, frame(kind::DATA, 0, 1, &[0; 16_385])),
        ("settings of 5 bytes", Code::FrameSize, frame(kind::SETTINGS, 0, 0, b"12345")),
        ("settings of a stream", Code::Protocol, frame(kind::SETTINGS, 0, 1, b"")),
        ("an answer with settings", Code::FrameSize, frame(kind::SETTINGS, flag::ACK, 0, &[0; 6])),
        ("push neither on nor off", Code::Protocol, frame(kind::SETTINGS, 0, 0, &[0, 2, 0, 0, 0, 2])),
        ("a first window too large", Code::FlowControl, frame(kind::SETTINGS, 0, 0, &[0, 4, 128, 0, 0, 0])),
        ("frames too short", Code::Protocol, frame(kind::SETTINGS, 0, 0, &[0, 5, 0, 0, 0, 1])),
        ("a ping of 7 bytes", Code::FrameSize, frame(kind::PING, 0, 0, b"1234567")),
        ("a ping of a stream", Code::Protocol, frame(kind::PING, 0, 1, b"12345678")),
        ("a window that does not grow", Code::Protocol, frame(kind::WINDOW_UPDATE, 0, 0, &[0; 4])),
        ("a window of an idle stream", Code::Protocol, frame(kind::WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1])),
        ("a window of 3 bytes", Code::FrameSize, frame(kind::WINDOW_UPDATE, 0, 0, &[0; 3])),
        ("a window too large", Code::FlowControl, frame(kind::WINDOW_UPDATE, 0, 0, &[127, 255, 255, 255])),
        ("a reset of stream 0", Code::Protocol, frame(kind::RST_STREAM, 0, 0, &[0; 4])),
        ("a reset of an idle stream", Code::Protocol, frame(kind::RST_STREAM, 0, 1, &[0; 4])),
        ("a priority of stream 0", Code::Protocol, frame(kind::PRIORITY, 0, 0, &[0; 5])),
        ("a priority of 4 bytes", Code::FrameSize, frame(kind::PRIORITY, 0, 1, &[0; 4])),
        ("a stream that depends on itself", Code::Protocol, frame(kind::PRIORITY, 0, 1, &[0, 0, 0, 1, 9])),
        ("a farewell of a stream", Code::Protocol, frame(kind::GOAWAY, 0, 1, &[0; 8])),
        ("an index that was never set", Code::Compression, headers_frame(0, 1, b"\xff\xff\xff\x7f")),
        ("padding longer than the frame", Code::Protocol, headers_frame(flag::PADDED, 1, b"\xff\x00")),
        (
            "data with too much padding",
            Code::Protocol,
            [headers_frame(0, 1, &good), frame(kind::DATA, flag::PADDED, 1, &[9; 3])].concat(),
        ),
        (
            "headers for a stream that has ended",
            Code::StreamClosed,
            [client::call(1, b""), frame(kind::RST_STREAM, 0, 1, &[0; 4]), headers_frame(0, 1, &good)]
                .concat(),
        ),
    ];
    for (what, code, bytes) in cases {
        let mut server = server();
        let fault = take(&mut server, &bytes).expect_err(what);
        assert_eq!(fault.code, code, "{what}");
    }
}

#[test]
fn settings_come_first() {
    let preface = crate::frame::PREFACE;
    let first = [frame(kind::PING, 0, 0, b"12345678"), frame(kind::SETTINGS, flag::ACK, 0, &[])];
    for other in first {
        assert!(take(&mut Server::new(Limits::default()), &[preface, &other].concat()).is_err());
    }
    assert!(take(&mut Server::new(Limits::default()), b"PRI * HTTP/1.1").is_err());
}

#[test]
fn nothing_comes_between_the_parts_of_a_header_block() {
    let block = client::headers("/kv");
    let begun = frame(kind::HEADERS, 0, 1, &block[..10]);
    let others = [
        frame(kind::PING, 0, 0, b"12345678"),
        frame(77, 0, 1, b"unknown"),
        frame(kind::CONTINUATION, flag::END_HEADERS, 3, &block[10..]),
    ];
    for other in others {
        let fault = take(&mut server(), &[begun.clone(), other].concat()).unwrap_err();
        assert_eq!(fault.code, Code::Protocol);
    }
    let mut server = server();
    take(&mut server, &[begun, frame(kind::CONTINUATION, flag::END_HEADERS, 1, &block[10..])].concat())
        .unwrap();
    assert_eq!(events(&mut server), ["1: POST /kv"]);
}

/// What ends the one request, and nothing else.
#[test]
fn malformed_requests_are_reset() {
    let good = client::headers("/kv");
    let with = |name: &str, value: &str| [good.clone(), field(name, value)].concat();
    let cases = [
        ("capitals", with("X-A", "b")),
        ("a pseudo-header behind a header", with(":authority", "x")),
        ("a pseudo-header of answers", [field(":status", "200"), good.clone()].concat()),
        ("an unknown pseudo-header", [field(":test", "x"), good.clone()].concat()),
        ("two methods", [field(":method", "GET"), good.clone()].concat()),
        ("a connection header", with("connection", "keep-alive")),
        ("transfer encoding", with("transfer-encoding", "chunked")),
        ("te that is not trailers", with("te", "gzip")),
        ("an empty path", client::headers("")),
        ("no path", [field(":method", "GET"), field(":scheme", "http")].concat()),
        ("a length that is no number", with("content-length", "1x")),
        ("a value with a line feed", with("x", "a\nb")),
        ("a tunnel", [field(":method", "CONNECT"), field(":scheme", "http"), field(":path", "/")].concat()),
    ];
    for (what, block) in cases {
        let (mut server, mut client) = (server(), Client::default());
        written(&mut server, &mut client);
        take(&mut server, &headers_frame(flag::END_STREAM, 1, &block)).unwrap();
        assert!(events(&mut server).is_empty(), "{what}");
        assert_eq!(written(&mut server, &mut client), ["RST_STREAM 1 1"], "{what}");
        take(&mut server, &client::call(3, b"")).unwrap();
        assert_eq!(events(&mut server).len(), 2, "{what}");
    }
}

#[test]
fn a_body_is_as_long_as_was_announced() {
    let block = [client::headers("/kv"), field("content-length", "5")].concat();
    for (parts, good) in
        [(vec![5], true), (vec![2, 3], true), (vec![4], false), (vec![3, 3], false), (vec![0], false)]
    {
        let (mut server, mut client) = (server(), Client::default());
        written(&mut server, &mut client);
        take(&mut server, &headers_frame(0, 1, &block)).unwrap();
        events(&mut server);
        for (n, len) in parts.iter().enumerate() {
            let flags = if n + 1 == parts.len() { flag::END_STREAM } else { 0 };
            take(&mut server, &frame(kind::DATA, flags, 1, &vec![0; *len])).unwrap();
        }
        let was_reset = events(&mut server).contains(&"1: reset".to_string());
        assert_eq!(was_reset, !good, "{parts:?}");
        assert_eq!(written(&mut server, &mut client).contains(&"RST_STREAM 1 1".to_string()), !good);
    }
}

#[test]
fn trailers_end_a_request_and_are_checked() {
    let trailers = field("x", "y");
    for (flags, block, good) in [
        (flag::END_STREAM, trailers.clone(), true),
        (0, trailers, false),
        (flag::END_STREAM, field(":path", "/"), false),
    ] {
        let mut server = server();
        take(&mut server, &headers_frame(0, 1, &client::headers("/kv"))).unwrap();
        take(&mut server, &headers_frame(flags, 1, &block)).unwrap();
        let expected = if good { "1: 0 bytes, the last" } else { "1: reset" };
        let found = events(&mut server);
        // One that was not looked at yet is simply gone.
        assert!(found.contains(&expected.to_string()) || (!good && found == ["1: taken back"]), "{found:?}");
    }
}

#[test]
fn data_after_the_end_resets_the_stream() {
    let (mut server, mut client) = (server(), Client::default());
    written(&mut server, &mut client);
    take(&mut server, &client::call(1, b"")).unwrap();
    events(&mut server);
    take(&mut server, &frame(kind::DATA, 0, 1, b"more")).unwrap();
    assert_eq!(events(&mut server), ["1: reset"]);
    assert_eq!(written(&mut server, &mut client), ["RST_STREAM 1 5"]);
}

#[test]
fn frames_of_unknown_kinds_are_ignored() {
    let mut server = server();
    take(&mut server, &frame(0x42, 0xff, 7, b"whatever")).unwrap();
    take(&mut server, &client::call(1, b"")).unwrap();
    assert_eq!(events(&mut server).len(), 2);
}

#[test]
fn padding_and_priorities_are_left_out() {
    let mut server = server();
    let block = [&[2u8][..], &[0, 0, 0, 0, 16], &client::headers("/kv"), &[0, 0]].concat();
    take(&mut server, &headers_frame(flag::PADDED | flag::PRIORITY, 1, &block)).unwrap();
    take(&mut server, &frame(kind::DATA, flag::PADDED | flag::END_STREAM, 1, b"\x03abc\0\0\0")).unwrap();
    assert_eq!(events(&mut server), ["1: POST /kv", "1: 3 bytes, the last"]);
}

#[test]
fn pings_come_back() {
    let (mut server, mut client) = (server(), Client::default());
    written(&mut server, &mut client);
    take(&mut server, &frame(kind::PING, 0, 0, b"12345678")).unwrap();
    take(&mut server, &frame(kind::PING, flag::ACK, 0, b"unasked!")).unwrap();
    assert_eq!(written(&mut server, &mut client), ["PING ACK 12345678"]);
}
