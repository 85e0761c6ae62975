//! The ordinary client: tonic, as users of the API have it, with TLS and passwords.
//!
//! Messages are passed as bytes, so that both clients make and check the very same ones. Each call
//! is a task of a runtime that runs only inside `wait`, on the caller's thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bytes::{Buf, BufMut, Bytes};
use hashbrown::HashMap;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio_stream::wrappers::ReceiverStream;
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::metadata::AsciiMetadataValue;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Request, Status};
use vetch_api::pb;

use super::{Inbox, Method, Tag, Wire};
use crate::args::Access;
use crate::failure::Failure;

/// Messages that have arrived and not been looked at; beyond it, calls wait.
const QUEUE: usize = 4096;
/// Messages of one call that are not yet sent.
const UNSENT: usize = 1024;
/// The runtime's timer is no finer than this; below, `wait` looks again and again.
const FINE: Duration = Duration::from_millis(2);

enum News {
    Message(Bytes),
    End(Option<Failure>),
}

struct Open {
    sender: Option<mpsc::Sender<Bytes>>,
    abort: AbortHandle,
}

pub(crate) struct Ordinary {
    runtime: Runtime,
    channels: Vec<Channel>,
    held: Vec<Arc<AtomicBool>>,
    token: Option<AsciiMetadataValue>,
    open: HashMap<Tag, Open, foldhash::fast::FixedState>,
    news: mpsc::Receiver<(Tag, Instant, News)>,
    tell: mpsc::Sender<(Tag, Instant, News)>,
}

impl Ordinary {
    pub(crate) fn connect(endpoints: &[String], count: usize, access: &Access) -> Result<Ordinary> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mut channels = Vec::new();
        for index in 0..count {
            let endpoint = &endpoints[index % endpoints.len()];
            let configured = configure(endpoint, access)?;
            let channel = runtime.block_on(configured.connect());
            channels.push(channel.with_context(|| format!("connecting to {endpoint}"))?);
        }
        let token = match &access.user {
            Some(_) => Some(runtime.block_on(authenticate(channels[0].clone(), access))?),
            None => None,
        };
        let (tell, news) = mpsc::channel(QUEUE);
        let held = channels.iter().map(|_| Arc::default()).collect();
        Ok(Ordinary { runtime, channels, held, token, open: HashMap::default(), news, tell })
    }
}

fn configure(endpoint: &str, access: &Access) -> Result<Endpoint> {
    let mut configured = Endpoint::from_shared(endpoint.to_owned())?
        .connect_timeout(Duration::from_secs(5))
        .tcp_nodelay(true)
        .initial_connection_window_size(1 << 26)
        .initial_stream_window_size(1 << 24);
    if endpoint.starts_with("https://") {
        let cacert = access.cacert.as_deref().context("an https endpoint needs --cacert")?;
        let mut tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read(cacert)?));
        if let (Some(cert), Some(key)) = (&access.cert, &access.key) {
            tls = tls.identity(Identity::from_pem(read(cert)?, read(key)?));
        }
        configured = configured.tls_config(tls)?;
    }
    Ok(configured)
}

fn read(path: &std::path::Path) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("reading {}", path.display()))
}

async fn authenticate(channel: Channel, access: &Access) -> Result<AsciiMetadataValue> {
    let (name, password) = access.name_and_password()?;
    let mut client = pb::auth_client::AuthClient::new(channel);
    let answer =
        client.authenticate(pb::AuthenticateRequest { name, password }).await.context("authenticating")?;
    let token = answer.into_inner().token;
    ensure!(!token.is_empty(), "the server gave no token");
    Ok(token.parse()?)
}

impl Wire for Ordinary {
    fn connections(&self) -> usize {
        self.channels.len()
    }

