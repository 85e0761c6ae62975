//! Random clients: whatever they send, the server neither panics nor forgets a request, and what it
//! writes is frames.

use proptest::prelude::*;

use super::*;

/// Something that a client might do, most of it sensible.
#[derive(Debug, Clone)]
enum Act {
    Call {
        len: usize,
        cut: bool,
    },
    Data {
        back: u32,
        len: usize,
        end: bool,
    },
    GiveUp {
        back: u32,
    },
    Grow {
        back: Option<u32>,
        by: u32,
    },
    FirstWindow(u32),
    TableSize(u16),
    Ping,
    Farewell,
    Noise {
        kind: u8,
        flags: u8,
        stream: u32,
        payload: Vec<u8>,
    },
    /// What the server does meanwhile.
    Answer {
        back: u32,
        len: usize,
    },
    Page {
        back: u32,
        len: usize,
    },
    Write,
}

fn act() -> impl Strategy<Value = Act> {
    let len = prop_oneof![0..100usize, 0..40_000usize];
    prop_oneof![
        6 => (len.clone(), any::<bool>()).prop_map(|(len, cut)| Act::Call { len, cut }),
        2 => (0..6u32, 0..20_000usize, any::<bool>()).prop_map(|(back, len, end)| Act::Data { back, len, end }),
        1 => (0..6u32).prop_map(|back| Act::GiveUp { back }),
        2 => (proptest::option::of(0..6u32), 1..200_000u32).prop_map(|(back, by)| Act::Grow { back, by }),
        1 => prop_oneof![0..100_000u32, Just(1 << 20)].prop_map(Act::FirstWindow),
        1 => any::<u16>().prop_map(Act::TableSize),
        1 => Just(Act::Ping),
        1 => Just(Act::Farewell),
        1 => (0..12u8, any::<u8>(), 0..40u32, proptest::collection::vec(any::<u8>(), 0..40))
            .prop_map(|(kind, flags, stream, payload)| Act::Noise { kind, flags, stream, payload }),
        5 => (0..6u32, len.clone()).prop_map(|(back, len)| Act::Answer { back, len }),
        2 => (0..6u32, len).prop_map(|(back, len)| Act::Page { back, len }),
        4 => Just(Act::Write),
    ]
}

/// Plays both sides and keeps count.
struct World {
    server: Server,
    client: Client,
    newest: u32,
    /// Bytes that the client may be sent.
    window: i64,
    failed: bool,
}

impl World {
    fn new() -> World {
        let limits = Limits { streams: 5, send_buffer: 10_000, ..Limits::default() };
        World {
            server: server_with(limits),
            client: Client::default(),
            newest: 0,
            window: 65_535,
            failed: false,
        }
    }

    fn stream(&self, back: u32) -> u32 {
        self.newest.saturating_sub(2 * back).max(1)
    }

    fn send(&mut self, bytes: &[u8], cut: usize) {
        let mut input = BytesMut::new();
        for part in bytes.chunks(cut.max(1)) {
            input.extend_from_slice(part);
            if self.server.receive(&mut input).is_err() {
                self.failed = true;
                return;
            }
        }
        events(&mut self.server);
    }

    fn act(&mut self, act: &Act, cut: usize) {
        match act {
            Act::Call { len, cut: in_two } => {
                self.newest = if self.newest == 0 { 1 } else { self.newest + 2 };
                let len = (*len).min(16_384);
                let half = if *in_two { len / 2 } else { len };
                let mut bytes = frame(kind::HEADERS, flag::END_HEADERS, self.newest, &client::headers("/kv"));
                bytes.extend(frame(
                    kind::DATA,
                    if half == len { flag::END_STREAM } else { 0 },
                    self.newest,
                    &vec![0; half],
                ));
                self.send(&bytes, cut);
                self.server.release(self.newest, half);
            }
            Act::Data { back, len, end } if self.newest > 0 => {
                let stream = self.stream(*back);
                let len = (*len).min(16_384);
                self.send(&frame(kind::DATA, u8::from(*end), stream, &vec![0; len]), cut);
                self.server.release(stream, len);
            }
            Act::GiveUp { back } if self.newest > 0 => {
                self.send(&frame(kind::RST_STREAM, 0, self.stream(*back), &[0; 4]), cut)
            }
            Act::Grow { back: None, by } => {
                self.window += i64::from(*by);
                self.send(&frame(kind::WINDOW_UPDATE, 0, 0, &by.to_be_bytes()), cut);
            }
            Act::Grow { back: Some(back), by } if self.newest > 0 => {
                self.send(&frame(kind::WINDOW_UPDATE, 0, self.stream(*back), &by.to_be_bytes()), cut);
            }
            Act::FirstWindow(size) => {
                self.send(&frame(kind::SETTINGS, 0, 0, &[&[0, 4][..], &size.to_be_bytes()].concat()), cut);
            }
            Act::TableSize(size) => {
                self.send(
                    &frame(kind::SETTINGS, 0, 0, &[&[0, 1, 0, 0][..], &size.to_be_bytes()].concat()),
                    cut,
                );
            }
            Act::Ping => self.send(&frame(kind::PING, 0, 0, b"12345678"), cut),
            Act::Farewell => self.server.announce_farewell(),
            Act::Noise { kind, flags, stream, payload } => {
                self.send(&frame(*kind, *flags, *stream, payload), cut)
            }
            Act::Answer { back, len } => self.server.reply(self.stream(*back), Bytes::from(vec![0; len + 5])),
            Act::Page { back, len } => {
                let stream = self.stream(*back);
                // An answer has one head only.
                if self.server.state(stream).is_some_and(|answered| std::mem::replace(answered, 1) == 0) {
                    self.server.respond(stream, StatusCode::OK, &HeaderMap::new(), false);
                    self.server.send(stream, Bytes::from(vec![0; *len]));
                    self.server.finish(stream, Tail::Nothing);
                }
            }
            Act::Write => self.write(),
            Act::Data { .. } | Act::GiveUp { .. } | Act::Grow { .. } => {}
        }
    }

    fn write(&mut self) {
        for line in written(&mut self.server, &mut self.client) {
            if let Some(data) = line.strip_prefix("DATA ") {
                let len: i64 = data.split(' ').nth_back(1).unwrap().parse().unwrap();
                self.window -= len;
                assert!(self.window >= 0, "more was sent than the client allowed");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn whatever_clients_do_is_survived(acts in proptest::collection::vec(act(), 1..60), cut in 1..5000usize) {
        let mut world = World::new();
        for act in &acts {
            world.act(act, cut);
            prop_assert!(world.server.open() <= 5);
            if world.failed {
                world.server.fail(Fault { code: Code::Protocol, reason: "test" });
                break;
            }
        }
        world.write();
    }

    #[test]
    fn bytes_without_any_sense_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let mut server = server();
        let _ = take(&mut server, &bytes);
        events(&mut server);
        drain(&mut server);
    }
}
