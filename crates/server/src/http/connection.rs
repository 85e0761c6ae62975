//! One connection, from its first byte to its end.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use tonic::body::Body;
use vetch_http2::{Holdings, Limits};

use super::arrival::{Arrived, arrive};
use super::attended::Attended;
use super::detect::{Protocol, Rewound};
use super::front::Front;
use super::listen::Stream;
use super::newcomers::{Displaced, Newcomer};
use super::route;
use super::server::{Lifeline, Offer, Phase};
use super::unread::Counted;
use super::{Remote, Serves, Settings, Shared};
use crate::tls::{PeerIdentity, Reason};

/// Time for a client to send an HTTP/1 header, or to idle between requests.
const PATIENCE_FOR_HEADERS: Duration = Duration::from_secs(5 * 60);
/// Most bytes of an HTTP/1 header.
const HTTP1_BUFFER: usize = 64 << 10;
/// Most bytes of an HTTP/2 header list, as decoded.
const HTTP2_HEADERS: usize = 64 << 10;
/// What a client may send ahead of us on one stream, and on one connection: enough for a full
/// request each.
const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 16 << 20;
/// What we buffer for a client on one stream before waiting for it.
const SEND_BUFFER: usize = 256 << 10;
/// Streams of one connection if nobody chose a number, so that one client cannot take all of what
/// there is for all. Clients that want more wait for one to end: they are told the number.
const MOST_STREAMS: u32 = 64 << 10;
/// Bytes of streamed answers that may wait for the client's windows on one connection.
const QUEUED_ANSWERS: usize = 16 << 20;
/// Units of work without requests that a client may cause at once, and then each second; a call
/// that is reset before it was looked at costs 5 of them.
const OVERHEAD: u32 = 100_000;

/// The paths of the RPCs for which it matters who calls.
const WATCH: &str = "/etcdserverpb.Watch/Watch";
const SNAPSHOT: &str = "/etcdserverpb.Maintenance/Snapshot";

type Io = Rewound<Stream>;

/// What the requests of one connection need. One pointer to it is all that is counted up and down
/// per request.
pub(super) struct Context {
    pub(super) shared: Arc<Shared>,
    pub(super) serves: Serves,
    pub(super) lifeline: Lifeline,
    /// TLS is spoken on it.
    pub(super) is_secure: bool,
    pub(super) peer: Option<PeerIdentity>,
    /// What is held for the client beside what an HTTP/2 connection counts itself.
    pub(super) holdings: Holdings,
    pub(super) remote: Remote,
    has_asked: AtomicBool,
    newcomer: Mutex<Option<Newcomer>>,
}

impl Context {
    /// The client has asked for something: it is no newcomer any more.
    pub(super) fn note_request(&self) {
        if !self.has_asked.load(Relaxed) && !self.has_asked.swap(true, Relaxed) {
            self.newcomer.lock().take();
        }
    }

    /// What has to be done for every request before anything else.
    pub(super) fn welcome(&self, request: &mut Request<Body>) {
        self.note_request();
        if let Some(peer) = &self.peer {
            request.extensions_mut().insert(peer.clone());
        }
        if matches!(request.uri().path(), WATCH | SNAPSHOT) {
            request.extensions_mut().insert(self.remote.clone());
        }
    }
}

