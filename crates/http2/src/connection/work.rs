//! Work: polling what is under way, and passing on what comes of it.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Request, Response};
use http_body::Body;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;

use super::{Connection, DEFERRED_MIN};
use crate::border;
use crate::budget::Pressure;
use crate::head;
use crate::incoming::Incoming;
use crate::protocol::{Code, Room, Tail};
use crate::service::{Answer, Boxed, Reply, Service, Weight};
use crate::tasks::TaskId;

/// Something under way, and for which request.
pub(super) struct Work<B> {
    pub(super) stream: u32,
    pub(super) job: Job<B>,
    /// Bytes counted for it, and for its answer.
    pub(super) charge: usize,
    pub(super) body: usize,
}

pub(super) enum Job<B> {
    /// A call that is not begun, because the connection has enough to do or holds too much.
    Waiting(Waiting),
    /// A unary call that is polled here: for the first time, and after that.
    Fresh(Boxed<Reply>),
    Here(Boxed<Reply>),
    /// The same in a task of its own.
    Apart(Apart<Reply>),
    /// An answer that is being made.
    Answer(Apart<Answer<B>>),
    /// Its body.
    Body(B),
}

/// A call that is not begun.
pub(super) enum Waiting {
    Here(Boxed<Reply>),
    Apart(Boxed<Reply>),
    /// The request itself: what serves it takes several times as much from the beginning on.
    Answer(Box<Request<Incoming>>, Weight),
}

impl Waiting {
    /// Bytes of memory that it takes, beside its message.
    fn held(&self) -> usize {
        match self {
            Waiting::Here(_) | Waiting::Apart(_) => TASK_BYTES,
            Waiting::Answer(..) => REQUEST_BYTES,
        }
    }

    /// The call computes, or its answer is large, before the client has room for any of it.
    fn is_heavy(&self) -> bool {
        matches!(self, Waiting::Apart(_) | Waiting::Answer(_, Weight::Heavy))
    }

    fn is_queued(&self) -> bool {
        matches!(self, Waiting::Here(_) | Waiting::Answer(_, Weight::Queued))
    }
}

/// A task that ends when its handle is dropped.
pub(super) struct Apart<T> {
    task: JoinHandle<T>,
    _running: Option<Running>,
}

impl<T: Send + 'static> Apart<T> {
    fn spawn(future: Boxed<T>, running: Option<Running>) -> Apart<T> {
        Apart { task: border::spawn(future), _running: running }
    }
}

impl<T> Apart<T> {
    /// None: the task failed.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<T>> {
        Pin::new(&mut self.task).poll(cx).map(Result::ok)
    }
}

impl<T> Drop for Apart<T> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Counts calls of a connection while they run.
pub(super) struct Running(Arc<AtomicUsize>);

