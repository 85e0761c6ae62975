//! Flow control, both ways.

use super::*;
use crate::testing::Sevens;

fn grow(stream: u32, by: u32) -> Vec<u8> {
    frame(kind::WINDOW_UPDATE, 0, stream, &by.to_be_bytes())
}

fn first_window(size: u32) -> Vec<u8> {
    frame(kind::SETTINGS, 0, 0, &[&[0, 4][..], &size.to_be_bytes()].concat())
}

/// A server with one request, to which an answer of `len` bytes is under way.
fn answering(len: usize) -> (Server, Client) {
    let (mut server, mut client) = (server(), Client::default());
    take(&mut server, &client::call(1, b"")).unwrap();
    events(&mut server);
    written(&mut server, &mut client);
    server.reply(1, Bytes::from(vec![0; len]));
    (server, client)
}

fn bytes_of(lines: &[String]) -> usize {
    let data = lines.iter().filter(|line| line.starts_with("DATA"));
    data.map(|line| line.split(' ').nth_back(1).unwrap().parse::<usize>().unwrap()).sum()
}

#[test]
fn no_more_is_sent_than_the_windows_allow() {
    let (mut server, mut client) = answering(100_000);
    let first = written(&mut server, &mut client);
    assert_eq!(bytes_of(&first), 65_535);
    assert!(first.iter().all(|line| !line.contains("END")));
    take(&mut server, &grow(1, 50_000)).unwrap();
    assert!(written(&mut server, &mut client).is_empty(), "the connection's window is used up");
    take(&mut server, &grow(0, 10)).unwrap();
    assert_eq!(bytes_of(&written(&mut server, &mut client)), 10);
    take(&mut server, &grow(0, 100_000)).unwrap();
    let rest = written(&mut server, &mut client);
    assert_eq!(bytes_of(&rest), 100_000 - 65_545);
    assert_eq!(rest.last().unwrap(), "HEADERS 1 END grpc-status 0");
}

#[test]
fn a_smaller_first_window_makes_windows_negative() {
    let (mut server, mut client) = answering(100_000);
    written(&mut server, &mut client);
    take(&mut server, &[first_window(10), grow(0, 100_000), grow(1, 65_525)].concat()).unwrap();
    assert_eq!(bytes_of(&written(&mut server, &mut client)), 0, "the window is back at nothing");
    take(&mut server, &first_window(40)).unwrap();
    assert_eq!(bytes_of(&written(&mut server, &mut client)), 30);
}

#[test]
fn streams_take_turns() {
    let (mut server, mut client) = (server(), Client::default());
    take(&mut server, &grow(0, 1 << 20)).unwrap();
    for stream in [1, 3] {
        take(&mut server, &client::call(stream, b"")).unwrap();
    }
    events(&mut server);
    written(&mut server, &mut client);
    for stream in [1, 3] {
        server.reply(stream, Bytes::from(vec![0; 40_000]));
    }
    let lines = written(&mut server, &mut client);
    let data: Vec<&str> =
        lines.iter().filter(|line| line.starts_with("DATA")).map(|line| &line[..6]).collect();
    assert_eq!(data, ["DATA 1", "DATA 3", "DATA 1", "DATA 3", "DATA 1", "DATA 3"]);
}

#[test]
fn small_answers_overtake_large_ones() {
    let (mut server, mut client) = answering(60_000);
    take(&mut server, &client::call(3, b"")).unwrap();
    events(&mut server);
    server.reply(3, Bytes::from_static(b"small"));
    let lines = written(&mut server, &mut client);
    let end = |stream: &str| {
        lines.iter().position(|line| line.starts_with(&format!("HEADERS {stream} END"))).unwrap()
    };
    assert!(end("3") < end("1"), "{lines:?}");
}

