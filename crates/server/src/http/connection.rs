//! One connection, from its first byte to its end.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tonic::body::Body;
use vetch_http2::Limits;

use super::charged_body::ChargedBody;
use super::connection_context::ConnectionContext;
use super::detect::{Protocol, Rewound};
use super::handshake::{Established, establish};
use super::http2_service::Http2Service;
use super::listen::Stream;
use super::listener_config::{ListenerConfig, Serves};
use super::pending_connections::{Eviction, PendingConnection};
use super::route;
use super::shutdown::{Phase, ShutdownToken};
use super::stall_guard::StallGuard;
use super::{ServerState, Settings};
use crate::remote::Remote;
use vetch_tls::Reason;

/// Time for a client to send an HTTP/1 header, or to idle between requests.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// Limit on an HTTP/1 header, in bytes.
const HTTP1_HEADER_BYTES_MAX: usize = 64 << 10;
/// Limit on a decoded HTTP/2 header list, in bytes.
const HTTP2_HEADER_LIST_MAX: usize = 64 << 10;
/// Receive windows of a stream and of a connection: enough for a full request each.
const STREAM_WINDOW: u32 = 4 << 20;
const CONNECTION_WINDOW: u32 = 16 << 20;
/// Bytes buffered for a client on one stream before waiting for it.
const SEND_BUFFER: usize = 256 << 10;
/// Default limit on streams of one connection, so that one client cannot take the share of all. The
/// limit is announced, so clients that want more wait for a stream to end.
const STREAMS_MAX: u32 = 64 << 10;
/// Bytes of streamed answers that may wait for the client's windows on one connection.
const QUEUED_RESPONSE_BYTES_MAX: usize = 16 << 20;
/// Units of work without requests that a client may cause in a burst, and then each second; a call
/// that is reset before it was served costs 5 of them.
const OVERHEAD_MAX: u32 = 100_000;

type Io = Rewound<Stream>;

pub(super) async fn serve(
    stream: Stream,
    config: Arc<ListenerConfig>,
    shared: Arc<ServerState>,
    mut shutdown: ShutdownToken,
    (pending, mut eviction): (PendingConnection, Eviction),
) {
    let remote = stream.remote();
    let established = tokio::select! {
        established = establish(stream, &config) => established,
        () = eviction.evicted() => {
            if let Some(tls) = config.security.tls() {
                let (endpoint, text) = (config.serves.endpoint(), "too many unfinished handshakes");
                tls.failures.note(endpoint, Reason::Displaced, &remote, "", text);
            }
            return;
        }
        () = shutdown.reached(Phase::Draining) => return,
    };
    let Some(Established { protocol, io, is_secure, peer }) = established else { return };
    let serves = config.serves;
    let remote = Remote {
        address: remote.into(),
        watching: Arc::clone(&shared.watching).into(),
        turns: Arc::default(),
    };
    let holdings = Arc::clone(&shared.budget).into();
    let context = ConnectionContext {
        shared,
        serves,
        shutdown,
        is_secure,
        peer,
        holdings,
        remote,
        pending: pending.into(),
    };
    let context = Arc::new(context);
    match (protocol, serves) {
        (Protocol::Http2, Serves::GrpcAndHttp | Serves::Grpc) => http2(io, context, eviction).await,
        // TLS clients may agree on HTTP/2 on any listener; without TLS, it is used for gRPC only.
        (Protocol::Http2, Serves::Http | Serves::Metrics | Serves::Peer) if is_secure => {
            http2(io, context, eviction).await;
        }
        (Protocol::Http1, Serves::GrpcAndHttp | Serves::Http | Serves::Metrics | Serves::Peer) => {
            http1(io, context, eviction).await;
        }
        // The listener does not serve the protocol.
        (Protocol::Http2, Serves::Http | Serves::Metrics | Serves::Peer)
        | (Protocol::Http1, Serves::Grpc) => {}
    }
}

async fn http1(io: Io, context: Arc<ConnectionContext>, eviction: Eviction) {
    let shutdown = context.shutdown.clone();
    let io = StallGuard::new(io, context.shared.settings.timeouts);
    let service = service_fn(move |request: Request<Incoming>| {
        let context = context.clone();
        let mut request = request.map(Body::new);
        context.prepare(&mut request);
        async move {
            let answer = route::http(request, &context).await;
            Ok::<_, Infallible>(answer.map(|body| ChargedBody::new(body, &context.holdings)))
        }
    });
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_buf_size(HTTP1_HEADER_BYTES_MAX)
        .title_case_headers(true);
    let connection = pin!(builder.serve_connection(TokioIo::new(io), service).with_upgrades());
    run(connection, |c| c.graceful_shutdown(), shutdown, eviction).await;
}

async fn http2(io: Io, context: Arc<ConnectionContext>, eviction: Eviction) {
    let shutdown = context.shutdown.clone();
    let limits = limits(&context.shared.settings);
    let holdings = context.holdings.clone();
    let connection =
        pin!(vetch_http2::Connection::new(io, Arc::new(Http2Service::new(context)), limits, holdings));
    run(connection, |c| c.graceful_shutdown(), shutdown, eviction).await;
}

fn limits(settings: &Settings) -> Limits {
    let streams = match settings.max_concurrent_streams {
        u32::MAX => STREAMS_MAX,
        chosen => chosen,
    };
    Limits {
        streams,
        stream_window: STREAM_WINDOW,
        connection_window: CONNECTION_WINDOW,
        header_list: HTTP2_HEADER_LIST_MAX,
        send_buffer: SEND_BUFFER,
        queued_answers: QUEUED_RESPONSE_BYTES_MAX,
        overhead: OVERHEAD_MAX,
        keepalive_interval: settings.keepalive_interval,
        keepalive_timeout: settings.keepalive_timeout,
    }
}

/// Drives a connection to its end, and applies the server's phase changes meanwhile.
async fn run<C, E>(
    mut connection: Pin<&mut C>,
    finish: impl Fn(Pin<&mut C>),
    mut shutdown: ShutdownToken,
    mut eviction: Eviction,
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
            () = eviction.evicted() => return,
            () = shutdown.reached(phase) => match phase {
                Phase::Closing => return,
                _ => {
                    finish(connection.as_mut());
                    phase = Phase::Closing;
                }
            },
        }
    }
}