    fn open(&mut self, connection: usize, tag: Tag, method: Method, message: &[u8], last: bool) {
        let message = Bytes::copy_from_slice(message);
        let grpc = Grpc::new(self.channels[connection].clone()).max_decoding_message_size(usize::MAX);
        let (tell, token) = (self.tell.clone(), self.token.clone());
        if method.is_unary() {
            self.runtime.spawn(async move {
                let outcome = unary(grpc, tag, method, with_token(Request::new(message), token), &tell).await;
                finish(tag, outcome, &tell).await;
            });
            return;
        }
        let (sender, receiver) = mpsc::channel(UNSENT);
        // There is room for the first.
        let _ = sender.try_send(message);
        let sender = (!last).then_some(sender);
        let held = self.held[connection].clone();
        let task = self.runtime.spawn(async move {
            let request = with_token(Request::new(ReceiverStream::new(receiver)), token);
            let outcome = streaming(grpc, tag, method, request, &held, &tell).await;
            finish(tag, outcome, &tell).await;
        });
        self.open.insert(tag, Open { sender, abort: task.abort_handle() });
    }

    fn send(&mut self, tag: Tag, message: &[u8]) {
        if let Some(Open { sender: Some(sender), .. }) = self.open.get(&tag) {
            // A call that takes no more messages is about to end, or will be late with its answers:
            // both are seen.
            let _ = sender.try_send(Bytes::copy_from_slice(message));
        }
    }

    fn abandon(&mut self, tag: Tag) {
        if let Some(open) = self.open.remove(&tag) {
            open.abort.abort();
        }
    }

    fn hold(&mut self, connection: usize, held: bool) {
        self.held[connection].store(held, Ordering::Relaxed);
    }

    fn wait(&mut self, until: Instant, inbox: &mut Inbox) {
        let news = &mut self.news;
        let first = self.runtime.block_on(async {
            loop {
                let left = until.saturating_duration_since(Instant::now());
                if left > FINE {
                    let arrived = tokio::time::timeout(left - FINE, news.recv()).await;
                    if let Ok(item) = arrived {
                        return item;
                    }
                    continue;
                }
                tokio::task::yield_now().await;
                if let Ok(item) = news.try_recv() {
                    return Some(item);
                }
                if left.is_zero() {
                    return None;
                }
            }
        });
        let mut next = first;
        while let Some((tag, at, item)) = next {
            match item {
                News::Message(bytes) => inbox.message(tag, at, &bytes),
                News::End(failure) => {
                    self.open.remove(&tag);
                    inbox.end(tag, at, failure);
                }
            }
            next = self.news.try_recv().ok();
        }
    }
}

fn with_token<T>(mut request: Request<T>, token: Option<AsciiMetadataValue>) -> Request<T> {
    if let Some(token) = token {
        request.metadata_mut().insert("token", token);
    }
    request
}

type Tell = mpsc::Sender<(Tag, Instant, News)>;

async fn unary(
    mut grpc: Grpc<Channel>,
    tag: Tag,
    method: Method,
    request: Request<Bytes>,
    tell: &Tell,
) -> Result<(), Status> {
    ready(&mut grpc).await?;
    let path = http::uri::PathAndQuery::from_static(method.path());
    let answer = grpc.unary(request, path, Raw).await?.into_inner();
    let _ = tell.send((tag, Instant::now(), News::Message(answer))).await;
    Ok(())
}

async fn streaming(
    mut grpc: Grpc<Channel>,
    tag: Tag,
    method: Method,
    request: Request<ReceiverStream<Bytes>>,
    held: &AtomicBool,
    tell: &Tell,
) -> Result<(), Status> {
    ready(&mut grpc).await?;
    let path = http::uri::PathAndQuery::from_static(method.path());
    let mut answers = grpc.streaming(request, path, Raw).await?.into_inner();
    loop {
        while held.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let Some(answer) = answers.message().await? else { return Ok(()) };
        let _ = tell.send((tag, Instant::now(), News::Message(answer))).await;
    }
}

async fn ready(grpc: &mut Grpc<Channel>) -> Result<(), Status> {
    grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))
}

async fn finish(tag: Tag, outcome: Result<(), Status>, tell: &Tell) {
    let failure = outcome
        .err()
        .map(|status| Failure { code: Some(status.code() as u32), text: status.message().to_owned() });
    let _ = tell.send((tag, Instant::now(), News::End(failure))).await;
}

/// Messages as they are.
#[derive(Clone, Copy)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Raw;
    type Decoder = Raw;

    fn encoder(&mut self) -> Raw {
        Raw
    }

    fn decoder(&mut self) -> Raw {
        Raw
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put(item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, source: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        let length = source.remaining();
        Ok(Some(source.copy_to_bytes(length)))
    }
}