/// The client takes less than the server has, so the output is full whenever a body asks for room.
#[test]
fn a_watch_is_not_starved_by_long_messages() {
    let mut server = server();
    take(&mut server, &first_window(1 << 30)).unwrap();
    take(&mut server, &grow(0, 1 << 30)).unwrap();
    for stream in [1, 3, 5] {
        take(&mut server, &client::call(stream, b"")).unwrap();
    }
    events(&mut server);
    for stream in [1, 3] {
        server.reply_long(stream, Box::new(Sevens { left: 10_000_000 }));
    }
    server.respond(5, StatusCode::OK, &HeaderMap::new(), false);
    server.pump();
    let mut written = Vec::new();
    for event in 1..20 {
        assert_eq!(server.room(5), Room::Yes, "before event {event}");
        server.send(5, Bytes::from_static(b"event"));
        for _ in 0..20 {
            written.extend(take_output(&mut server, 10_000));
        }
        let sent = written.windows(5).filter(|bytes| bytes == b"event").count();
        assert_eq!(sent, event, "within 200 kB, most of which was in the output already");
    }
}

#[test]
fn clients_may_send_again_what_was_used() {
    let limits = Limits { stream_window: 1000, connection_window: 100_000, ..Limits::default() };
    let (mut server, mut client) = (server_with(limits), Client::default());
    take(&mut server, &frame(kind::HEADERS, flag::END_HEADERS, 1, &client::headers("/kv"))).unwrap();
    events(&mut server);
    written(&mut server, &mut client);
    take(&mut server, &frame(kind::DATA, 0, 1, &[0; 600])).unwrap();
    assert!(written(&mut server, &mut client).is_empty());
    server.release(1, 400);
    assert!(written(&mut server, &mut client).is_empty(), "not worth a frame");
    server.release(1, 200);
    assert_eq!(written(&mut server, &mut client), ["WINDOW_UPDATE 1 600"]);
    for _ in 0..83 {
        take(&mut server, &frame(kind::DATA, 0, 1, &[0; 600])).unwrap();
        server.release(1, 600);
    }
    assert!(written(&mut server, &mut client).contains(&"WINDOW_UPDATE 0 50400".to_string()));
}

#[test]
fn a_client_that_ignores_a_window_is_stopped() {
    let limits = Limits { stream_window: 1000, connection_window: 70_000, ..Limits::default() };
    let (mut server, mut client) = (server_with(limits), Client::default());
    take(&mut server, &frame(kind::HEADERS, flag::END_HEADERS, 1, &client::headers("/kv"))).unwrap();
    events(&mut server);
    written(&mut server, &mut client);
    take(&mut server, &frame(kind::DATA, 0, 1, &[0; 1001])).unwrap();
    assert_eq!(events(&mut server), ["1: reset"]);
    assert_eq!(written(&mut server, &mut client), ["RST_STREAM 1 3"]);
    let limits = Limits { stream_window: 1 << 20, connection_window: 70_000, ..Limits::default() };
    let mut server = server_with(limits);
    take(&mut server, &frame(kind::HEADERS, flag::END_HEADERS, 1, &client::headers("/kv"))).unwrap();
    for _ in 0..4 {
        take(&mut server, &frame(kind::DATA, 0, 1, &[0; 16_384])).unwrap();
    }
    assert_eq!(
        take(&mut server, &frame(kind::DATA, 0, 1, &[0; 16_384])).unwrap_err().code,
        Code::FlowControl
    );
}

#[test]
fn padding_counts_and_is_given_back_at_once() {
    let limits = Limits { stream_window: 1000, ..Limits::default() };
    let (mut server, mut client) = (server_with(limits), Client::default());
    take(&mut server, &frame(kind::HEADERS, flag::END_HEADERS, 1, &client::headers("/kv"))).unwrap();
    events(&mut server);
    written(&mut server, &mut client);
    let padded = [&[255u8][..], &[0; 255]].concat();
    for _ in 0..2 {
        take(&mut server, &frame(kind::DATA, flag::PADDED, 1, &padded)).unwrap();
    }
    assert_eq!(written(&mut server, &mut client), ["WINDOW_UPDATE 1 512"]);
}
