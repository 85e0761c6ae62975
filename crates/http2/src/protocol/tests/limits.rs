//! What a client may use up, and what happens beyond.

use super::*;

fn open(stream: u32) -> Vec<u8> {
    frame(kind::HEADERS, flag::END_HEADERS, stream, &client::headers("/kv"))
}

fn give_up(stream: u32) -> Vec<u8> {
    frame(kind::RST_STREAM, 0, stream, &[0, 0, 0, 8])
}

#[test]
fn streams_beyond_the_limit_are_refused_with_a_reset() {
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
fn requests_reset_at_once_are_paid_for_and_time_refills_the_allowance() {
    // The opening's settings cost 20 units, a request that is reset at once 5.
    let limits = Limits { overhead: 120, ..Limits::default() };
    let mut server = server_with(limits);
    let mut streams = (1..).step_by(2);
    let mut reset = |server: &mut Server| {
        let stream = streams.next().unwrap();
        take(server, &[open(stream), give_up(stream)].concat())
    };
    for _ in 0..20 {
        reset(&mut server).unwrap();
    }
    server.refill(Duration::from_millis(500));
    for _ in 0..12 {
        reset(&mut server).unwrap();
    }
    assert_eq!(reset(&mut server).unwrap_err().code, Code::EnhanceYourCalm);
}

/// One frame of settings may name the initial window thousands of times, and each stream has a
/// window.
#[test]
fn settings_cost_what_they_make_the_server_do() {
    let mut server = server_with(Limits { streams: 60_000, ..Limits::default() });
    for stream in (1..100_000).step_by(2) {
        take(&mut server, &open(stream)).unwrap();
    }
    events(&mut server);
    let window = |size: u32| [&[0, 4][..], &size.to_be_bytes()].concat();
    let flood: Vec<u8> = (0..1300).flat_map(|_| [window(0), window(70_000)].concat()).collect();
    let mut frames = 0;
    while take(&mut server, &frame(kind::SETTINGS, 0, 0, &flood)).is_ok() {
        frames += 1;
        take(&mut server, &frame(kind::SETTINGS, 0, 0, &window(0))).unwrap();
    }
    assert!(frames > 10 && frames < 20, "{frames} frames made 50,000 streams be looked at");
}

#[test]
fn requests_given_up_later_are_not_held_against_a_client() {
    let limits = Limits { overhead: 30, ..Limits::default() };
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
    let flood = frame(kind::SETTINGS, 0, 0, &[]).repeat(20_000);
    assert_eq!(take(&mut server, &flood).unwrap_err().code, Code::EnhanceYourCalm);
    let mut server = server_with(Limits::default());
    take(&mut server, &open(1)).unwrap();
    let flood = frame(kind::DATA, 0, 1, &[]).repeat(20_000);
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
