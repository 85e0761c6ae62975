//! Where gRPC requests are served: here, by the leader of the cluster, or by the etcd of a
//! migration.
//!
//! In a cluster, requests that only the leader can serve are forwarded to it. In a migration, every
//! request is forwarded to the etcd until the cut-over. For the cut-over, new requests are held
//! while calls in flight finish; then the held requests are served here. Clients notice a pause and
//! no error. A forwarded request that the etcd refused because of its fence has changed nothing
//! there: it is held like the others. Streams are not carried over: they end as when a server goes
//! away, and their clients resume them where they were.
//!
//! Bounded by what bounds requests anyway: calls in progress, and their deadlines.

mod classify;
mod hops;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, TE};
use http::{Request, Response};
use http_body::{Frame, SizeHint};
use http_body_util::{BodyExt, Full};
use tokio::sync::watch;
use tonic::body::Body;
use tonic::transport::Channel;
use tonic::{Code, Status};
use tower::ServiceExt;
use vetch_node::Node;

use super::forwarded_identity;
use super::kv_call::KvMethod;
use classify::Target;

/// etcd's messages for a missing leader, and for a leader that did not answer.
const NO_LEADER: &str = "etcdserver: no leader";
const TIMED_OUT: &str = "etcdserver: request timed out";

/// The services that only Vetch has.
const VETCH_SERVICES: &str = "/vetch.v1.";
/// The error of an etcd with a CORRUPT alarm for every write.
const FENCED: &str = "etcdserver: corrupt cluster";

/// Where requests are answered. Cloning copies a pointer.
#[derive(Debug, Clone)]
pub struct RequestRouter(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    route: watch::Sender<Route>,
    /// Short calls in flight at the upstream.
    short_calls: watch::Sender<usize>,
    /// The route follows the leader of a cluster.
    in_cluster: bool,
}

#[derive(Debug, Clone)]
enum Route {
    /// Forwarded to this server.
    Forward(Upstream),
    /// Refused, for this reason.
    Unavailable(&'static str),
    /// To be decided soon: requests are held.
    Pending,
    Local,
}

/// The server that requests are forwarded to.
#[derive(Debug, Clone)]
struct Upstream {
    channel: Channel,
    /// TLS: this server presents its own certificate there, not the sender's.
    is_secure: bool,
}

/// How the leader is reached.
pub(super) enum LeaderChannel {
    Local,
    Remote(Channel),
    /// Not at the moment.
    Unavailable,
}

/// What became of a request.
pub(super) enum Routed {
    Local(Request<Body>),
    Answered(Response<Body>),
}

impl RequestRouter {
    /// Refuses everything for now.
    pub fn new(why: &'static str) -> RequestRouter {
        let (route, short_calls) = (watch::Sender::new(Route::Unavailable(why)), watch::Sender::new(0));
        RequestRouter(Arc::new(Inner { route, short_calls, in_cluster: false }))
    }

    /// For a server in a cluster: what only the leader can answer is forwarded to it, the rest is
    /// answered here. No leader is known yet.
    pub fn in_cluster() -> RequestRouter {
        let (route, short_calls) = (watch::Sender::new(Route::Unavailable(NO_LEADER)), watch::Sender::new(0));
        RequestRouter(Arc::new(Inner { route, short_calls, in_cluster: true }))
    }

    /// No leader is known.
    pub fn no_leader(&self) {
        self.refuse(NO_LEADER);
    }

    /// The leader is about to change: requests are held.
    pub fn set_pending(&self) {
        self.0.route.send_replace(Route::Pending);
    }

    /// From now on requests are forwarded to `channel`.
    pub fn forward_to(&self, channel: Channel) {
        self.0.route.send_replace(Route::Forward(Upstream { channel, is_secure: false }));
    }

    /// The same over TLS.
    pub fn forward_to_over_tls(&self, channel: Channel) {
        self.0.route.send_replace(Route::Forward(Upstream { channel, is_secure: true }));
    }

    /// From now on requests are refused.
    pub fn refuse(&self, why: &'static str) {
        self.0.route.send_replace(Route::Unavailable(why));
    }

