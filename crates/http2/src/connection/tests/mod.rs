//! Whole connections, over a pipe in memory, with a client that writes frames by hand.

mod bodies;
mod calls;
mod cancels;
mod ends;
mod held;
mod turns;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::Connection;
use crate::frame::{HEADER_LEN, Header, flag, kind};
use crate::testing::{self, Client, Sevens, field, frame};
use crate::{Answer, BodyError, Boxed, Budget, Call, Head, Incoming, Limits, Reply, Service, Weight};

/// Paths say what it does. Everything that waits, waits for `gate`.
struct Test {
    gate: Arc<Semaphore>,
    /// Calls that have not ended, bodies' parts that were made, and places taken.
    running: Arc<AtomicUsize>,
    parts: Arc<AtomicUsize>,
    places: Arc<AtomicUsize>,
    /// What a connection may have under way, and how many such calls were polled.
    share: AtomicUsize,
    waiting: Arc<AtomicUsize>,
}

impl Default for Test {
    fn default() -> Test {
        let (gate, running) = (Arc::new(Semaphore::new(0)), Arc::default());
        Test {
            gate,
            running,
            parts: Arc::default(),
            places: Arc::default(),
            share: AtomicUsize::new(2048),
            waiting: Arc::default(),
        }
    }
}

/// Counts while it lives.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(count: &Arc<AtomicUsize>) -> Counted {
        count.fetch_add(1, SeqCst);
        Counted(Arc::clone(count))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

const LONGEST: usize = 100_000;
/// Bytes of a long answer.
const LONG: usize = 2 << 20;

impl Test {
    /// Answers at the first look, which takes longer than a connection may go on.
    fn slow(&self, reply: Reply) -> Boxed<Reply> {
        let parts = Arc::clone(&self.parts);
        Box::pin(async move {
            parts.fetch_add(1, SeqCst);
            std::thread::sleep(super::POLL_TIME_MAX * 2);
            reply
        })
    }
}

impl Service for Test {
    type Plan = String;
    type Place = Counted;
    type Body = BoxBody<Bytes, BodyError>;

    fn plan(&self, head: &Head) -> Option<String> {
        let path = head.path.to_str().ok()?;
        path.starts_with("/unary").then(|| path.to_string())
    }

    fn admit(&self, plan: &Arc<String>, _: usize) -> Result<Counted, Reply> {
        if plan.ends_with("refused") {
            return Err(Reply::Refused(HeaderMap::new()));
        }
        Ok(Counted::new(&self.places))
    }

    fn longest_message(&self) -> usize {
        LONGEST
    }

    fn unary(&self, plan: &Arc<String>, _: Counted, message: Bytes) -> Call {
        if plan.ends_with("as-request") {
            return Call::AsRequest(message, Weight::Light);
        }
        if let Some(len) = plan.strip_prefix("/unary-long-") {
            return Call::Now(Reply::Long(Box::new(Sevens { left: len.parse().unwrap() })));
        }
        let reply = || Reply::Message(message_of(&message));
        if let Some(len) = plan.strip_prefix("/unary-heavy-") {
            let (parts, len) = (Arc::clone(&self.parts), len.parse().unwrap());
            let reply = Reply::Message(message_of(&vec![7; len]));
            return Call::Apart(Box::pin(async move {
                parts.fetch_add(1, SeqCst);
                reply
            }));
        }
        if let Some(len) = plan.strip_prefix("/unary-light-") {
            let (parts, len) = (Arc::clone(&self.parts), len.parse().unwrap());
            return Call::Here(Box::pin(async move {
                parts.fetch_add(1, SeqCst);
                Reply::Long(Box::new(Sevens { left: len }))
            }));
        }
        if plan.ends_with("slow") {
            return Call::Here(self.slow(reply()));
        }
        if !plan.contains("waits") {
            return Call::Now(reply());
        }
        let (gate, counted, reply) = (Arc::clone(&self.gate), Counted::new(&self.running), reply());
        let waiting = Arc::clone(&self.waiting);
        let answer = Box::pin(async move {
            let _counted = (counted, Counted::new(&waiting));
            gate.acquire().await.unwrap().forget();
            reply
        });
        if plan.contains("apart") { Call::Apart(answer) } else { Call::Here(answer) }
    }

    fn weight(&self, head: &Head) -> Weight {
        let path = head.path.to_str().unwrap_or_default();
        if path.starts_with("/heavy") || path == "/long" {
            Weight::Heavy
        } else if path.starts_with("/queued") {
            Weight::Queued
        } else {
            Weight::Light
        }
    }

    fn share(&self) -> usize {
        self.share.load(SeqCst)
    }

