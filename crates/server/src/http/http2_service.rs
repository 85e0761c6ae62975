//! Serves the requests of an HTTP/2 connection.
//!
//! The most frequent calls, reads and writes of keys, come as whole messages and go straight to the
//! service. Everything else goes by [`route`], as a request with a body.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderName, Method, Request};
use tonic::Status;
use tonic::body::Body;
use vetch_api::EtcdError;
use vetch_http2::{Answer, Boxed, Call, Head, Incoming, Reply, Service, Weight};

use super::Serves;
use super::connection_context::ConnectionContext;
use super::route;
use crate::grpc::{FORWARDED_IDENTITY, KvCall, KvMethod, Sender, weight};
use vetch_metrics::{CountedMethod, ObservedCall, OpenCall};

const GRPC_ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
const CLIENT_API_VERSION: HeaderName = HeaderName::from_static("client-api-version");
/// The client requires a leader; that is checked for each call.
const HAS_LEADER: HeaderName = HeaderName::from_static("hasleader");
const TOKEN: HeaderName = HeaderName::from_static("token");

pub(super) struct Http2Service(Arc<ConnectionContext>);

/// What the headers of a call say, as far as its response depends on them. It is cached for the
/// whole connection, so nothing in it may change meanwhile: not leadership, users or the validity
/// of a token.
pub(super) struct Plan {
    method: KvMethod,
    counted: CountedMethod,
    sender: Sender,
    /// It is refused if no leader is known.
    wants_leader: bool,
}

impl Http2Service {
    pub(super) fn new(context: Arc<ConnectionContext>) -> Http2Service {
        Http2Service(context)
    }
}

impl Service for Http2Service {
    type Plan = Plan;
    type Place = OpenCall;
    type Body = Body;

    /// Only regular calls. All others take the slow path, which knows how to refuse them.
    fn plan(&self, head: &Head) -> Option<Plan> {
        let has_grpc = matches!(self.0.serves, Serves::GrpcAndHttp | Serves::Grpc);
        let content_type = head.get(&CONTENT_TYPE)?.as_bytes();
        let is_plain =
            is_grpc(content_type) && head.get(&GRPC_ENCODING).is_none_or(|encoding| encoding == "identity");
        let path = head.path.to_str().ok()?;
        let method = KvMethod::from_path(path)?;
        if !has_grpc || !is_plain || head.method != Method::POST {
            return None;
        }
        let wants_leader = head.get(&HAS_LEADER).is_some_and(|value| value == "true");
        let version = match head.get(&CLIENT_API_VERSION) {
            Some(version) => version.to_str().ok()?,
            None => "unknown",
        };
        let token = head.get(&TOKEN).or_else(|| head.get(&AUTHORIZATION));
        let sender =
            self.0.shared.grpc.sender(|| head.get(&FORWARDED_IDENTITY), token, self.0.peer.as_ref())?;
        let counted = self.0.shared.metrics.grpc.method(path, version)?;
        Some(Plan { method, counted, sender, wants_leader })
    }

    fn admit(&self, _: &Arc<Plan>, open: usize) -> Result<OpenCall, Reply> {
        self.0.note_request();
        let calls = &self.0.shared.metrics.grpc;
        if route::is_beyond_its_share(calls.open(), open) {
            return Err(refused(EtcdError::RequestTooManyRequests.into()));
        }
        Ok(calls.open_call())
    }

    fn longest_message(&self) -> usize {
        self.0.shared.grpc.longest_message()
    }

