//! Tests of the protocol, as bytes.

mod chaos;
mod flow;
mod limits;
mod rules;

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode};

use super::{Code, Event, Fault, Protocol, Room, Tail};
use crate::frame::{flag, kind};
use crate::limits::Limits;
use crate::testing::{self as client, Client, frame};

/// Different bytes for every request, to see whose they are.
type Server = Protocol<u32>;

fn server() -> Server {
    server_with(Limits::default())
}

/// One that has heard a client's opening.
fn server_with(limits: Limits) -> Server {
    let mut server = Server::new(limits);
    take(&mut server, &client::opening()).unwrap();
    server
}

fn take(server: &mut Server, bytes: &[u8]) -> Result<(), Fault> {
    server.receive(&mut BytesMut::from(bytes))
}

/// All events; requests count as begun.
fn events(server: &mut Server) -> Vec<String> {
    let mut found = Vec::new();
    while let Some(event) = server.next_event() {
        found.push(match event {
            Event::Request { stream, head } => match server.begin(stream) {
                Some(_) => format!("{stream}: {} {}", head.method, head.path.to_str().unwrap()),
                None => format!("{stream}: taken back"),
            },
            Event::Data { stream, data, end } => {
                format!("{stream}: {} bytes{}", data.len(), if end { ", the last" } else { "" })
            }
            Event::Reset { stream, .. } => format!("{stream}: reset"),
        });
    }
    found
}

/// What was written since the last look, as a client reads it.
fn written(server: &mut Server, client: &mut Client) -> Vec<String> {
    server.pump();
    let bytes = drain(server);
    client.read(&bytes)
}

/// At most so many bytes of the output, as a socket with little room takes them.
fn take_output(server: &mut Server, max: usize) -> Vec<u8> {
    let mut places = [std::io::IoSlice::new(&[]); 64];
    let filled = server.output().parts(&mut places);
    let mut bytes: Vec<u8> = places[..filled].iter().flat_map(|place| place.to_vec()).collect();
    bytes.truncate(max);
    server.output().advance(bytes.len());
    server.pump();
    bytes
}

fn drain(server: &mut Server) -> Vec<u8> {
    let mut bytes = Vec::new();
    while !server.output().is_empty() {
        let mut places = [std::io::IoSlice::new(&[]); 3];
        let filled = server.output().parts(&mut places);
        let part: Vec<u8> = places[..filled].iter().flat_map(|place| place.to_vec()).collect();
        server.output().advance(part.len());
        bytes.extend(part);
        server.pump();
    }
    bytes
}

#[test]
fn a_call_is_a_request_and_its_data_and_is_answered_in_three_frames() {
    let (mut server, mut client) = (server(), Client::default());
    written(&mut server, &mut client);
    take(&mut server, &client::call(1, b"hello")).unwrap();
    assert_eq!(events(&mut server), ["1: POST /kv", "1: 5 bytes, the last"]);
    server.reply(1, Bytes::from_static(b"\0\0\0\0\x02ok"));
    let expected =
        ["HEADERS 1 : 200, content-type application/grpc", "DATA 1 7 bytes", "HEADERS 1 END grpc-status 0"];
    assert_eq!(written(&mut server, &mut client), expected);
    assert_eq!(server.open(), 0);
}

#[test]
fn the_second_answer_takes_a_few_bytes() {
    let mut server = server();
    let mut lengths = Vec::new();
    for stream in [1, 3, 5] {
        take(&mut server, &client::call(stream, b"hello")).unwrap();
        events(&mut server);
        drain(&mut server);
        server.reply(stream, Bytes::from_static(b"12345"));
        lengths.push(drain(&mut server).len());
    }
    assert_eq!(lengths, [9 + 19 + 9 + 5 + 9 + 15, 35, 35]);
}

#[test]
fn it_does_not_matter_how_the_bytes_are_cut() {
    let bytes = [client::opening(), client::call(1, b"hello"), client::call(3, &[7; 9000])].concat();
    for size in [1, 2, 3, 7, 9, 10, 64, bytes.len()] {
        let mut server = Server::new(Limits::default());
        let mut input = BytesMut::new();
        let mut found = Vec::new();
        for part in bytes.chunks(size) {
            input.extend_from_slice(part);
            server.receive(&mut input).unwrap();
            found.extend(events(&mut server));
        }
        assert_eq!(found, ["1: POST /kv", "1: 5 bytes, the last", "3: POST /kv", "3: 9000 bytes, the last"]);
    }
}

/// The same bytes are the same head only while the table that they refer to stays as it is.
#[test]
fn heads_seen_before_are_not_mistaken_for_later_ones() {
    let mut server = server();
    let newest = [0x83, 0x86, 0xbe];
    let named = |path: u8| [0x83, 0x86, 0x44, 2, b'/', path];
    let blocks: [&[u8]; 6] = [&named(b'a'), &newest, &newest, &named(b'b'), &newest, &newest];
    let mut found = Vec::new();
    for (stream, block) in (1..).step_by(2).zip(blocks) {
        take(&mut server, &frame(kind::HEADERS, flag::END_HEADERS, stream, block)).unwrap();
        found.extend(events(&mut server));
    }
    let paths: Vec<&str> = found.iter().map(|line| &line[line.len() - 2..]).collect();
    assert_eq!(paths, ["/a", "/a", "/a", "/b", "/b", "/b"]);
}

