//! Services that answer as the call itself says.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body::Frame;
use tokio::sync::Semaphore;

use crate::{Answer, BodyError, Boxed, Call, Head, Incoming, LongMessage, Reply, Service, Weight};

/// How a call is answered; the first byte of a unary call's message is its place in [`KINDS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Now,
    /// With the connection, after some polls, or when the gate opens.
    Here,
    HereGated,
    /// In a task of its own.
    Apart,
    ApartGated,
    /// By a message that is encoded as it is sent.
    LongNow,
    LongApart,
    Refused,
    Never,
    /// By a body; what is asked, and whether the body of the request is read first.
    Stream,
    /// Its headers are longer than was agreed on.
    TooLarge,
}

pub(super) const KINDS: [Kind; 9] = [
    Kind::Now,
    Kind::Here,
    Kind::HereGated,
    Kind::Apart,
    Kind::ApartGated,
    Kind::LongNow,
    Kind::LongApart,
    Kind::Refused,
    Kind::Never,
];

/// Before every message.
const PREFIX: usize = 5;
/// In the place of a message that says so.
pub(super) const AS_REQUEST: u8 = 1;
/// By their numbers in paths and messages.
const WEIGHTS: [Weight; 4] = [Weight::Light, Weight::Heavy, Weight::Queued, Weight::Light];

/// After so many bytes answers begin anew. It divides no power of two, so that what is misplaced is
/// seen.
const PERIOD: usize = 251;
/// Answers are parts of this, and made by copying: most of a run would otherwise be spent on them.
static CONTENT: [u8; PERIOD << 10] = {
    let mut bytes = [0; PERIOD << 10];
    let mut at = 0;
    while at < bytes.len() {
        bytes[at] = (at % PERIOD) as u8;
        at += 1;
    }
    bytes
};

/// What of the answer to the call `token` is between two places, in pieces.
pub(super) fn pieces(token: u32, from: usize, to: usize) -> impl Iterator<Item = &'static [u8]> {
    let first = move |at: usize| (token as usize).wrapping_mul(31).wrapping_add(at) % PERIOD;
    let mut at = from;
    std::iter::from_fn(move || {
        let start = first(at);
        let len = (to - at).min(CONTENT.len() - start);
        at += len;
        (len > 0).then(|| &CONTENT[start..start + len])
    })
}

/// The same in one piece.
pub(super) fn content(token: u32, from: usize, to: usize) -> Vec<u8> {
    let mut content = Vec::with_capacity(to - from);
    pieces(token, from, to).for_each(|piece| content.extend_from_slice(piece));
    content
}

/// Whether `data` is what is there from a place on.
pub(super) fn is_content(token: u32, from: usize, data: &[u8]) -> bool {
    let mut rest = data;
    pieces(token, from, from + data.len()).all(|piece| {
        let (first, after) = rest.split_at(piece.len());
        rest = after;
        first == piece
    })
}

/// Answers.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) gate: Arc<Semaphore>,
    /// Calls and bodies that have not ended.
    pub(super) running: Arc<AtomicUsize>,
    /// What a connection may have of the queue that all share.
    pub(super) share: AtomicUsize,
}

impl Default for Script {
    fn default() -> Script {
        let share = AtomicUsize::new(SHARE_MAX);
        Script { gate: Arc::new(Semaphore::new(0)), running: Arc::default(), share }
    }
}

pub(super) const SHARE_MAX: usize = 2048;

struct Running(Arc<AtomicUsize>);