    fn unary(&self, plan: &Arc<Plan>, open: OpenCall, message: Bytes) -> Call {
        let shared = &self.0.shared;
        // Another server may have to serve it, or to look up its sender.
        if !shared.grpc.can_serve_locally(plan.method, &plan.sender) {
            let weight = plan.method.weight(&message);
            return Call::AsRequest(message, weight);
        }
        let observed = shared.metrics.grpc.begin(&plan.counted, message.len());
        // From here on it counts as a call.
        drop(open);
        let call = match plan.method.decode(message) {
            _ if plan.wants_leader && shared.grpc.has_no_leader() => Err(EtcdError::NoLeader.into()),
            call => call,
        };
        let call = match call {
            Ok(call) => call,
            Err(status) => {
                observed.refused(status.code());
                return Call::Now(refused(status));
            }
        };
        let is_long = call.may_be_long();
        let (context, plan) = (Arc::clone(&self.0), Arc::clone(plan));
        // A future of its own for each kind of call: one for all would be as large as the largest,
        // and is copied when it is boxed.
        let answer: Boxed<Reply> = match call {
            KvCall::Range(range) => Box::pin(async move {
                concluded(observed, context.shared.grpc.serve_range(range, plan.sender.credentials()).await)
            }),
            KvCall::Put(put) => Box::pin(async move {
                concluded(observed, context.shared.grpc.serve_put(put, plan.sender.credentials()).await)
            }),
            KvCall::DeleteRange(delete) => Box::pin(async move {
                concluded(
                    observed,
                    context.shared.grpc.serve_delete_range(delete, plan.sender.credentials()).await,
                )
            }),
            KvCall::Txn(txn) => Box::pin(async move {
                concluded(observed, context.shared.grpc.serve_txn(txn, plan.sender.credentials()).await)
            }),
        };
        if is_long { Call::Apart(answer) } else { Call::Here(answer) }
    }

    fn share(&self) -> usize {
        let queue = self.0.shared.node.queue();
        queue_share(queue.requests, queue.most_requests)
    }

    /// Pages are made as a whole.
    fn weight(&self, head: &Head) -> Weight {
        let is_grpc = head.get(&CONTENT_TYPE).is_some_and(|value| is_grpc(value.as_bytes()));
        let path = head.path.to_str().ok().filter(|_| is_grpc);
        path.map_or(Weight::Heavy, weight::by_path)
    }

    fn call(&self, request: Request<Incoming>, open: usize) -> Boxed<Answer<Body>> {
        let context = Arc::clone(&self.0);
        let mut request = request.map(Body::new);
        context.prepare(&mut request);
        request.extensions_mut().insert(context.holdings.clone());
        Box::pin(async move { route::any(request, &context, open).await })
    }
}

/// Calls of one connection that may wait for the sequencer, by how full its queue is: even a
/// thousand connections cannot fill it, so no client is refused for what others ask.
fn queue_share(queued: usize, most: usize) -> usize {
    match queued {
        _ if queued < most / 4 => most / 4,
        _ if queued < most / 2 => 64,
        _ => 4,
    }
}

/// The same as in [`route`].
fn is_grpc(content_type: &[u8]) -> bool {
    content_type.starts_with(b"application/grpc")
}

/// Counts how a call ended. What its client is answered.
fn concluded(observed: ObservedCall, answer: Result<Reply, Status>) -> Reply {
    match answer {
        Ok(reply) => {
            observed.answered(&reply);
            reply
        }
        Err(status) => {
            observed.refused(status.code());
            refused(status)
        }
    }
}

fn refused(status: Status) -> Reply {
    let (parts, _) = status.into_http::<Body>().into_parts();
    Reply::Refused(parts.headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fuller_the_queue_the_less_of_it_has_one_connection() {
        let most = 8192;
        let share = |queued| queue_share(queued, most);
        assert_eq!([0, 2047, 2048, 4095, 4096, 9000].map(share), [2048, 2048, 64, 64, 4, 4]);
        // As many connections as there may be by default, each of which takes what it can get.
        let mut queued = 0;
        for _ in 0..870 {
            queued += share(queued);
        }
        assert!(queued < most, "{queued}");
    }

    /// Every content type that is served as gRPC takes the fast path; otherwise a client could
    /// choose to have a long response encoded at once.
    #[test]
    fn parameters_of_the_content_type_do_not_matter() {
        for content_type in [
            "application/grpc",
            "application/grpc+proto",
            "application/grpc;x",
            "application/grpc; charset=utf-8",
        ] {
            assert!(is_grpc(content_type.as_bytes()), "{content_type}");
        }
        assert!(!is_grpc(b"application/json"));
    }
}
