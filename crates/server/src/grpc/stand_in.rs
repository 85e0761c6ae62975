//! Standing in for another server, until this one takes its place.
//!
//! A server that is about to replace another can be given to clients before it does. Until then it
//! passes every gRPC request on and every answer back. For the change-over it first lets what is
//! under way finish while whatever comes new has to wait; then those who waited are answered here.
//! They notice a pause, and no error. One that was passed on and came too late, so that the other
//! server refused it because of its fence, has changed nothing there: it waits like the others.
//! Streams cannot be carried over: they end as when a server goes away, and their clients begin
//! them anew where they were.
//!
//! Bounded by what bounds requests anyway: calls in progress, and their deadlines.

mod cluster;
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

use super::on_behalf;
use super::unary::Unary;
use cluster::Sorted;

/// What etcd says when there is nobody to decide, and when whoever decides did not answer.
const NO_LEADER: &str = "etcdserver: no leader";
const TIMED_OUT: &str = "etcdserver: request timed out";

/// The services that only Vetch has.
const OWN: &str = "/vetch.v1.";
/// What an etcd with a CORRUPT alarm says to whoever wants to change something.
const FENCED: &str = "etcdserver: corrupt cluster";

/// Where requests are answered. Cloning copies a pointer.
#[derive(Debug, Clone)]
pub struct StandIn(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    phase: watch::Sender<Phase>,
    /// Short calls under way elsewhere.
    quick: watch::Sender<usize>,
    /// Where requests are answered changes again and again, with the writer of a cluster.
    in_cluster: bool,
}

#[derive(Debug, Clone)]
enum Phase {
    /// Passed on.
    Elsewhere(There),
    /// Refused, for this reason.
    Nowhere(&'static str),
    /// To be decided soon: requests wait.
    Soon,
    Here,
}

/// Where requests are passed on to.
#[derive(Debug, Clone)]
struct There {
    channel: Channel,
    /// This server shows a certificate there, which is not the sender's.
    is_secure: bool,
}

/// How whoever decides is reached.
pub(super) enum Way {
    Here,
    There(Channel),
    /// Not, for now.
    Nowhere,
}

/// What became of a request.
pub(super) enum Passed {
    Here(Request<Body>),
    Answered(Response<Body>),
}

impl StandIn {
    /// Refuses everything for now.
    pub fn new(why: &'static str) -> StandIn {
        let (phase, quick) = (watch::Sender::new(Phase::Nowhere(why)), watch::Sender::new(0));
        StandIn(Arc::new(Inner { phase, quick, in_cluster: false }))
    }

    /// For a server in a cluster: what only the writer can answer is passed on to it, the rest is
    /// answered here. Nobody is known to write yet.
    pub fn in_cluster() -> StandIn {
        let (phase, quick) = (watch::Sender::new(Phase::Nowhere(NO_LEADER)), watch::Sender::new(0));
        StandIn(Arc::new(Inner { phase, quick, in_cluster: true }))
    }

    /// Nobody is known to write.
    pub fn no_writer(&self) {
        self.refuse(NO_LEADER);
    }

    /// Who writes is about to change: requests wait.
    pub fn wait(&self) {
        self.0.phase.send_replace(Phase::Soon);
    }

    /// From now on `channel` leads to who answers.
    pub fn pass_to(&self, channel: Channel) {
        self.0.phase.send_replace(Phase::Elsewhere(There { channel, is_secure: false }));
    }

    /// The same over TLS.
    pub fn pass_to_securely(&self, channel: Channel) {
        self.0.phase.send_replace(Phase::Elsewhere(There { channel, is_secure: true }));
    }

    /// From now on requests are refused.
    pub fn refuse(&self, why: &'static str) {
        self.0.phase.send_replace(Phase::Nowhere(why));
    }

    /// Lets new requests wait, ends streams, and waits until short calls that were passed on are
    /// answered, at most for `patience`. True if all are.
    pub async fn hold(&self, patience: Duration) -> bool {
        self.0.phase.send_replace(Phase::Soon);
        let mut quick = self.0.quick.subscribe();
        tokio::time::timeout(patience, quick.wait_for(|&calls| calls == 0)).await.is_ok()
    }

    /// From now on this server answers, beginning with who waits.
    pub fn take_over(&self) {
        self.0.phase.send_replace(Phase::Here);
    }

    pub(super) fn is_in_cluster(&self) -> bool {
        self.0.in_cluster
    }

    /// Whether a call of this kind is answered here, whatever is in it.
    pub(super) fn is_here(&self, call: Unary) -> bool {
        (self.0.in_cluster && cluster::is_read(call)) || matches!(*self.0.phase.borrow(), Phase::Here)
    }

    /// How whoever decides is reached, and a promise that resolves when that changes.
    pub(super) fn way(&self) -> (Way, impl Future<Output = ()> + use<>) {
        let mut phase = self.0.phase.subscribe();
        let way = match &*phase.borrow_and_update() {
            Phase::Here => Way::Here,
            Phase::Elsewhere(there) => Way::There(there.channel.clone()),
            Phase::Nowhere(_) | Phase::Soon => Way::Nowhere,
        };
        let changed = async move {
            // The sender lives as long as the server.
            let _ = phase.changed().await;
        };
        (way, changed)
    }