    /// Lets new requests wait, ends streams, and waits until short calls that were forwarded are
    /// answered, at most for `timeout`. True if all are.
    pub async fn hold(&self, timeout: Duration) -> bool {
        self.0.route.send_replace(Route::Pending);
        let mut short_calls = self.0.short_calls.subscribe();
        tokio::time::timeout(timeout, short_calls.wait_for(|&calls| calls == 0)).await.is_ok()
    }

    /// From now on this server serves requests, beginning with those that are held.
    pub fn serve_locally(&self) {
        self.0.route.send_replace(Route::Local);
    }

    pub(super) fn is_in_cluster(&self) -> bool {
        self.0.in_cluster
    }

    /// Whether a call of this kind is served here, whatever its message.
    pub(super) fn serves_locally(&self, call: KvMethod) -> bool {
        (self.0.in_cluster && classify::is_read(call)) || matches!(*self.0.route.borrow(), Route::Local)
    }

    /// How the leader is reached, and a future that resolves when that changes.
    pub(super) fn leader_channel(&self) -> (LeaderChannel, impl Future<Output = ()> + use<>) {
        let mut route = self.0.route.subscribe();
        let leader = match &*route.borrow_and_update() {
            Route::Local => LeaderChannel::Local,
            Route::Forward(upstream) => LeaderChannel::Remote(upstream.channel.clone()),
            Route::Unavailable(_) | Route::Pending => LeaderChannel::Unavailable,
        };
        let changed = async move {
            // The sender lives as long as the server.
            let _ = route.changed().await;
        };
        (leader, changed)
    }

