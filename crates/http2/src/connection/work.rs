//! Work: polling what is under way, and passing on what comes of it.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Response;
use http::header::{CONTENT_TYPE, HeaderMap};
use http_body::Body;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;

use super::Connection;
use crate::head;
use crate::protocol::{Code, Room, Tail};
use crate::service::{Boxed, Reply, Service};

/// Something under way, and for which request.
pub(super) struct Work<B> {
    pub(super) stream: u32,
    pub(super) job: Job<B>,
}

pub(super) enum Job<B> {
    /// A unary call that is polled here.
    Here(Boxed<Reply>),
    /// The same in a task of its own.
    Apart(Apart<Reply>),
    /// An answer that is being made.
    Answer(Apart<Response<B>>),
    /// Its body.
    Body(B),
}

/// A task that ends with whoever waits for it.
pub(super) struct Apart<T>(JoinHandle<T>);

impl<T: Send + 'static> Apart<T> {
    pub(super) fn spawn(future: Boxed<T>) -> Apart<T> {
        Apart(tokio::spawn(future))
    }
}

impl<T> Apart<T> {
    /// None: the task failed.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        Pin::new(&mut self.0).poll(cx).map(Result::ok)
    }
}

impl<T> Drop for Apart<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What a look at some work has shown.
enum Seen<B> {
    Pending,
    Reply(Reply),
    Answer(Response<B>),
    Failed,
}

impl<B> Job<B> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Seen<B> {
        let seen = match self {
            Job::Here(future) => future.as_mut().poll(cx).map(|reply| Some(Seen::Reply(reply))),
            Job::Apart(task) => task.poll(cx).map(|reply| reply.map(Seen::Reply)),
            Job::Answer(task) => task.poll(cx).map(|answer| answer.map(Seen::Answer)),
            Job::Body(_) => Poll::Pending,
        };
        match seen {
            Poll::Pending => Seen::Pending,
            Poll::Ready(Some(seen)) => seen,
            Poll::Ready(None) => Seen::Failed,
        }
    }
}

/// Bytes of one body that are taken before others get their turn.
const MOST_AT_ONCE: usize = 64 << 10;

impl<I, S> Connection<I, S>
where
    I: AsyncRead + AsyncWrite + Unpin,
    S: Service,
{
    /// Looks whether something has become of the work in `place`.
    pub(super) fn look_after(&mut self, place: usize) {
        let Some((mut work, waker)) = self.tasks.take(place) else { return };
        let cx = &mut Context::from_waker(waker);
        let stream = work.stream;
        if let Job::Body(body) = &mut work.job {
            let passed = pass_on(&mut self.protocol, stream, body, cx);
            return self.after_body(place, work, passed);
        }
        match work.job.poll(cx) {
            Seen::Pending => self.tasks.put(place, work),
            Seen::Reply(reply) => {
                self.tasks.vacate(place);
                self.reply(stream, reply);
            }
            Seen::Answer(answer) => self.answer(place, stream, answer),
            Seen::Failed => {
                self.tasks.vacate(place);
                self.protocol.reset(stream, Code::Internal);
            }
        }
    }

    /// Sends the head of an answer and goes on with its body.
    fn answer(&mut self, place: usize, stream: u32, answer: Response<S::Body>) {
        let (mut parts, body) = answer.into_parts();
        if !is_grpc(&parts.headers) {
            head::complete(&mut parts.headers, body.size_hint().exact());
        }
        let ends = body.is_end_stream();
        self.protocol.respond(stream, parts.status, &parts.headers, ends);
        if ends {
            return self.tasks.vacate(place);
        }
        self.tasks.put(place, Work { stream, job: Job::Body(body) });
        self.due.push(place);
    }

    fn after_body(&mut self, place: usize, work: Work<S::Body>, passed: Passed) {
        match passed {
            Passed::Ended => self.tasks.vacate(place),
            Passed::Waits => self.tasks.put(place, work),
            Passed::HasMore => {
                self.tasks.put(place, work);
                self.due.push(place);
            }
        }
    }
}

enum Passed {
    Ended,
    Waits,
    HasMore,
}

type Protocol<T> = crate::protocol::Protocol<T>;

/// Passes on what a body has, as far as there is room for it.
fn pass_on<T, B>(protocol: &mut Protocol<T>, stream: u32, body: &mut B, cx: &mut Context<'_>) -> Passed
where
    T: Default,
    B: Body<Data = Bytes> + Unpin,
{
    let mut taken = 0;
    while taken < MOST_AT_ONCE {
        match protocol.room(stream) {
            Room::Yes => {}
            Room::Later => return Passed::Waits,
            Room::Never => return Passed::Ended,
        }
        let frame = match Pin::new(&mut *body).poll_frame(cx) {
            Poll::Pending => return Passed::Waits,
            Poll::Ready(None) => {
                protocol.finish(stream, Tail::Nothing);
                return Passed::Ended;
            }
            Poll::Ready(Some(Err(_))) => {
                protocol.reset(stream, Code::Internal);
                return Passed::Ended;
            }
            Poll::Ready(Some(Ok(frame))) => frame,
        };
        match frame.into_data() {
            Ok(data) => {
                taken += data.len().max(1);
                protocol.send(stream, data);
            }
            Err(other) => {
                if let Ok(trailers) = other.into_trailers() {
                    protocol.finish(stream, tail(trailers));
                    return Passed::Ended;
                }
            }
        }
    }
    Passed::HasMore
}

fn tail(trailers: HeaderMap) -> Tail {
    let is_ok = trailers.len() == 1 && trailers.get("grpc-status").is_some_and(|status| status == "0");
    if is_ok { Tail::GrpcOk } else { Tail::Trailers(trailers) }
}

fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}