pub(super) async fn serve(
    stream: Stream,
    offer: Arc<Offer>,
    shared: Arc<Shared>,
    mut lifeline: Lifeline,
    (newcomer, mut displaced): (Newcomer, Displaced),
) {
    let remote = stream.remote();
    let arrived = tokio::select! {
        arrived = arrive(stream, &offer) => arrived,
        () = displaced.told() => {
            if let Some(tls) = offer.security.tls() {
                let (endpoint, text) = (offer.serves.endpoint(), "too many unfinished handshakes");
                tls.failures.note(endpoint, Reason::Displaced, &remote, "", text);
            }
            return;
        }
        () = lifeline.reached(Phase::Draining) => return,
    };
    let Some(Arrived { protocol, io, is_secure, peer }) = arrived else { return };
    let serves = offer.serves;
    let (has_asked, newcomer) = (AtomicBool::new(false), Mutex::new(Some(newcomer)));
    let remote = Remote { address: remote.into(), watching: Arc::clone(&shared.watching).into() };
    let holdings = Arc::clone(&shared.budget).into();
    let context =
        Context { shared, serves, lifeline, is_secure, peer, holdings, remote, has_asked, newcomer };
    let context = Arc::new(context);
    match (protocol, serves) {
        (Protocol::Http2, Serves::GrpcAndHttp | Serves::Grpc) => http2(io, context, displaced).await,
        // Clients of TLS agree on HTTP/2 whatever is served; without it, nobody speaks it but for
        // gRPC.
        (Protocol::Http2, Serves::Http | Serves::Metrics | Serves::Peer) if is_secure => {
            http2(io, context, displaced).await;
        }
        (Protocol::Http1, Serves::GrpcAndHttp | Serves::Http | Serves::Metrics | Serves::Peer) => {
            http1(io, context, displaced).await;
        }
        // The protocol is not spoken on this listener.
        (Protocol::Http2, Serves::Http | Serves::Metrics | Serves::Peer)
        | (Protocol::Http1, Serves::Grpc) => {}
    }
}

async fn http1(io: Io, context: Arc<Context>, displaced: Displaced) {
    let lifeline = context.lifeline.clone();
    let io = Attended::new(io, context.shared.settings.patience);
    let service = service_fn(move |request: Request<Incoming>| {
        let context = context.clone();
        let mut request = request.map(Body::new);
        context.welcome(&mut request);
        async move {
            let answer = route::http(request, &context).await;
            Ok::<_, Infallible>(answer.map(|body| Counted::new(body, &context.holdings)))
        }
    });
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE_FOR_HEADERS)
        .max_buf_size(HTTP1_BUFFER)
        .title_case_headers(true);
    let connection = pin!(builder.serve_connection(TokioIo::new(io), service).with_upgrades());
    run(connection, |c| c.graceful_shutdown(), lifeline, displaced).await;
}

async fn http2(io: Io, context: Arc<Context>, displaced: Displaced) {
    let lifeline = context.lifeline.clone();
    let limits = limits(&context.shared.settings);
    let holdings = context.holdings.clone();
    let connection = pin!(vetch_http2::Connection::new(io, Arc::new(Front::new(context)), limits, holdings));
    run(connection, |c| c.graceful_shutdown(), lifeline, displaced).await;
}

fn limits(settings: &Settings) -> Limits {
    let streams = match settings.max_concurrent_streams {
        u32::MAX => MOST_STREAMS,
        chosen => chosen,
    };
    Limits {
        streams,
        stream_window: STREAM_WINDOW,
        connection_window: CONNECTION_WINDOW,
        header_list: HTTP2_HEADERS,
        send_buffer: SEND_BUFFER,
        queued_answers: QUEUED_ANSWERS,
        overhead: OVERHEAD,
        keepalive_interval: settings.keepalive_interval,
        keepalive_timeout: settings.keepalive_timeout,
    }
}

/// Drives a connection to its end, passing on what the server says meanwhile.
async fn run<C, E>(
    mut connection: Pin<&mut C>,
    finish: impl Fn(Pin<&mut C>),
    mut lifeline: Lifeline,
    mut displaced: Displaced,
) where
    C: Future<Output = Result<(), E>>,
    E: std::fmt::Display,
{
    let mut phase = Phase::Draining;
    loop {
        tokio::select! {
            ended = connection.as_mut() => {
                if let Err(e) = ended {
                    tracing::debug!(error = %e, "connection ended");
                }
                return;
            }
            () = displaced.told() => return,
            () = lifeline.reached(phase) => match phase {
                Phase::Closing => return,
                _ => {
                    finish(connection.as_mut());
                    phase = Phase::Closing;
                }
            },
        }
    }
}