#[test]
fn answers_may_be_refusals_and_pages() {
    let (mut server, mut client) = (server(), Client::default());
    written(&mut server, &mut client);
    for stream in [1, 3] {
        take(&mut server, &client::call(stream, b"")).unwrap();
    }
    events(&mut server);
    let mut fields = HeaderMap::new();
    fields.insert("grpc-status", "5".parse().unwrap());
    server.respond(1, StatusCode::OK, &fields, true);
    server.respond(3, StatusCode::NOT_FOUND, &HeaderMap::new(), false);
    server.send(3, Bytes::from_static(b"nothing"));
    server.finish(3, Tail::Nothing);
    let expected = ["HEADERS 1 END : 200, grpc-status 5", "HEADERS 3 : 404", "DATA 3 END 7 bytes"];
    assert_eq!(written(&mut server, &mut client), expected);
}

#[test]
fn header_blocks_larger_than_a_frame_are_continued() {
    let (mut server, mut client) = (server(), Client::default());
    written(&mut server, &mut client);
    take(&mut server, &client::call(1, b"")).unwrap();
    events(&mut server);
    let mut fields = HeaderMap::new();
    fields.insert("x", "y".repeat(40_000).parse().unwrap());
    server.respond(1, StatusCode::OK, &fields, true);
    assert_eq!(written(&mut server, &mut client), [format!("HEADERS 1 END : 200, x {}", "y".repeat(40_000))]);
}

#[test]
fn an_answer_before_the_request_is_whole_tells_the_client_to_stop() {
    let (mut server, mut client) = (server(), Client::default());
    written(&mut server, &mut client);
    take(&mut server, &frame(kind::HEADERS, flag::END_HEADERS, 1, &client::headers("/kv"))).unwrap();
    events(&mut server);
    server.reply(1, Bytes::from_static(b"12345"));
    assert_eq!(written(&mut server, &mut client).last().unwrap(), "RST_STREAM 1 0");
    // What was on its way is passed over.
    take(&mut server, &frame(kind::DATA, flag::END_STREAM, 1, b"late")).unwrap();
    assert!(events(&mut server).is_empty());
    assert!(written(&mut server, &mut client).is_empty());
}

#[test]
fn a_farewell_lets_requests_finish_that_were_on_their_way() {
    let (mut server, mut client) = (server(), Client::default());
    written(&mut server, &mut client);
    server.announce_farewell();
    let frames = written(&mut server, &mut client);
    assert_eq!(frames, ["GOAWAY 2147483647 0", "PING farewell"]);
    take(&mut server, &client::call(1, b"")).unwrap();
    take(&mut server, &frame(kind::PING, flag::ACK, 0, b"farewell")).unwrap();
    take(&mut server, &client::call(3, b"too late")).unwrap();
    assert_eq!(events(&mut server), ["1: POST /kv", "1: 0 bytes, the last"]);
    assert_eq!(written(&mut server, &mut client), ["GOAWAY 1 0"]);
    assert!(!server.is_done());
    server.reply(1, Bytes::from_static(b"12345"));
    drain(&mut server);
    assert!(server.is_done());
}

#[test]
fn room_is_given_back_when_the_client_reads() {
    let limits = Limits { send_buffer: 1000, ..Limits::default() };
    let mut server = server_with(limits);
    take(&mut server, &client::call(1, b"")).unwrap();
    events(&mut server);
    drain(&mut server);
    server.respond(1, StatusCode::OK, &HeaderMap::new(), false);
    assert_eq!(server.room(1), Room::Yes);
    server.send(1, Bytes::from(vec![0; 65_000]));
    assert_eq!(server.room(1), Room::Later);
    let mut resumed = Vec::new();
    drain(&mut server);
    server.resumed(&mut resumed);
    assert_eq!(resumed, [1], "all of it was within the window");
    assert_eq!(server.room(7), Room::Never);
}

#[test]
fn a_body_is_asked_for_one_part_beyond_its_window() {
    let mut server = server();
    take(&mut server, &client::call(1, b"")).unwrap();
    events(&mut server);
    server.respond(1, StatusCode::OK, &HeaderMap::new(), false);
    server.send(1, Bytes::from(vec![0; 66_000]));
    drain(&mut server);
    assert_eq!(server.room(1), Room::Later, "465 bytes wait for the window");
    let mut resumed = Vec::new();
    server.resumed(&mut resumed);
    assert_eq!(resumed, [0; 0]);
    take(&mut server, &frame(kind::WINDOW_UPDATE, 0, 0, &100u32.to_be_bytes())).unwrap();
    take(&mut server, &frame(kind::WINDOW_UPDATE, 0, 1, &1000u32.to_be_bytes())).unwrap();
    server.resumed(&mut resumed);
    assert_eq!(resumed, [1]);
}
