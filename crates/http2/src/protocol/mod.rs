//! The protocol as a state machine: bytes of the client go in, events and bytes for the client come
//! out.
//!
//! `receive` takes the whole frames of what was read; [`Protocol::next_event`] returns what they
//! mean for the requests. Responses go in by the functions of `send`; [`Protocol::output`] has the
//! bytes to be written.
//!
//! | file | what |
//! |---|---|
//! | `receive` | frames as they come, and which may come when |
//! | `requests` | header blocks, the opening of streams, their data |
//! | `control` | settings, windows, pings, resets, GOAWAY |
//! | `send` | answers, as far as the client's windows reach |
//! | `output` | bytes to be written, small ones together, large ones as they are |
//! | `streams` | the streams, and what they hold in sum |
//! | `overhead` | work that a client may cause without a request |
//!
//! Errors that only a broken client makes end the connection even where the standard asks for the
//! end of a stream only, which it allows.

mod control;
mod heads;
mod output;
mod overhead;
mod receive;
mod requests;
mod send;
mod stream;
mod streams;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

pub use crate::frame::Code;
use crate::head::Head;
use crate::hpack::{Decoder, Encoder};
use crate::limits::Limits;
use heads::Heads;
pub use output::Output;
use overhead::Overhead;
use receive::Opening;
pub use send::{Room, Tail};
use streams::Streams;

/// The window of every stream and connection until something else is agreed on.
const FIRST_WINDOW: i64 = 65_535;
/// No window may become larger.
const LARGEST_WINDOW: i64 = (1 << 31) - 1;
/// What a stream counts for beside what is held for it: its place in every table, and the call that
/// serves it.
const STREAM_BYTES: usize = 512;
/// Entries of a list of streams below which those that are gone are left in it.
const LISTED_MIN: usize = 1024;
/// Streams we ended of which we remember that the client may not know it yet.
const RESETS_REMEMBERED: usize = 256;

/// What the frames of a client mean for its requests.
#[derive(Debug)]
pub enum Event<T> {
    /// A request. [`Protocol::begin`] returns whether it is still open.
    Request { stream: u32, head: Arc<Head> },
    /// A part of its body, to be released with [`Protocol::release`] once it is used.
    Data { stream: u32, data: Bytes, end: bool },
    /// A request that was begun is over: the client gave it up, or broke the rules.
    Reset { stream: u32, state: T },
}

/// Why a connection has to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    pub code: Code,
    pub reason: &'static str,
}

impl Fault {
    fn new<R>(code: Code, reason: &'static str) -> Result<R, Fault> {
        Err(Fault { code, reason })
    }
}

/// How far our farewell has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Farewell {
    None,
    /// The client knows that we are leaving. What it has sent before it knew is still served.
    Announced,
    /// Streams beyond this one are not served.
    Said(u32),
}

/// Flow control of the connection.
#[derive(Debug)]
struct Windows {
    /// Bytes that the client may still send.
    receive: i64,
    /// Bytes that were used of that and are not given back to the client yet.
    unreleased: u32,
    /// Bytes that we may still send.
    send: i64,
    /// The send window of a new stream.
    first_send: i64,
}

impl Windows {
    fn new(receive: u32) -> Windows {
        Windows {
            receive: i64::from(receive).max(FIRST_WINDOW),
            unreleased: 0,
            send: FIRST_WINDOW,
            first_send: FIRST_WINDOW,
        }
    }
}

/// Streams whose turn comes.
#[derive(Debug, Default)]
struct WaitingStreams {
    /// With something to send and a window for it.
    ready: VecDeque<u32>,
    /// With room for more of their response again.
    resumed: Vec<u32>,
    /// That get room when the output has some.
    congested: Vec<u32>,
}

/// One connection. Every request carries a `T` of the service.
#[derive(Debug)]
pub struct Protocol<T> {
    limits: Limits,
    decoder: Decoder,
    encoder: Encoder,
    heads: Heads,
    streams: Streams<T>,
    events: VecDeque<Event<T>>,
    output: Output,
    /// Where a header block is being put together.
    opening: Option<Opening>,
    /// Bytes of the preface still to come.
    preface_left: usize,
    has_settings: bool,
    newest_stream: u32,
    windows: Windows,
    waiting: WaitingStreams,
    overhead: Overhead,
    /// The connection holds as much as it may: no stream is opened.
    refuses_streams: bool,
    /// The connection holds too much for its client already.
    holds_bodies: bool,
    farewell: Farewell,
    client_left: bool,
    resets: VecDeque<u32>,
    scratch: Vec<u8>,
}

