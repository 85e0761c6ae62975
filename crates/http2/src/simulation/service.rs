//! Services that answer as the call itself says.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body::Frame;
use tokio::sync::Semaphore;

use crate::{Answer, BodyError, Boxed, Call, Head, Incoming, LongMessage, Reply, Service, Weight};

/// How a call is answered; the first byte of a unary call's message.
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

/// The byte at `at` of the answer to the call `token`.
fn byte(token: u32, at: usize) -> u8 {
    ((token as usize).wrapping_mul(31).wrapping_add(at) % 251) as u8
}

/// What of the answer to the call `token` is between two places.
pub(super) fn content(token: u32, from: usize, to: usize) -> Vec<u8> {
    (from..to).map(|at| byte(token, at)).collect()
}

/// Answers.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) gate: Arc<Semaphore>,
    /// Calls and bodies that have not ended.
    pub(super) running: Arc<AtomicUsize>,
}

impl Default for Script {
    fn default() -> Script {
        Script { gate: Arc::new(Semaphore::new(0)), running: Arc::default() }
    }
}

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

    fn admit(&self, _: &Arc<()>) -> Result<(), Reply> {
        Ok(())
    }

    fn longest_message(&self) -> usize {
        100_000
    }

    /// The message: a kind, a token, a length, a number of delays, and anything.
    fn unary(&self, _: &Arc<()>, (): (), message: Bytes) -> Call {
        let kind = KINDS[usize::from(message[0])];
        let number = |at: usize| u32::from_be_bytes(message[at..at + 4].try_into().expect("four bytes"));
        let (token, len, delays) = (number(1), number(5) as usize, message[9]);
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
            Kind::Never => {
                let running = Running::new(&self.running);
                Call::Apart(Box::pin(async move {
                    let _running = running;
                    std::future::pending().await
                }))
            }
        }
    }

    fn weight(&self, _: &Head) -> Weight {
        Weight::Light
    }

    /// The path: `/stream/TOKEN/LENGTH/PART`.
    fn call(&self, request: Request<Incoming>) -> Boxed<Answer<Parts>> {
        let running = Running::new(&self.running);
        let numbers: Vec<usize> =
            request.uri().path().split('/').skip(2).map(|number| number.parse().expect("a number")).collect();
        let [token, len, part] = numbers[..] else { panic!("three numbers") };
        let body = request.into_body();
        Box::pin(async move {
            tokio::task::yield_now().await;
            let parts = Parts { token: token as u32, at: 0, len, part, _body: body, _running: running };
            Answer::Response(Response::new(parts))
        })
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
        0
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
            return Poll::Ready(None);
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
