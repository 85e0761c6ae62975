//! The gateway over a websocket, for browsers, which cannot stream a request body.
//!
//! Each message of the client is one JSON value of the request body; each line of the response is
//! one message to the client. Credentials come as the websocket's subprotocol (`Bearer, <token>`)
//! or in a cookie named `token`, since a page cannot set headers on a websocket.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as Ctx, Poll, ready};

use bytes::{Bytes, BytesMut};
use futures_util::{SinkExt, StreamExt};
use http::header::{AUTHORIZATION, CONNECTION, COOKIE, HeaderMap, HeaderValue, ORIGIN, REFERER, UPGRADE};
use http::header::{SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION};
use http::{Method, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tonic::body::Body;
use vetch_http2::{Charge, Holdings, TooMuchHeld, border};

use super::{Services, serve};
use crate::http::answer;
use crate::http::charged_body::charged;
use crate::http::connection_context::ConnectionContext;
use crate::http::shutdown::{Phase, ShutdownToken};

/// Messages of the client waiting for the service; a client that sends faster waits.
const QUEUE: usize = 16;
/// Bytes of one read. Messages of streams are short.
const READ_BUFFER: usize = 8 << 10;

pub(super) fn is_wanted<B>(request: &Request<B>) -> bool {
    let has = |name, token: &str| {
        let value = request.headers().get(name).and_then(|v: &HeaderValue| v.to_str().ok());
        value.is_some_and(|v| v.split(',').any(|part| part.trim().eq_ignore_ascii_case(token)))
    };
    has(CONNECTION, "upgrade") && has(UPGRADE, "websocket")
}

/// Accepts the handshake and serves the websocket from a task of its own.
pub(super) fn upgrade<B>(request: &mut Request<B>, context: &ConnectionContext) -> Response<Body> {
    let headers = request.headers();
    let key = headers.get(SEC_WEBSOCKET_KEY).cloned();
    let version_ok = headers.get(SEC_WEBSOCKET_VERSION).is_some_and(|v| v == "13");
    let (Some(key), true, &Method::GET) = (key, version_ok, request.method()) else {
        return answer::failure(StatusCode::BAD_REQUEST, "Bad Request");
    };
    let mut response = Response::new(Body::default());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let accept = HeaderValue::from_str(&derive_accept_key(key.as_bytes())).expect("base64 is a valid header");
    response.headers_mut().insert(SEC_WEBSOCKET_ACCEPT, accept);
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    response.headers_mut().insert(UPGRADE, HeaderValue::from_static("websocket"));
    if subprotocol(headers).is_some_and(|p| p.starts_with("Bearer")) {
        response.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static("Bearer"));
    }
    let (messages, received) = mpsc::channel(QUEUE);
    let inner = inner_request(request, received);
    let (services, shutdown) = (Services::from_context(context), context.shutdown.clone());
    let session = Session { messages, services, shutdown };
    let session = session.run(hyper::upgrade::on(request), inner);
    border::spawn(session);
    response
}

/// The gateway request of the websocket.
fn inner_request<B>(outer: &Request<B>, mut received: mpsc::Receiver<Bytes>) -> Request<Body> {
    let frames = futures_util::stream::poll_fn(move |cx| received.poll_recv(cx));
    let body = StreamBody::new(frames.map(|data| Ok::<_, Infallible>(Frame::data(data))));
    let mut inner = Request::new(Body::new(body));
    *inner.method_mut() = Method::POST;
    *inner.uri_mut() = outer.uri().clone();
    for name in [ORIGIN, REFERER, AUTHORIZATION] {
        if let Some(value) = outer.headers().get(&name) {
            inner.headers_mut().insert(name, value.clone());
        }
    }
    if let Some(credentials) = credentials(outer.headers()) {
        inner.headers_mut().insert(AUTHORIZATION, credentials);
    }
    inner
}

fn subprotocol(headers: &HeaderMap) -> Option<&str> {
    headers.get(SEC_WEBSOCKET_PROTOCOL)?.to_str().ok()
}