impl<T: Default> Protocol<T> {
    /// A new connection; our settings are the first thing to be written.
    pub fn new(limits: Limits) -> Protocol<T> {
        let mut protocol = Protocol {
            limits,
            decoder: Decoder::default(),
            encoder: Encoder::default(),
            heads: Heads::default(),
            streams: Streams::default(),
            events: VecDeque::new(),
            output: Output::default(),
            opening: None,
            preface_left: crate::frame::PREFACE.len(),
            has_settings: false,
            newest_stream: 0,
            windows: Windows::new(limits.connection_window),
            waiting: WaitingStreams::default(),
            overhead: Overhead::new(limits.overhead),
            refuses_streams: false,
            holds_bodies: false,
            farewell: Farewell::None,
            client_left: false,
            resets: VecDeque::new(),
            scratch: Vec::new(),
        };
        protocol.introduce();
        protocol
    }

    /// What came of the bytes received.
    pub fn next_event(&mut self) -> Option<Event<T>> {
        self.events.pop_front()
    }

    /// The state of a request, if it still stands.
    pub fn state(&mut self, stream: u32) -> Option<&mut T> {
        self.streams.get_mut(stream).map(|stream| &mut stream.state)
    }

    /// The same for one that is about to be served.
    pub fn begin(&mut self, stream: u32) -> Option<&mut T> {
        let stream = self.streams.get_mut(stream)?;
        stream.begun = true;
        Some(&mut stream.state)
    }

    /// What is to be written.
    pub fn output(&mut self) -> &mut Output {
        &mut self.output
    }

    /// Requests in progress.
    pub fn open(&self) -> usize {
        self.streams.len()
    }

    /// Nothing more will come of this connection.
    pub fn is_done(&self) -> bool {
        let leaving = matches!(self.farewell, Farewell::Said(_)) || self.client_left;
        leaving && self.streams.is_empty() && self.output.is_empty()
    }

    /// Bytes of answers that the client has not taken yet, in memory or still to be encoded, but
    /// for giant ones.
    pub fn held_for_answers(&self) -> usize {
        self.streams.held() + self.output.len()
    }

    /// What giant answers have still to encode.
    pub fn giant(&self) -> usize {
        self.streams.giant()
    }

    /// A flat amount for each stream.
    pub fn held_for_streams(&self) -> usize {
        self.streams.len() * STREAM_BYTES
    }

    /// Bytes held for requests whose headers are not whole or not shared.
    pub fn held_for_requests(&self) -> usize {
        self.streams.heads() + self.opening.as_ref().map_or(0, Opening::len)
    }

    /// Whether further streams are refused, which clients may take as "try again".
    pub fn refuse_streams(&mut self, refuses: bool) {
        self.refuses_streams = refuses;
    }

    /// Whether bodies of answers are asked for nothing more than the end of what they have.
    pub fn hold_bodies(&mut self, holds: bool) {
        self.holds_bodies = holds;
    }

    pub fn holds_bodies(&self) -> bool {
        self.holds_bodies
    }

    /// Time has passed: the client may cost as much again.
    pub fn refill(&mut self, elapsed: Duration) {
        self.overhead.refill(elapsed);
    }

    /// Nothing is under way on any stream: memory that only a burst needed is given back.
    pub fn rest(&mut self) {
        self.streams.shrink();
        self.output.shrink();
        // Streams leave these lists when their turn comes, which a closed window can keep from ever
        // happening.
        let most = 2 * self.streams.len() + LISTED_MIN;
        if self.waiting.ready.len() > most {
            self.waiting.ready.retain(|id| self.streams.contains(*id));
        }
        if self.waiting.congested.len() > most {
            self.waiting.congested.retain(|id| self.streams.contains(*id));
        }
    }
}

#[cfg(test)]
mod tests;