impl Running {
    fn new(count: &Arc<AtomicUsize>) -> Running {
        count.fetch_add(1, SeqCst);
        Running(Arc::clone(count))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

impl Service for Script {
    type Plan = ();
    type Place = ();
    type Body = Parts;

    fn plan(&self, head: &Head) -> Option<()> {
        (head.path == "/unary").then_some(())
    }

    fn admit(&self, _: &Arc<()>, _: usize) -> Result<(), Reply> {
        Ok(())
    }

    fn longest_message(&self) -> usize {
        100_000
    }

    /// The message: a kind, a token, a length, a number of delays, whether it is served as a
    /// request after all, and anything.
    fn unary(&self, _: &Arc<()>, (): (), message: Bytes) -> Call {
        let kind = KINDS[usize::from(message[0])];
        let number = |at: usize| u32::from_be_bytes(message[at..at + 4].try_into().expect("four bytes"));
        let (token, len, delays) = (number(1), number(5) as usize, message[9]);
        if message[10] == AS_REQUEST {
            return Call::AsRequest(message, WEIGHTS[usize::from(delays)]);
        }
        let (running, gate) = (Running::new(&self.running), Arc::clone(&self.gate));
        let reply = move || match kind {
            Kind::LongNow | Kind::LongApart => Reply::Long(Box::new(Long { token, len, at: 0 })),
            Kind::Refused => Reply::Refused(HeaderMap::from_iter([(
                http::HeaderName::from_static("grpc-status"),
                HeaderValue::from_static("8"),
            )])),
            _ => Reply::Message(content(token, 0, len).into()),
        };
        let later = move |gated: bool| -> Boxed<Reply> {
            Box::pin(async move {
                let _running = running;
                for _ in 0..delays {
                    tokio::task::yield_now().await;
                }
                if gated {
                    gate.acquire().await.expect("the gate stays").forget();
                }
                reply()
            })
        };
        match kind {
            Kind::Now | Kind::LongNow | Kind::Refused => Call::Now(reply()),
            Kind::Here => Call::Here(later(false)),
            Kind::HereGated => Call::Here(later(true)),
            Kind::Apart | Kind::LongApart => Call::Apart(later(false)),
            Kind::ApartGated => Call::Apart(later(true)),
            Kind::Never | Kind::Stream | Kind::TooLarge => {
                let running = Running::new(&self.running);
                Call::Apart(Box::pin(async move {
                    let _running = running;
                    std::future::pending().await
                }))
            }
        }
    }

    /// The path begins with the weight.
    fn weight(&self, head: &Head) -> Weight {
        let path = head.path.to_str().unwrap_or_default();
        let weight = path.split('/').nth(1).and_then(|weight| weight.parse::<usize>().ok());
        WEIGHTS[weight.unwrap_or_default()]
    }

    /// The path: `/WEIGHT/TOKEN/LENGTH/PART/READS/TRAILERS`, or that of a unary call.
    fn share(&self) -> usize {
        self.share.load(SeqCst)
    }

    fn call(&self, request: Request<Incoming>, _: usize) -> Boxed<Answer<Parts>> {
        let running = Running::new(&self.running);
        let (head, mut body) = request.into_parts();
        Box::pin(async move {
            let _counted = &running;
            tokio::task::yield_now().await;
            if head.uri.path() == "/unary" {
                // Incomplete if it was given up: then the answer is not sent to anybody.
                let message = collect(&mut body).await.unwrap_or_default();
                let number = |at: usize| {
                    message
                        .get(at..at + 4)
                        .map_or(0, |bytes| u32::from_be_bytes(bytes.try_into().unwrap_or_default()))
                };
                let reply = content(number(6), 0, number(10) as usize);
                return Answer::Reply(Reply::Message(reply.into()));
            }
            let numbers: Vec<usize> = head.uri.path().split('/').skip(2).flat_map(str::parse).collect();
            let [token, len, part, reads, trailers] = numbers[..] else { panic!("five numbers") };
            if reads == 1
                && let Some(read) = collect(&mut body).await
            {
                let is_right = read.get(PREFIX..).is_some_and(|read| is_content(token as u32, 0, read));
                assert!(is_right, "a body of {} bytes is not what was sent", read.len());
            }
            let has_trailers = trailers == 1;
            let parts =
                Parts { token: token as u32, at: 0, len, part, has_trailers, _body: body, _running: running };
            Answer::Response(Response::new(parts))
        })
    }
}

/// The whole body. None: it was given up.
async fn collect(body: &mut Incoming) -> Option<Vec<u8>> {
    let mut whole = Vec::new();
    loop {
        let frame = poll_fn(|cx| http_body::Body::poll_frame(Pin::new(&mut *body), cx)).await;
        match frame {
            None => return Some(whole),
            Some(Err(_)) => return None,
            Some(Ok(frame)) => whole.extend_from_slice(frame.data_ref()?),
        }
    }
}

#[derive(Debug)]
struct Long {
    token: u32,
    len: usize,
    at: usize,
}

impl LongMessage for Long {
    fn remaining(&self) -> usize {
        self.len - self.at
    }

    fn held(&self) -> usize {
        self.remaining() / 100
    }

    fn next(&mut self, max: usize) -> Bytes {
        let from = self.at;
        self.at = self.len.min(from + max);
        content(self.token, from, self.at).into()
    }
}

/// A body in parts, with a wait between any two.
pub(super) struct Parts {
    token: u32,
    at: usize,
    len: usize,
    part: usize,
    has_trailers: bool,
    _body: Incoming,
    _running: Running,
}

impl http_body::Body for Parts {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let from = self.at;
        if from >= self.len {
            let ok = (http::HeaderName::from_static("grpc-status"), HeaderValue::from_static("0"));
            let trailers = std::mem::take(&mut self.has_trailers);
            return Poll::Ready(trailers.then(|| Ok(Frame::trailers(HeaderMap::from_iter([ok])))));
        }
        // Every second poll says that there is nothing yet.
        if (from / self.part.max(1)) % 2 == 1 && self.part % 2 == 1 {
            self.part += 1;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.at = self.len.min(from + self.part.max(1));
        Poll::Ready(Some(Ok(Frame::data(content(self.token, from, self.at).into()))))
    }
}
