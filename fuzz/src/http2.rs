//! HTTP/2 as strangers speak it: frames of any kind in any order, cut anywhere, header blocks
//! without sense. The server answers what it takes for requests, never holds more than it may, and
//! writes nothing but whole frames.

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode};
use vetch_http2::Limits;
use vetch_http2::protocol::{Event, Protocol, Room, Tail};

pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
const HEADER: usize = 9;
const STREAMS: u32 = 8;

/// The first byte says into what pieces the rest is cut, the second what becomes of requests.
pub fn run(data: &[u8]) {
    let [cut, mood, bytes @ ..] = data else { return };
    let limits =
        Limits { streams: STREAMS, send_buffer: 4096, header_list: 4096, overhead: 250, ..Limits::default() };
    let mut protocol = Protocol::<bool>::new(limits);
    let mut input = BytesMut::from(PREFACE);
    let mut written = Vec::new();
    let mut mood = *mood;
    for piece in bytes.chunks(usize::from(*cut) + 1) {
        input.extend_from_slice(piece);
        let received = protocol.receive(&mut input);
        answer(&mut protocol, &mut mood);
        assert!(protocol.open() <= STREAMS as usize);
        take_output(&mut protocol, &mut written);
        if let Err(fault) = received {
            protocol.fail(fault);
            take_output(&mut protocol, &mut written);
            break;
        }
        assert!(input.len() < HEADER + (16 << 10), "whole frames are taken");
    }
    check_frames(&written);
}

fn answer(protocol: &mut Protocol<bool>, mood: &mut u8) {
    while let Some(event) = protocol.next_event() {
        match event {
            Event::Request { stream, .. } => {
                protocol.begin(stream);
            }
            Event::Data { stream, data, end } => {
                protocol.release(stream, data.len());
                *mood = mood.wrapping_mul(5).wrapping_add(3);
                if end && protocol.state(stream).is_some_and(|answered| !std::mem::replace(answered, true)) {
                    reply(protocol, stream, *mood);
                }
            }
            Event::Reset { .. } => {}
        }
    }
}

fn reply(protocol: &mut Protocol<bool>, stream: u32, mood: u8) {
    let len = usize::from(mood) * 300;
    match mood % 4 {
        0 => {}
        1 => protocol.reply(stream, Bytes::from(vec![0; len + 5])),
        2 => protocol.respond(stream, StatusCode::NOT_FOUND, &HeaderMap::new(), true),
        _ => {
            protocol.respond(stream, StatusCode::OK, &HeaderMap::new(), false);
            if protocol.room(stream) == Room::Yes {
                protocol.send(stream, Bytes::from(vec![0; len]));
            }
            protocol.finish(stream, Tail::Nothing);
        }
    }
}

fn take_output(protocol: &mut Protocol<bool>, written: &mut Vec<u8>) {
    protocol.pump();
    while !protocol.output().is_empty() {
        assert!(protocol.output().len() < 1 << 20, "the output is bounded");
        let mut places = [std::io::IoSlice::new(&[]); 4];
        let filled = protocol.output().parts(&mut places);
        let before = written.len();
        places[..filled].iter().for_each(|place| written.extend_from_slice(place));
        protocol.output().advance(written.len() - before);
        protocol.pump();
    }
}

fn check_frames(mut written: &[u8]) {
    while !written.is_empty() {
        let [a, b, c, kind, ..] = *written else { panic!("half a frame") };
        let len = u32::from_be_bytes([0, a, b, c]) as usize;
        assert!(len <= 16 << 10 && kind <= 9 && HEADER + len <= written.len(), "no frame");
        written = &written[HEADER + len..];
    }
}
