//! From events of the protocol to work.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite};

use super::Connection;
use super::work::{Apart, Job, Work};
use crate::head::Head;
use crate::incoming::{self, Pipe};
use crate::protocol::{Code, Event};
use crate::service::{Call, Reply, Service};

/// What a connection knows of one request.
pub(super) struct State<S: Service> {
    /// Where it is being worked on.
    pub(super) place: Option<usize>,
    input: Input<S>,
}

// Written out because deriving it would ask for `S: Default`.
impl<S: Service> Default for State<S> {
    fn default() -> State<S> {
        State { place: None, input: Input::None }
    }
}

enum Input<S: Service> {
    /// Nothing is expected, or wanted.
    None,
    /// The message is collected until it is whole.
    Whole(Whole<S>),
    /// The body is passed on as it comes.
    Pipe(Pipe),
}

struct Whole<S: Service> {
    head: Arc<Head>,
    plan: Arc<S::Plan>,
    place: S::Place,
    parts: Vec<Bytes>,
    len: usize,
}

/// Before every message: a byte that says whether it is compressed, and four for its length.
const PREFIX: usize = 5;
/// Plans kept.
const MOST_PLANS: usize = 16;
/// Bytes of messages that have begun to come on one connection. Whoever goes beyond has its newest request refused.
const MOST_HELD: usize = 64 << 20;

impl<I, S> Connection<I, S>
where
    I: AsyncRead + AsyncWrite + Unpin,
    S: Service,
{
    pub(super) fn take_events(&mut self) {
        while let Some(event) = self.protocol.next_event() {
            match event {
                Event::Request { stream, head } => self.begin(stream, head),
                Event::Data { stream, data, end } => self.take_data(stream, data, end),
                Event::Reset { state, .. } => self.abandon(state),
            }
        }
    }

    fn begin(&mut self, stream: u32, head: Arc<Head>) {
        let plan = self.plan(&head);
        let Some(state) = self.protocol.begin(stream) else { return };
        let Some(plan) = plan else { return self.call(stream, &head) };
        match self.service.admit(&plan) {
            Ok(place) => state.input = Input::Whole(Whole { head, plan, place, parts: Vec::new(), len: 0 }),
            Err(refusal) => self.reply(stream, refusal),
        }
    }

    fn plan(&mut self, head: &Arc<Head>) -> Option<Arc<S::Plan>> {
        if let Some((_, plan)) = self.plans.iter().find(|(known, _)| Arc::ptr_eq(known, head)) {
            return plan.clone();
        }
        let plan = self.service.plan(head).map(Arc::new);
        // One that is held here only once comes from a head that will not be seen again.
        if Arc::strong_count(head) > 1 {
            if self.plans.len() >= MOST_PLANS {
                self.plans.clear();
            }
            self.plans.push((Arc::clone(head), plan.clone()));
        }
        plan
    }

    fn take_data(&mut self, stream: u32, data: Bytes, end: bool) {
        let len = data.len();
        let Some(state) = self.protocol.state(stream) else {
            return self.protocol.release_connection(len);
        };
        match &mut state.input {
            Input::Whole(whole) => {
                let is_all = end && whole.parts.is_empty();
                self.protocol.release(stream, len);
                match is_all.then(|| only_message(&data, self.service.longest_message())).flatten() {
                    Some(message) => self.unary(stream, message),
                    None => self.collect(stream, data, end),
                }
            }
            Input::Pipe(pipe) => {
                if !pipe.push(data, false, end) {
                    self.protocol.release(stream, len);
                }
            }
            Input::None => self.protocol.release(stream, len),
        }
    }

    /// A message that comes in several parts, or is none.
    fn collect(&mut self, stream: u32, data: Bytes, end: bool) {
        let limit = self.service.longest_message();
        let Some(State { input: Input::Whole(whole), .. }) = self.protocol.state(stream) else { return };
        if whole.len + data.len() > limit + PREFIX {
            return self.give_up_collecting(stream, data, end);
        }
        whole.len += data.len();
        self.held += data.len();
        whole.parts.push(data);
        if end {
            match only_message(&join(&whole.parts, whole.len), limit) {
                Some(message) => self.unary(stream, message),
                None => self.give_up_collecting(stream, Bytes::new(), true),
            }
        } else if self.held > MOST_HELD {
            self.held -= whole.len;
            self.protocol.reset(stream, Code::EnhanceYourCalm);
        }
    }

    /// It is not one whole message, whatever it is: it is passed on as it came.
    fn give_up_collecting(&mut self, stream: u32, data: Bytes, end: bool) {
        let Some(whole) = self.take_whole(stream) else { return };
        self.call(stream, &whole.head);
        let Some(state) = self.protocol.state(stream) else { return };
        if let Input::Pipe(pipe) = &state.input {
            for part in whole.parts {
                pipe.push(part, true, false);
            }
            pipe.push(data, true, end);
        }
    }

    fn take_whole(&mut self, stream: u32) -> Option<Whole<S>> {
        let state = self.protocol.state(stream)?;
        match std::mem::replace(&mut state.input, Input::None) {
            Input::Whole(whole) => {
                self.held -= whole.len;
                Some(whole)
            }
            Input::None | Input::Pipe(_) => None,
        }
    }

    fn unary(&mut self, stream: u32, message: Bytes) {
        let Some(whole) = self.take_whole(stream) else { return };
        match self.service.unary(&whole.plan, whole.place, message) {
            Call::Now(reply) => self.reply(stream, reply),
            Call::Here(future) => self.add(stream, Job::Here(future)),
            Call::Apart(future) => self.add(stream, Job::Apart(Apart::spawn(future))),
        }
    }

    fn call(&mut self, stream: u32, head: &Head) {
        let (pipe, incoming) = incoming::pipe(stream, self.tasks.bells());
        let Some(request) = head.request(incoming) else {
            return self.protocol.respond(stream, StatusCode::BAD_REQUEST, &HeaderMap::new(), true);
        };
        let answer = self.service.call(request);
        self.add(stream, Job::Answer(Apart::spawn(answer)));
        if let Some(state) = self.protocol.state(stream) {
            state.input = Input::Pipe(pipe);
        }
    }

    fn add(&mut self, stream: u32, job: Job<S::Body>) {
        let place = self.tasks.insert(Work { stream, job });
        self.due.push(place);
        if let Some(state) = self.protocol.state(stream) {
            state.place = Some(place);
        }
    }

    pub(super) fn reply(&mut self, stream: u32, reply: Reply) {
        match reply {
            Reply::Message(message) => self.protocol.reply(stream, message),
            Reply::Refused(fields) => self.protocol.respond(stream, StatusCode::OK, &fields, true),
        }
    }

    /// The client does not want it any more.
    fn abandon(&mut self, state: State<S>) {
        if let Input::Whole(whole) = &state.input {
            self.held -= whole.len;
        }
        if let Some(place) = state.place {
            self.tasks.vacate(place);
        }
    }
}

/// The message in `body`, if there is exactly one, uncompressed, of at most `limit` bytes.
fn only_message(body: &Bytes, limit: usize) -> Option<Bytes> {
    let [compressed, a, b, c, d] = *body.first_chunk::<PREFIX>()?;
    let len = u32::from_be_bytes([a, b, c, d]) as usize;
    let is_good = compressed == 0 && len == body.len() - PREFIX && len <= limit;
    is_good.then(|| body.slice(PREFIX..))
}

fn join(parts: &[Bytes], len: usize) -> Bytes {
    let mut joined = BytesMut::with_capacity(len);
    parts.iter().for_each(|part| joined.extend_from_slice(part));
    joined.freeze()
}