    /// `node` is this server's.
    pub(super) async fn pass(&self, request: Request<Body>, node: &Node) -> Passed {
        // What is asked about this very process is not the other server's to answer.
        if request.uri().path().starts_with(OWN) {
            return Passed::Here(request);
        }
        let mut request = match self.0.in_cluster {
            false => request,
            true => match cluster::sort(request).await {
                Sorted::Here(request) => return Passed::Here(request),
                Sorted::Writer(request) => request,
                Sorted::Bad(status) => return Passed::Answered(status.into_http()),
            },
        };
        let mut phase = self.0.phase.subscribe();
        let hops = hops::of(request.headers());
        loop {
            let now = phase.borrow_and_update().clone();
            match now {
                Phase::Here => return Passed::Here(request),
                Phase::Nowhere(why) => return Passed::Answered(Status::unavailable(why).into_http()),
                // Servers that take each other for the leader would forward it for ever.
                Phase::Elsewhere(_) if hops >= hops::HOPS_MAX => {
                    tracing::debug!(hops, "a request was forwarded too often; servers disagree on who leads");
                    return Passed::Answered(Status::unavailable(NO_LEADER).into_http());
                }
                Phase::Elsewhere(There { channel, is_secure }) => {
                    hops::set(request.headers_mut(), hops + 1);
                    let is_quick = is_quick(request.uri().path());
                    let call = is_quick.then(|| QuickCall::begin(&self.0));
                    // Counted before this look, so that whoever holds requests back waits for this
                    // one or it is held back.
                    if phase.has_changed().unwrap_or(false) {
                        continue;
                    }
                    // On a plain connection no name counts, so that whoever sent it is nobody at
                    // the other end, too.
                    if self.0.in_cluster && is_secure && !on_behalf::stamp(node, &mut request) {
                        return Passed::Answered(Status::unavailable(NO_LEADER).into_http());
                    }
                    let lost = self.0.in_cluster.then_some(TIMED_OUT);
                    let call = match call {
                        Some(call) if !self.0.in_cluster => call,
                        // Nothing is tried twice in a cluster: what became of the first time may be
                        // unknown.
                        call => return Passed::Answered(forward(channel, request, call, phase, lost).await),
                    };
                    let again = match keep(request).await {
                        Ok((kept, again)) => {
                            request = kept;
                            again
                        }
                        Err(status) => return Passed::Answered(status.into_http()),
                    };
                    let answer = forward(channel, request, Some(call), phase.clone(), lost).await;
                    if !is_fenced(&answer) || !phase.has_changed().unwrap_or(false) {
                        return Passed::Answered(answer);
                    }
                    request = again;
                }
                Phase::Soon => {
                    // The sender lives as long as the server.
                    let _ = phase.changed().await;
                }
            }
        }
    }
}

/// Calls that are answered at once, whatever they ask for. All others are streams, or wait for
/// something to happen.
fn is_quick(path: &str) -> bool {
    match path.strip_prefix('/').and_then(|path| path.split_once('/')) {
        Some(("etcdserverpb.KV", method)) => method != "RangeStream",
        Some(("etcdserverpb.Lease", method)) => method != "LeaseKeepAlive",
        Some(("etcdserverpb.Maintenance", method)) => method != "Snapshot",
        Some((service, _)) => matches!(service, "etcdserverpb.Auth" | "etcdserverpb.Cluster"),
        None => false,
    }
}

/// A request of one message, and the same once more.
async fn keep(request: Request<Body>) -> Result<(Request<Body>, Request<Body>), Status> {
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
struct QuickCall(Arc<Inner>);

impl QuickCall {
    fn begin(inner: &Arc<Inner>) -> QuickCall {
        inner.quick.send_modify(|calls| *calls += 1);
        QuickCall(Arc::clone(inner))
    }
}

impl Drop for QuickCall {
    fn drop(&mut self) {
        self.0.quick.send_modify(|calls| *calls -= 1);
    }
}

async fn forward(
    channel: Channel,
    mut request: Request<Body>,
    call: Option<QuickCall>,
    mut phase: watch::Receiver<Phase>,
    lost: Option<&'static str>,
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
            _ = phase.changed() => return moved().into_http(),
        }
    };
    match answer {
        Ok(response) => response.map(|body| Body::new(Forwarded::new(body, call, phase))),
        Err(error) => {
            if let Some(lost) = lost {
                tracing::debug!(%error, "a request passed on to the writer got no answer");
                return Status::unavailable(lost).into_http();
            }
            let text = format!("the server that this one stands in for cannot be reached: {error}");
            Status::unavailable(text).into_http()
        }
    }
}

/// What a stream ends with when its server changes; clients know it from servers that go away.
fn moved() -> Status {
    Status::unavailable("the server has changed; begin again")
}

/// A body on its way back.
struct Forwarded {
    body: Body,
    /// None for a stream.
    _call: Option<QuickCall>,
    /// Resolves when a stream has to end.
    cut: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    ended: bool,
}

impl Forwarded {
    fn new(body: Body, call: Option<QuickCall>, mut phase: watch::Receiver<Phase>) -> Forwarded {
        let is_stream = call.is_none();
        let cut = async move {
            let _ = phase.changed().await;
        };
        Forwarded { body, _call: call, cut: is_stream.then(|| Box::pin(cut) as _), ended: false }
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
        let Some(cut) = &mut self.cut else { return Poll::Pending };
        if cut.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        self.ended = true;
        let mut trailers = http::HeaderMap::new();
        // Only a text that no header can hold is refused, and this one is ours.
        let _ = moved().add_header(&mut trailers);
        Poll::Ready(Some(Ok(Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.ended || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
