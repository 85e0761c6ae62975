//! From events of the protocol to work.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite};

use super::Connection;
use super::work::{self, Waiting};
use crate::budget::Pressure;
use crate::head::Head;
use crate::incoming::{self, LONG_MESSAGE, PREFIX, Pipe};
use crate::protocol::{Code, Event};
use crate::service::{Call, Reply, Service, Weight};
use crate::tasks::TaskId;

/// What a connection knows of one request.
pub(super) struct State<S: Service> {
    /// The work that answers it, which may be done before the answer is sent.
    pub(super) task: Option<TaskId>,
    input: Input<S>,
}

// Written out because deriving it would ask for `S: Default`.
impl<S: Service> Default for State<S> {
    fn default() -> State<S> {
        State { task: None, input: Input::None }
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
    /// What has come of the message, if not all came at once. A copy: slices would keep whole read
    /// buffers.
    message: BytesMut,
    /// Bytes counted for it.
    charge: usize,
}

/// Plans kept.
const MOST_PLANS: usize = 16;

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
        let open = self.protocol.open();
        let Some(state) = self.protocol.begin(stream) else { return };
        let Some(plan) = plan else { return self.call(stream, &head, None) };
        match self.service.admit(&plan, open) {
            Ok(place) => {
                let message = BytesMut::new();
                state.input = Input::Whole(Whole { head, plan, place, message, charge: 0 });
            }
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
                let is_all = end && whole.message.is_empty();
                self.protocol.release(stream, len);
                match is_all.then(|| only_message(&data, self.service.longest_message())).flatten() {
                    Some(message) => self.unary(stream, message),
                    None => self.collect(stream, &data, end),
                }
            }
            Input::Pipe(pipe) => match pipe.push(&data, false, end) {
                None => self.protocol.release(stream, len),
                Some(waiting) if waiting >= LONG_MESSAGE && !end => {
                    if self.update_account().refuses_requests {
                        self.refuse(stream);
                    }
                }
                Some(_) => {}
            },
            Input::None => self.protocol.release(stream, len),
        }
    }

    /// A message that comes in several parts, or is none.
    fn collect(&mut self, stream: u32, data: &[u8], end: bool) {
        let limit = self.service.longest_message();
        let Some(State { input: Input::Whole(whole), .. }) = self.protocol.state(stream) else { return };
        if whole.message.len() + data.len() > limit + PREFIX {
            return self.give_up_collecting(stream, data, end);
        }
        whole.message.extend_from_slice(data);
        let charge = std::mem::replace(&mut whole.charge, whole.message.len());
        self.held = self.held + whole.charge - charge;
        if end {
            let body = whole.message.split().freeze();
            match only_message(&body, limit) {
                Some(message) => self.unary(stream, message),
                None => self.give_up_collecting(stream, &body, true),
            }
        } else if self.update_account().refuses_requests {
            self.refuse(stream);
        }
    }

    /// There is no room for this request.
    fn refuse(&mut self, stream: u32) {
        drop(self.take_whole(stream));
        let task = self.protocol.state(stream).and_then(|state| state.task.take());
        if let Some(work) = task.and_then(|task| self.tasks.cancel(task)) {
            self.uncount(&work);
        }
        self.account.note_refused();
        self.protocol.reset(stream, Code::EnhanceYourCalm);
    }

    /// It is not one whole message, whatever it is: it is passed on as it came.
    fn give_up_collecting(&mut self, stream: u32, data: &[u8], end: bool) {
        let Some(whole) = self.take_whole(stream) else { return };
        self.call(stream, &whole.head, None);
        let Some(state) = self.protocol.state(stream) else { return };
        if let Input::Pipe(pipe) = &state.input {
            pipe.push(&whole.message, true, false);
            pipe.push(data, true, end);
        }
    }

    fn take_whole(&mut self, stream: u32) -> Option<Whole<S>> {
        let state = self.protocol.state(stream)?;
        match std::mem::replace(&mut state.input, Input::None) {
            Input::Whole(whole) => {
                self.held -= whole.charge;
                Some(whole)
            }
            Input::None | Input::Pipe(_) => None,
        }
    }

    fn unary(&mut self, stream: u32, mut message: Bytes) {
        let Some(whole) = self.take_whole(stream) else { return };
        let len = message.len();
        let pressure = self.pressure();
        if pressure > Pressure::None {
            // It may have to wait, and would keep the whole buffer that it was read into.
            message = Bytes::copy_from_slice(&message);
        }
        match self.service.unary(&whole.plan, whole.place, message) {
            Call::Now(reply) => self.reply(stream, reply),
            Call::Here(future) => self.start(stream, Waiting::Here(future), len),
            Call::Apart(future) => self.start(stream, Waiting::Apart(future), len),
            Call::AsRequest(message, weight) => self.call_with(stream, &whole.head, &message, weight),
        }
    }

    /// Serves a unary call as any other request, whose body is known.
    fn call_with(&mut self, stream: u32, head: &Head, message: &[u8], weight: Weight) {
        self.call(stream, head, Some(weight));
        let Some(state) = self.protocol.state(stream) else { return };
        if let Input::Pipe(pipe) = &state.input {
            pipe.push(&prefix(message.len()), true, false);
            pipe.push(message, true, true);
        }
    }

    /// `weight`: if it is known from the message.
    fn call(&mut self, stream: u32, head: &Head, weight: Option<Weight>) {
        let is_grpc = head.get(&CONTENT_TYPE).is_some_and(work::is_grpc);
        let (pipe, incoming) = incoming::pipe(stream, self.tasks.bells(), is_grpc);
        let Some(request) = head.request(incoming) else {
            return self.protocol.respond(stream, StatusCode::BAD_REQUEST, &HeaderMap::new(), true);
        };
        let weight = weight.unwrap_or_else(|| self.service.weight(head));
        self.start(stream, Waiting::Answer(Box::new(request), weight), 0);
        if let Some(state) = self.protocol.state(stream) {
            state.input = Input::Pipe(pipe);
        }
    }

    pub(super) fn reply(&mut self, stream: u32, reply: Reply) {
        match reply {
            Reply::Message(message) => self.protocol.reply(stream, message),
            Reply::Long(message) => self.protocol.reply_long(stream, message),
            Reply::Refused(fields) => self.protocol.respond(stream, StatusCode::OK, &fields, true),
        }
    }

    /// The client does not want it any more.
    fn abandon(&mut self, state: State<S>) {
        if let Input::Whole(whole) = &state.input {
            self.held -= whole.charge;
        }
        if let Some(work) = state.task.and_then(|task| self.tasks.cancel(task)) {
            self.uncount(&work);
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

/// What stands before an uncompressed message of this length, which came with one.
fn prefix(len: usize) -> [u8; PREFIX] {
    let [a, b, c, d] = u32::try_from(len).unwrap_or(u32::MAX).to_be_bytes();
    [0, a, b, c, d]
}