fn credentials(headers: &HeaderMap) -> Option<HeaderValue> {
    let cookies = headers.get(COOKIE).and_then(|c| c.to_str().ok()).unwrap_or_default();
    let from_cookie = cookies.split(';').find_map(|cookie| cookie.trim().strip_prefix("token="));
    let from_protocol = || subprotocol(headers)?.split_once("Bearer,").map(|(_, token)| token.trim());
    let token = from_cookie.or_else(from_protocol)?;
    HeaderValue::from_str(&format!("Bearer {token}")).ok()
}

struct Session {
    messages: mpsc::Sender<Bytes>,
    services: Services,
    shutdown: ShutdownToken,
}

type Socket = WebSocketStream<Metered<TokioIo<hyper::upgrade::Upgraded>>>;

impl Session {
    async fn run(self, upgrade: OnUpgrade, inner: Request<Body>) {
        let Ok(io) = upgrade.await else { return };
        let limit = self.services.max_json_bytes;
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BUFFER)
            .max_message_size(Some(limit))
            .max_frame_size(Some(limit));
        let unread = Arc::new(Mutex::new(self.services.holdings.charge()));
        let io = Metered { io: TokioIo::new(io), unread: Arc::clone(&unread) };
        let socket = WebSocketStream::from_raw_socket(io, Role::Server, Some(config)).await;
        let Session { messages, services, mut shutdown } = self;
        let (sink, source) = socket.split();
        // The end of one side ends the other.
        tokio::select! {
            () = receive(source, messages, &unread, &services.holdings) => {}
            () = send(sink, inner, &services) => {}
            () = shutdown.reached(Phase::Closing) => {}
        }
    }
}

/// Charges what was read of an incomplete message.
struct Metered<T> {
    io: T,
    unread: Arc<Mutex<Charge>>,
}

impl<T: AsyncRead + Unpin> AsyncRead for Metered<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Ctx<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.io).poll_read(cx, buf))?;
        let mut unread = self.unread.lock();
        // The buffer grows by doubling.
        let held = unread.len() + 2 * (buf.filled().len() - before);
        Poll::Ready(
            unread
                .try_set(held)
                .map_err(|TooMuchHeld| io::Error::other("too many bytes are held for this client")),
        )
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Metered<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Ctx<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Ctx<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Ctx<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

async fn receive(
    mut source: futures_util::stream::SplitStream<Socket>,
    messages: mpsc::Sender<Bytes>,
    unread: &Mutex<Charge>,
    holdings: &Holdings,
) {
    while let Some(Ok(message)) = source.next().await {
        // What has arrived of the next one is less than a buffer.
        unread.lock().set(0);
        let payload = match message {
            Message::Text(text) => Bytes::copy_from_slice(text.as_bytes()),
            Message::Binary(data) => data,
            Message::Close(_) => return,
            // Pings are answered by the protocol itself.
            _ => continue,
        };
        if messages.send(charged(payload, holdings.charge())).await.is_err() {
            return;
        }
    }
}

async fn send(
    mut sink: futures_util::stream::SplitSink<Socket, Message>,
    inner: Request<Body>,
    services: &Services,
) {
    let mut body = serve(inner, services).await.into_body();
    let mut pending = BytesMut::new();
    let mut charge = services.holdings.charge();
    while let Some(Ok(frame)) = body.frame().await {
        let Ok(data) = frame.into_data() else { continue };
        pending.extend_from_slice(&data);
        while let Some(end) = pending.iter().position(|b| *b == b'\n') {
            let line = pending.split_to(end + 1);
            charge.set(line.len() + pending.len());
            if !deliver(&mut sink, &line[..end]).await {
                return;
            }
        }
    }
    deliver(&mut sink, &pending).await;
    // The response is complete; it does not matter whether the client gets the close message.
    let _ = sink.close().await;
}

async fn deliver(sink: &mut futures_util::stream::SplitSink<Socket, Message>, line: &[u8]) -> bool {
    if line.is_empty() {
        return true;
    }
    let text = String::from_utf8_lossy(line).into_owned();
    sink.send(Message::text(text)).await.is_ok()
}