    fn call(&self, request: Request<Incoming>, _: usize) -> Boxed<Answer<BoxBody<Bytes, BodyError>>> {
        let (gate, counted, parts) =
            (Arc::clone(&self.gate), Counted::new(&self.running), Arc::clone(&self.parts));
        Box::pin(async move {
            let _counted = counted;
            if let Some(len) = request.uri().path().strip_prefix("/heavy-") {
                parts.fetch_add(1, SeqCst);
                return Answer::Reply(Reply::Message(message_of(&vec![7; len.parse().unwrap()])));
            }
            Answer::Response(match request.uri().path() {
                "/echo" => Response::new(request.into_body().boxed()),
                "/endless" => Response::new(Endless(parts).boxed()),
                "/long" => Response::new(Full::from(vec![7; LONG]).map_err(|e| match e {}).boxed()),
                "/waits-endless" => {
                    gate.acquire().await.unwrap().forget();
                    Response::new(Endless(parts).boxed())
                }
                "/waits" | "/queued-waits" => {
                    gate.acquire().await.unwrap().forget();
                    Response::new(Full::from("waited").map_err(|e| match e {}).boxed())
                }
                path => {
                    let path = path.to_string();
                    let len = request.into_body().collect().await.map_or(0, |body| body.to_bytes().len());
                    let text = format!("{path} with {len} bytes");
                    Response::new(Full::from(text).map_err(|e| match e {}).boxed())
                }
            })
        })
    }
}

/// An answer without end; counts its parts.
struct Endless(Arc<AtomicUsize>);

impl http_body::Body for Endless {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.0.fetch_add(1, SeqCst);
        Poll::Ready(Some(Ok(Frame::data(Bytes::from(vec![7; 10_000])))))
    }
}

/// A message with its prefix.
fn message_of(text: &[u8]) -> Bytes {
    let len = u32::try_from(text.len()).unwrap().to_be_bytes();
    Bytes::from([&[0][..], &len, text].concat())
}

/// More than any test needs.
fn budget() -> Arc<Budget> {
    Budget::new(128 << 20, 512 << 20)
}

/// The client's side.
struct Peer {
    io: DuplexStream,
    client: Client,
    served: JoinHandle<std::io::Result<()>>,
}

fn connect(service: Arc<Test>, limits: Limits, budget: Arc<Budget>) -> Peer {
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    let served = tokio::spawn(Connection::new(theirs, service, limits, budget));
    Peer { io: ours, client: Client::default(), served }
}

async fn open(service: &Arc<Test>) -> Peer {
    open_with(service, budget()).await
}

async fn open_with(service: &Arc<Test>, budget: Arc<Budget>) -> Peer {
    let mut peer = connect(Arc::clone(service), Limits::default(), budget);
    peer.write(&testing::opening()).await;
    assert_eq!(peer.lines(3).await.len(), 3, "settings, a window, and the answer to our settings");
    peer
}

impl Peer {
    async fn write(&mut self, bytes: &[u8]) {
        self.io.write_all(bytes).await.unwrap();
    }

    /// Lets the server send `bytes` more, on each stream and in all.
    async fn grow(&mut self, bytes: u32) {
        self.write(&frame(kind::SETTINGS, 0, 0, &[&[0, 4][..], &bytes.to_be_bytes()].concat())).await;
        self.write(&frame(kind::WINDOW_UPDATE, 0, 0, &bytes.to_be_bytes())).await;
    }

    async fn call(&mut self, stream: u32, path: &str, body: &[u8]) {
        let mut bytes = frame(kind::HEADERS, flag::END_HEADERS, stream, &testing::headers(path));
        let mut parts = body.chunks(16 << 10).peekable();
        while let Some(part) = parts.next() {
            let end = if parts.peek().is_none() { flag::END_STREAM } else { 0 };
            bytes.extend(frame(kind::DATA, end, stream, part));
        }
        if body.is_empty() {
            bytes.extend(frame(kind::DATA, flag::END_STREAM, stream, &[]));
        }
        self.write(&bytes).await;
    }

    /// The next `count` lines, as [`Client`] reads them.
    async fn lines(&mut self, count: usize) -> Vec<String> {
        let mut lines = Vec::new();
        while lines.len() < count {
            let bytes = self.frame().await.expect("the connection is open");
            lines.extend(self.client.read(&bytes));
        }
        lines
    }

    async fn frame(&mut self) -> Option<Vec<u8>> {
        let mut bytes = vec![0; HEADER_LEN];
        self.io.read_exact(&mut bytes).await.ok()?;
        let len = Header::parse(&bytes).unwrap().len;
        bytes.resize(HEADER_LEN + len, 0);
        self.io.read_exact(&mut bytes[HEADER_LEN..]).await.ok()?;
        Some(bytes)
    }
}

/// Waits until something is so.
async fn until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..2000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{what} did not happen");
}
