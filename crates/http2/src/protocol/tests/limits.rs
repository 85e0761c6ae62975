//! What a client may use up, and what happens beyond.

use super::*;

fn open(stream: u32) -> Vec<u8> {
    frame(kind::HEADERS, flag::END_HEADERS, stream, &client::headers("/kv"))
}

fn give_up(stream: u32) -> Vec<u8> {
    frame(kind::RST_STREAM, 0, stream, &[0, 0, 0, 8])
}

#[test]
fn streams_beyond_the_limit_are_refused_and_told_so() {
    let limits = Limits { streams: 2, ..Limits::default() };
    let (mut server, mut client) = (server_with(limits), Client::default());
    assert_eq!(written(&mut server, &mut client)[0], "SETTINGS 18 bytes");
    take(&mut server, &[open(1), open(3), open(5)].concat()).unwrap();
    assert_eq!(events(&mut server), ["1: POST /kv", "3: POST /kv"]);
    assert_eq!(written(&mut server, &mut client), ["RST_STREAM 5 7"]);
    server.reply(1, Bytes::from_static(b"12345"));
    take(&mut server, &open(7)).unwrap();
    assert_eq!(events(&mut server), ["7: POST /kv"]);
}

#[test]
fn requests_taken_back_at_once_are_counted_and_answers_make_up_for_them() {
    let limits = Limits { early_resets: 10, ..Limits::default() };
    let mut server = server_with(limits);
    // The opening's settings count as one.
    for n in 0..9 {
        take(&mut server, &[open(4 * n + 1), give_up(4 * n + 1), client::call(4 * n + 3, b"")].concat())
            .unwrap();
        assert_eq!(events(&mut server)[0], format!("{}: taken back", 4 * n + 1));
        server.reply(4 * n + 3, Bytes::from_static(b"12345"));
    }
    for stream in (101..119).step_by(2) {
        take(&mut server, &[open(stream), give_up(stream)].concat()).unwrap();
    }
    let fault = take(&mut server, &[open(119), give_up(119), open(121), give_up(121)].concat()).unwrap_err();
    assert_eq!(fault.code, Code::EnhanceYourCalm);
}

#[test]
fn requests_given_up_later_are_not_held_against_a_client() {
    let limits = Limits { early_resets: 10, ..Limits::default() };
    let mut server = server_with(limits);
    for stream in (1..1001).step_by(2) {
        take(&mut server, &open(stream)).unwrap();
        events(&mut server);
        take(&mut server, &give_up(stream)).unwrap();
        assert_eq!(events(&mut server), [format!("{stream}: reset")]);
    }
    assert_eq!(server.open(), 0);
}

#[test]
fn settings_and_empty_data_without_end_are_too_much() {
    let mut server = server();
    let flood = frame(kind::SETTINGS, 0, 0, &[]).repeat(2000);
    assert_eq!(take(&mut server, &flood).unwrap_err().code, Code::EnhanceYourCalm);
    let mut server = server_with(Limits::default());
    take(&mut server, &open(1)).unwrap();
    let flood = frame(kind::DATA, 0, 1, &[]).repeat(2000);
    assert_eq!(take(&mut server, &flood).unwrap_err().code, Code::EnhanceYourCalm);
}

#[test]
fn a_header_block_without_end_is_too_much() {
    for part in [0, 1, 1000, 16_384] {
        let mut server = server();
        let mut bytes = frame(kind::HEADERS, 0, 1, &client::headers("/kv"));
        bytes.extend(frame(kind::CONTINUATION, 0, 1, &vec![0; part]).repeat(200));
        assert_eq!(take(&mut server, &bytes).unwrap_err().code, Code::EnhanceYourCalm, "in parts of {part}");
    }
}

#[test]
fn too_many_headers_are_answered_with_431_and_leave_the_tables_in_step() {
    let (mut server, mut client) = (server(), Client::default());
    written(&mut server, &mut client);
    // A field of 4000 bytes that is remembered, and then used by its index a hundred times.
    let mut block = client::headers("/kv");
    block.extend([0x40, 1, b'x', 0x7f, 0xa1, 0x1e]);
    block.extend(vec![b'y'; 4000]);
    block.extend([0xbe; 100]);
    let flags = flag::END_HEADERS | flag::END_STREAM;
    take(&mut server, &frame(kind::HEADERS, flags, 1, &block)).unwrap();
    assert!(events(&mut server).is_empty());
    assert_eq!(written(&mut server, &mut client), ["HEADERS 1 END : 431", "RST_STREAM 1 0"]);
    let again = [client::headers("/kv"), vec![0xbe]].concat();
    take(&mut server, &frame(kind::HEADERS, flags, 3, &again)).unwrap();
    assert_eq!(events(&mut server).len(), 2);
}

#[test]
fn answers_that_are_not_read_are_not_asked_for() {
    let mut server = server();
    let wide = [127, 255, 0, 0];
    take(&mut server, &frame(kind::SETTINGS, 0, 0, &[&[0, 4][..], &wide].concat())).unwrap();
    take(&mut server, &frame(kind::WINDOW_UPDATE, 0, 0, &wide)).unwrap();
    take(&mut server, &client::call(1, b"")).unwrap();
    events(&mut server);
    server.respond(1, StatusCode::OK, &HeaderMap::new(), false);
    let mut taken = 0;
    while server.room(1) == Room::Yes {
        server.send(1, Bytes::from(vec![0; 10_000]));
        server.pump();
        taken += 10_000;
        assert!(taken < 2 << 20, "it goes on for ever");
    }
    assert!(server.output().len() < 150 << 10, "{}", server.output().len());
    assert!(!server.is_congested(), "a long answer is no reason not to listen");
    take(&mut server, &frame(kind::PING, 0, 0, b"12345678").repeat(10_000)).unwrap();
    assert!(server.is_congested(), "pings that are not read are");
    drain(&mut server);
    let mut resumed = Vec::new();
    server.resumed(&mut resumed);
    assert_eq!(resumed, [1]);
}