impl Running {
    fn new(running: &Arc<AtomicUsize>) -> Running {
        running.fetch_add(1, Relaxed);
        Running(Arc::clone(running))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// The calls of a connection that take places in the queue that all connections share.
#[derive(Default)]
pub(super) struct Queued {
    /// Those that are polled here, and the others.
    here: usize,
    apart: Arc<AtomicUsize>,
    /// How many there may be, once that was asked in this turn.
    pub(super) share: Option<usize>,
}

impl Queued {
    fn len(&self) -> usize {
        self.here + self.apart.load(Relaxed)
    }
}

/// The result of a poll.
enum Seen<B> {
    Pending,
    Reply(Reply),
    Answer(Answer<B>),
    Failed,
}

impl<B> Job<B> {
    fn is_here(&self) -> bool {
        matches!(self, Job::Fresh(_) | Job::Here(_))
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Seen<B> {
        let seen = match self {
            Job::Fresh(future) | Job::Here(future) => {
                future.as_mut().poll(cx).map(|reply| Some(Seen::Reply(reply)))
            }
            Job::Apart(task) => task.poll(cx).map(|reply| reply.map(Seen::Reply)),
            Job::Answer(task) => task.poll(cx).map(|answer| answer.map(Seen::Answer)),
            Job::Body(_) | Job::Waiting(_) => Poll::Pending,
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
/// Heavy calls of one connection that run at a time.
const HEAVY_MAX: usize = 16;
/// Places in the queue that all share which a connection may have without asking.
const QUEUED_MIN: usize = 4;
/// What a call in a task of its own counts for, beside its stream.
const TASK_BYTES: usize = 1024;
/// The same for one that is not a whole message: its streams have buffers, and its service knows
/// the client. Measured with watch streams on which nothing is watched: 7 KiB with the stream.
const ANSWER_BYTES: usize = 6 << 10;
/// What a request counts for that is not served yet: its headers, mostly.
const REQUEST_BYTES: usize = 2048;

impl<I, S> Connection<I, S>
where
    I: AsyncRead + AsyncWrite + Unpin,
    S: Service,
{
    /// Begins a call now, or when the connection has room for it. `len` is the length of its
    /// message.
    pub(super) fn start(&mut self, stream: u32, waiting: Waiting, len: usize) {
        let is_heavy = waiting.is_heavy();
        let is_deferred = self.must_wait(is_heavy, waiting.is_queued());
        let held = len + waiting.held();
        let (job, charge) = if is_deferred { (Job::Waiting(waiting), held) } else { self.begun(waiting) };
        self.held += charge;
        self.queued.here += usize::from(job.is_here());
        let task = self.tasks.insert(Work { stream, job, charge, body: 0 });
        if is_deferred {
            self.account.note_deferred();
            self.defer(task, is_heavy);
        } else {
            self.due.push(task.place());
        }
        if let Some(state) = self.protocol.state(stream) {
            state.task = Some(task);
        }
    }

    fn defer(&mut self, task: TaskId, is_heavy: bool) {
        let queue = &mut self.deferred[usize::from(is_heavy)];
        queue.push_back(task);
        // Not only when the connection is idle: a client that never pauses may cancel most of its
        // calls.
        if queue.len() > 2 * self.protocol.open() + DEFERRED_MIN {
            queue.retain(|task| self.tasks.get(*task).is_some());
        }
    }

    /// `is_heavy` and `is_queued` say what waits.
    fn must_wait(&mut self, is_heavy: bool, is_queued: bool) -> bool {
        match self.account.pressure() {
            Pressure::Full => true,
            Pressure::High if is_heavy => true,
            Pressure::High | Pressure::None => {
                (is_heavy && self.heavy.load(Relaxed) >= HEAVY_MAX) || (is_queued && self.has_its_share())
            }
        }
    }

    fn has_its_share(&mut self) -> bool {
        let queued = self.queued.len();
        queued >= QUEUED_MIN && queued >= *self.queued.share.get_or_insert_with(|| self.service.share())
    }

    /// Begins a call. What is under way for it, and what that counts for.
    fn begun(&self, waiting: Waiting) -> (Job<S::Body>, usize) {
        let running = match &waiting {
            Waiting::Apart(_) | Waiting::Answer(_, Weight::Heavy) => Some(Running::new(&self.heavy)),
            Waiting::Answer(_, Weight::Queued) => Some(Running::new(&self.queued.apart)),
            Waiting::Here(_) | Waiting::Answer(_, Weight::Light) => None,
        };
        match waiting {
            Waiting::Here(future) => (Job::Fresh(future), 0),
            Waiting::Apart(future) => (Job::Apart(Apart::spawn(future, running)), TASK_BYTES),
            Waiting::Answer(request, _) => {
                let answer = self.service.call(*request, self.protocol.open());
                (Job::Answer(Apart::spawn(answer, running)), ANSWER_BYTES)
            }
        }
    }

    /// Begins calls that waited, as far as there is room for them. True: there was some.
    pub(super) fn start_deferred(&mut self) -> bool {
        // Small calls first: there may be room for them while there is none for a heavy one that
        // came before.
        let has_begun = self.start_deferred_of(0);
        self.start_deferred_of(1) || has_begun
    }

    fn start_deferred_of(&mut self, queue: usize) -> bool {
        let mut has_begun = false;
        while let Some(&task) = self.deferred[queue].front() {
            self.update_account();
            // One that is not there any more was cancelled.
            let waits = match self.tasks.get(task) {
                Some(Work { job: Job::Waiting(waiting), .. }) => {
                    Some((waiting.is_heavy(), waiting.is_queued()))
                }
                _ => None,
            };
            if waits.is_some_and(|(is_heavy, is_queued)| self.must_wait(is_heavy, is_queued)) {
                break;
            }
            self.deferred[queue].pop_front();
            if waits.is_some() {
                self.begin_deferred(task.place());
                has_begun = true;
            }
        }
        has_begun
    }

    fn begin_deferred(&mut self, place: usize) {
        let Some((mut work, _)) = self.tasks.take(place) else { return };
        if let Job::Waiting(waiting) = work.job {
            let (job, charge) = self.begun(waiting);
            self.held = self.held + charge - work.charge;
            self.queued.here += usize::from(job.is_here());
            work = Work { stream: work.stream, job, charge, body: 0 };
            self.due.push(place);
        }
        self.tasks.put(place, work);
    }

    /// Has a call in `place` wait that was begun and not polled yet, if calls that began with it
    /// were answered at such length that there is no room any more. Small calls are not known to
    /// have a long answer before it is there.
    fn postpone(&mut self, place: usize) {
        let is_fresh = matches!(self.tasks.at(place), Some((_, Work { job: Job::Fresh(_), .. })));
        if !is_fresh || self.pressure() < Pressure::Full {
            return;
        }
        let Some((mut work, _)) = self.tasks.take(place) else { return };
        if let Job::Fresh(future) = work.job {
            self.held += TASK_BYTES;
            self.queued.here -= 1;
            work = Work { job: Job::Waiting(Waiting::Here(future)), charge: TASK_BYTES, ..work };
            self.account.note_deferred();
        }
        self.tasks.put(place, work);
        if let Some((task, _)) = self.tasks.at(place) {
            self.defer(task, false);
        }
    }

    /// Looks whether something has become of the work in `place`.
    pub(super) fn look_after(&mut self, place: usize) {
        self.postpone(place);
        let Some((mut work, waker)) = self.tasks.take(place) else { return };
        let cx = &mut Context::from_waker(waker);
        let stream = work.stream;
        if let Job::Body(body) = &mut work.job {
            let passed = pass_on(&mut self.protocol, stream, body, cx);
            // What was taken goes to the output, so that the next body sees how full that is.
            self.protocol.pump();
            self.update_account();
            return self.after_body(place, work, passed);
        }
        match work.job.poll(cx) {
            Seen::Pending => {
                if let Job::Fresh(future) = work.job {
                    work.job = Job::Here(future);
                }
                self.tasks.put(place, work);
            }
            Seen::Reply(reply) | Seen::Answer(Answer::Reply(reply)) => {
                self.finish_work(place, &work);
                self.reply(stream, reply);
            }
            Seen::Answer(Answer::Response(answer)) => self.answer(place, work, answer),
            Seen::Failed => {
                self.finish_work(place, &work);
                self.protocol.reset(stream, Code::Internal);
            }
        }
    }

    fn finish_work(&mut self, place: usize, work: &Work<S::Body>) {
        self.uncount(work);
        self.tasks.vacate(place);
    }

    pub(super) fn uncount(&mut self, work: &Work<S::Body>) {
        self.held -= work.charge;
        self.bodies -= work.body;
        self.queued.here -= usize::from(work.job.is_here());
    }

    /// Sends the head of an answer and goes on with its body.
    fn answer(&mut self, place: usize, work: Work<S::Body>, answer: Response<S::Body>) {
        let (mut parts, body) = answer.into_parts();
        if !parts.headers.get(CONTENT_TYPE).is_some_and(is_grpc) {
            head::complete(&mut parts.headers, body.size_hint().exact());
        }
        let ends = body.is_end_stream();
        self.protocol.respond(work.stream, parts.status, &parts.headers, ends);
        if ends {
            return self.finish_work(place, &work);
        }
        // A body whose length is known is there as a whole.
        let len = body.size_hint().exact().map_or(0, |len| len as usize);
        self.bodies += len;
        self.tasks.put(place, Work { job: Job::Body(body), body: len, ..work });
        self.due.push(place);
    }

    fn after_body(&mut self, place: usize, work: Work<S::Body>, passed: Passed) {
        match passed {
            Passed::Ended => self.finish_work(place, &work),
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
    if is_ok { Tail::GrpcOk } else { Tail::Trailers(Box::new(trailers)) }
}

pub(super) fn is_grpc(content_type: &HeaderValue) -> bool {
    content_type.as_bytes().starts_with(b"application/grpc")
}
