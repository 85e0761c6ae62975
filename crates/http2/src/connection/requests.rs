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
pub(super) struct State<P> {
    /// Where it is being worked on.
    pub(super) place: Option<usize>,
    input: Input<P>,
}

// Written out because deriving it would ask for `P: Default`.
impl<P> Default for State<P> {
    fn default() -> State<P> {
        State { place: None, input: Input::None }
    }
}

enum Input<P> {
    /// Nothing is expected, or wanted.
    None,
    /// The message is collected until it is whole.
    Whole(Whole<P>),
    /// The body is passed on as it comes.
    Pipe(Pipe),
}

struct Whole<P> {
    head: Arc<Head>,
    plan: Arc<P>,
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
        match plan {
            Some(plan) => {
                let Some(state) = self.protocol.begin(stream) else { return };
                state.input = Input::Whole(Whole { head, plan, parts: Vec::new(), len: 0 });
            }
            None if self.protocol.begin(stream).is_some() => {
                self.call(stream, &head);
            }
            None => {}
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
            Input::Whole(whole) if end && whole.parts.is_empty() => {
                let plan = Arc::clone(&whole.plan);
                match only_message(&data, self.service.longest_message()) {
                    Some(message) => {
                        state.input = Input::None;
                        self.protocol.release(stream, len);
                        self.unary(stream, &plan, message);
                    }
                    None => {
                        self.protocol.release(stream, len);
                        self.give_up_collecting(stream, data, true);
                    }
                }
            }
            Input::Whole(_) => {
                self.protocol.release(stream, len);
                self.collect(stream, data, end);
            }
            Input::Pipe(pipe) => {
                if !pipe.push(data, false, end) {
                    self.protocol.release(stream, len);
                }
            }
            Input::None => self.protocol.release(stream, len),
        }
    }

    /// A message that comes in several parts.
    fn collect(&mut self, stream: u32, data: Bytes, end: bool) {
        let limit = self.service.longest_message() + PREFIX;
        let Some(state) = self.protocol.state(stream) else { return };
        let Input::Whole(whole) = &mut state.input else { return };
        let len = whole.len + data.len();
        if len > limit {
            return self.give_up_collecting(stream, data, end);
        }
        whole.len = len;
        self.held += data.len();
        whole.parts.push(data);
        if end {
            let joined = join(&whole.parts, len);
            let plan = Arc::clone(&whole.plan);
            match only_message(&joined, limit) {
                Some(message) => {
                    state.input = Input::None;
                    self.held -= len;
                    self.unary(stream, &plan, message);
                }
                None => self.give_up_collecting(stream, Bytes::new(), true),
            }
        } else if self.held > MOST_HELD {
            self.held -= len;
            self.protocol.reset(stream, Code::EnhanceYourCalm);
        }
    }

    /// It is not one whole message, whatever it is: it is passed on as it came.
    fn give_up_collecting(&mut self, stream: u32, data: Bytes, end: bool) {
        let Some(state) = self.protocol.state(stream) else { return };
        let Input::Whole(whole) = std::mem::replace(&mut state.input, Input::None) else { return };
        self.held -= whole.len;
        self.call(stream, &whole.head);
        let Some(state) = self.protocol.state(stream) else { return };
        if let Input::Pipe(pipe) = &state.input {
            for part in whole.parts {
                pipe.push(part, true, false);
            }
            pipe.push(data, true, end);
        }
    }

    fn unary(&mut self, stream: u32, plan: &Arc<S::Plan>, message: Bytes) {
        match self.service.unary(plan, message) {
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
    fn abandon(&mut self, state: State<S::Plan>) {
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