    /// `node` is this server's.
    pub(super) async fn route(&self, request: Request<Body>, node: &Node) -> Routed {
        // These calls are about this process.
        if request.uri().path().starts_with(VETCH_SERVICES) {
            return Routed::Local(request);
        }
        let mut request = match self.0.in_cluster {
            false => request,
            true => match classify::classify(request).await {
                Target::Local(request) => return Routed::Local(request),
                Target::Leader(request) => request,
                Target::Invalid(status) => return Routed::Answered(status.into_http()),
            },
        };
        let mut route = self.0.route.subscribe();
        let hops = hops::count(request.headers());
        loop {
            let current = route.borrow_and_update().clone();
            match current {
                Route::Local => return Routed::Local(request),
                Route::Unavailable(why) => return Routed::Answered(Status::unavailable(why).into_http()),
                // Servers that take each other for the leader would forward it for ever.
                Route::Forward(_) if hops >= hops::HOPS_MAX => {
                    tracing::debug!(hops, "a request was forwarded too often; servers disagree on who leads");
                    return Routed::Answered(Status::unavailable(NO_LEADER).into_http());
                }
                Route::Forward(Upstream { channel, is_secure }) => {
                    hops::set(request.headers_mut(), hops + 1);
                    let is_short = is_short(request.uri().path());
                    let call = is_short.then(|| ShortCall::begin(&self.0));
                    // Increment before checking the route: `hold` then either waits for this call,
                    // or this call sees the new route.
                    if route.has_changed().unwrap_or(false) {
                        continue;
                    }
                    // Without TLS no client name is trusted: the sender is anonymous at the
                    // upstream, too.
                    if self.0.in_cluster && is_secure && !forwarded_identity::attach(node, &mut request) {
                        return Routed::Answered(Status::unavailable(NO_LEADER).into_http());
                    }
                    let lost_message = self.0.in_cluster.then_some(TIMED_OUT);
                    let call = match call {
                        Some(call) if !self.0.in_cluster => call,
                        // No retry in a cluster: the outcome of the first attempt may be unknown.
                        call => {
                            return Routed::Answered(
                                forward(channel, request, call, route, lost_message).await,
                            );
                        }
                    };
                    let retry = match duplicate(request).await {
                        Ok((first, retry)) => {
                            request = first;
                            retry
                        }
                        Err(status) => return Routed::Answered(status.into_http()),
                    };
                    let answer = forward(channel, request, Some(call), route.clone(), lost_message).await;
                    if !is_fenced(&answer) || !route.has_changed().unwrap_or(false) {
                        return Routed::Answered(answer);
                    }
                    request = retry;
                }
                Route::Pending => {
                    // The sender lives as long as the server.
                    let _ = route.changed().await;
                }
            }
        }
    }
}

/// Calls that are answered without waiting. All others are streams, or wait for an event.
fn is_short(path: &str) -> bool {
    match path.strip_prefix('/').and_then(|path| path.split_once('/')) {
        Some(("etcdserverpb.KV", method)) => method != "RangeStream",
        Some(("etcdserverpb.Lease", method)) => method != "LeaseKeepAlive",
        Some(("etcdserverpb.Maintenance", method)) => method != "Snapshot",
        Some((service, _)) => matches!(service, "etcdserverpb.Auth" | "etcdserverpb.Cluster"),
        None => false,
    }
}

/// A request of one message, and the same once more.
async fn duplicate(request: Request<Body>) -> Result<(Request<Body>, Request<Body>), Status> {
    let (head, body) = request.into_parts();
    // As long as the front lets messages be, which hands them on whole.
    let message = body.collect().await?.to_bytes();
    let with = |head| Request::from_parts(head, Body::new(Full::new(message.clone())));
    Ok((with(head.clone()), with(head)))
}

/// Whether a request was refused by the alarm that a fence is made of, which is before anything of
/// it was done.
fn is_fenced(answer: &Response<Body>) -> bool {
    let status = Status::from_header_map(answer.headers());
    status.is_some_and(|status| status.code() == Code::DataLoss && status.message() == FENCED)
}

/// Counts as under way until dropped.
struct ShortCall(Arc<Inner>);

impl ShortCall {
    fn begin(inner: &Arc<Inner>) -> ShortCall {
        inner.short_calls.send_modify(|calls| *calls += 1);
        ShortCall(Arc::clone(inner))
    }
}

impl Drop for ShortCall {
    fn drop(&mut self) {
        self.0.short_calls.send_modify(|calls| *calls -= 1);
    }
}

async fn forward(
    channel: Channel,
    mut request: Request<Body>,
    call: Option<ShortCall>,
    mut route: watch::Receiver<Route>,
    lost_message: Option<&'static str>,
) -> Response<Body> {
    // What the JSON gateway makes has no need of these on its way inside of this server.
    let headers = request.headers_mut();
    headers.entry(CONTENT_TYPE).or_insert(HeaderValue::from_static("application/grpc"));
    headers.entry(TE).or_insert(HeaderValue::from_static("trailers"));
    let answer = channel.oneshot(request);
    let answer = if call.is_some() {
        answer.await
    } else {
        tokio::select! {
            answer = answer => answer,
            _ = route.changed() => return server_changed().into_http(),
        }
    };
    match answer {
        Ok(response) => response.map(|body| Body::new(Forwarded::new(body, call, route))),
        Err(error) => {
            if let Some(lost_message) = lost_message {
                tracing::debug!(%error, "a request forwarded to the leader got no response");
                return Status::unavailable(lost_message).into_http();
            }
            let text = format!("cannot reach the server that requests are forwarded to: {error}");
            Status::unavailable(text).into_http()
        }
    }
}

/// What a stream ends with when its server changes; clients know it from servers that go away.
fn server_changed() -> Status {
    Status::unavailable("the server has changed; retry")
}

/// A body on its way back.
struct Forwarded {
    body: Body,
    /// None for a stream.
    _call: Option<ShortCall>,
    /// Resolves when a stream has to end.
    cutoff: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    ended: bool,
}

impl Forwarded {
    fn new(body: Body, call: Option<ShortCall>, mut route: watch::Receiver<Route>) -> Forwarded {
        let is_stream = call.is_none();
        let cutoff = async move {
            let _ = route.changed().await;
        };
        Forwarded { body, _call: call, cutoff: is_stream.then(|| Box::pin(cutoff) as _), ended: false }
    }
}

impl http_body::Body for Forwarded {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            return Poll::Ready(frame);
        }
        let Some(cutoff) = &mut self.cutoff else { return Poll::Pending };
        if cutoff.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        self.ended = true;
        let mut trailers = http::HeaderMap::new();
        // Only a text that no header can hold is refused, and this one is ours.
        let _ = server_changed().add_header(&mut trailers);
        Poll::Ready(Some(Ok(Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.ended || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
