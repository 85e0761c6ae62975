//! The Watch service: one stream, many watchers.
//!
//! A stream is a state machine without a task or a queue of its own: it is polled when the
//! connection has room for another frame, and then either takes a request or drains responses from
//! the session. So a client that does not read delays its own session only, and costs at most one
//! batch of responses, which share their events with all others.

use std::collections::VecDeque;
use std::pin::Pin;
use std::time::Instant;

use futures_util::{Stream, stream};
use tokio::sync::watch;
use tonic::{Request, Response, Status, Streaming};
use vetch_api::pb::watch_create_request::FilterType;
use vetch_api::pb::watch_request::RequestUnion;
use vetch_api::wire_server::watch_server;
use vetch_api::{EtcdError, pb, wire};
use vetch_http2::Charge;
use vetch_node::cluster::ClusterStatus;
use vetch_node::event::NodeEvent;
use vetch_node::watch::{Create, Filters, WatchEnd, WatchSession};
use vetch_translate::Kv;

use super::authorise::RequiredPermission;
use super::router::RequestRouter;
use super::service_context::ServiceContext;
use super::{call_metadata, peer, status};
use crate::auth::Credentials;
use crate::remote::Remote;
use vetch_metrics::WatchFrame;

mod fragment;
#[cfg(test)]
mod tests;

type SessionResponse = vetch_node::watch::Response<NodeEvent>;

/// Answers to requests that may wait to be sent before further requests are taken.
const BACKLOG_MAX: usize = 64;

pub(super) struct WatchService(pub(super) ServiceContext);

impl watch_server::Watch for WatchService {
    type K = Kv;
    type WatchStream = Pin<Box<dyn Stream<Item = Result<wire::WatchResponse<Kv>, Status>> + Send>>;

    async fn watch(
        &self,
        request: Request<Streaming<pb::WatchRequest>>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        let remote = request.extensions().get::<Remote>().cloned();
        let wants_leader = call_metadata::wants_leader(request.metadata().as_ref());
        let leader = self.0.node.cluster().filter(|_| wants_leader);
        let router = request.extensions().get::<RequestRouter>().cloned();
        let (credentials, requests) = Credentials::split(request);
        let session = self.0.node.watch();
        let charge = remote.map(|Remote { address, watching, .. }| {
            session.set_client_address(address);
            watching.charge()
        });
        let stream = WatchStream {
            context: self.0.clone(),
            credentials,
            router,
            requests: Some(requests),
            session,
            charge,
            leader,
            ready: VecDeque::new(),
            sending: None,
        };
        let frames = stream::unfold(Some(stream), async |state| {
            let mut stream = state?;
            match stream.next().await {
                Ok(frame) => Some((Ok(frame), Some(stream))),
                Err(status) => Some((Err(status), None)),
            }
        });
        Ok(Response::new(Box::pin(frames)))
    }
}

struct WatchStream {
    context: ServiceContext,
    /// Every create is authorised by them again.
    credentials: Credentials,
    /// Looks up the token in a cluster: the cache may have dropped it since the last create.
    router: Option<RequestRouter>,
    /// None once the client has sent its last request. The stream is served until the client
    /// disconnects.
    requests: Option<Streaming<pb::WatchRequest>>,
    session: WatchSession,
    /// Charges the watchers to the connection. None: the request came without one.
    charge: Option<Charge>,
    /// The client requires a leader (`hasleader`).
    leader: Option<watch::Receiver<ClusterStatus>>,
    ready: VecDeque<wire::WatchResponse<Kv>>,
    /// The last response, and when it was made. The connection has taken it when it polls again.
    sending: Option<(WatchFrame, Instant)>,
}

impl WatchStream {
    /// The next frame, or what the stream ends with.
    async fn next(&mut self) -> Result<wire::WatchResponse<Kv>, Status> {
        if let Some((frame, began)) = self.sending.take() {
            self.context.metrics.services.watch_sent(frame, began.elapsed());
        }
        loop {
            if let Some(frame) = self.ready.pop_front() {
                self.sending = Some((kind(&frame), Instant::now()));
                return Ok(frame);
            }
            let Some(requests) = &mut self.requests else {
                let responses = tokio::select! {
                    responses = self.session.next() => responses,
                    () = leader_lost(&mut self.leader) => return Err(status::etcd(EtcdError::NoLeader)),
                };
                self.take_responses(responses)?;
                continue;
            };
            tokio::select! {
                request = requests.message(), if self.session.backlog() < BACKLOG_MAX => match request {
                    Ok(Some(request)) => {
                        self.take_request(request).await;
                        self.update_charge();
                    }
                    Ok(None) => self.requests = None,
                    Err(broken) => return Err(status::request_stream(broken, EtcdError::WatchCanceled)),
                },
                responses = self.session.next() => self.take_responses(responses)?,
                () = leader_lost(&mut self.leader) => return Err(status::etcd(EtcdError::NoLeader)),
            }
        }
    }

    fn take_responses(&mut self, responses: Result<Vec<SessionResponse>, WatchEnd>) -> Result<(), Status> {
        for response in responses.map_err(|WatchEnd| status::etcd(EtcdError::Stopped))? {
            let fragment = response.fragment;
            let header = self.context.header(response.header_revision);
            let frame = frame(response, header);
            if fragment {
                self.ready.extend(fragment::split(frame, self.context.settings.max_message_bytes()));
            } else {
                self.ready.push_back(frame);
            }
        }
        // Compaction may have cancelled some.
        self.update_charge();
        Ok(())
    }

    /// Updates the charge of the watchers.
    fn update_charge(&mut self) {
        if let Some(charge) = &mut self.charge
            && charge.len() != self.session.bytes()
        {
            charge.set(self.session.bytes());
        }
    }

    /// An empty request is ignored, as in etcd.
    async fn take_request(&mut self, request: pb::WatchRequest) {
        match request.request_union {
            Some(RequestUnion::CreateRequest(create)) => self.create(create).await,
            Some(RequestUnion::CancelRequest(cancel)) => self.session.cancel(cancel.watch_id),
            Some(RequestUnion::ProgressRequest(_)) => self.session.request_progress(),
            None => {}
        }
    }

    async fn create(&mut self, create: pb::WatchCreateRequest) {
        // A negative start is refused before any other check; the session does that.
        if create.start_revision >= 0
            && let Err(refusal) = self.check_create(&create).await
        {
            self.session.refuse_create(refusal.rpc_text());
            return;
        }
        let create = create_spec(create);
        if create.start_revision >= 0 && !self.has_room(&create) {
            self.session.refuse_create(EtcdError::RequestTooManyRequests.rpc_text());
            return;
        }
        self.session.create(&create);
    }

    /// Whether the watchers of this connection, and all watchers, may take so much more.
    fn has_room(&mut self, create: &Create) -> bool {
        let bytes = self.session.bytes() + create.bytes();
        self.charge.as_mut().is_none_or(|charge| charge.try_set(bytes).is_ok())
    }

    async fn check_create(&self, create: &pb::WatchCreateRequest) -> Result<(), EtcdError> {
        if let Some(router) = &self.router {
            peer::resolve_token(&self.context, router, &self.credentials).await?;
        }
        let required = RequiredPermission::Watch { key: &create.key, range_end: &create.range_end };
        self.context.check_permission(&self.credentials, required).map(drop)
    }
}

impl Drop for WatchStream {
    /// Very many watchers are removed in steps, and count until then.
    fn drop(&mut self) {
        if let Some(charge) = self.charge.take() {
            self.session.keep(Box::new(charge));
        }
    }
}

/// Resolves when there is no leader any more, if the client requires one.
async fn leader_lost(leader: &mut Option<watch::Receiver<ClusterStatus>>) {
    let is_lost = match leader {
        // An error means that the node is gone; the session reports that.
        Some(status) => status.wait_for(|status| status.silent).await.is_ok(),
        None => false,
    };
    if !is_lost {
        std::future::pending().await
    }
}

/// Filters with numbers that the API does not define filter nothing, as in etcd.
fn create_spec(create: pb::WatchCreateRequest) -> Create {
    let has = |filter: FilterType| create.filters.contains(&(filter as i32));
    Create {
        filters: Filters { no_put: has(FilterType::Noput), no_delete: has(FilterType::Nodelete) },
        key: create.key.to_vec(),
        range_end: create.range_end.to_vec(),
        start_revision: create.start_revision,
        watch_id: create.watch_id,
        prev_kv: create.prev_kv,
        fragment: create.fragment,
        progress_notify: create.progress_notify,
    }
}

fn frame(response: SessionResponse, header: Option<pb::ResponseHeader>) -> wire::WatchResponse<Kv> {
    let prev_kv = response.prev_kv;
    wire::WatchResponse {
        header,
        watch_id: response.watch_id,
        created: response.created,
        canceled: response.canceled,
        compact_revision: response.compact_revision,
        events: response.events().map(|event| wire_event(event, prev_kv)).collect(),
        cancel_reason: response.cancel_reason.into_owned(),
        fragment: false,
    }
}

fn kind(frame: &wire::WatchResponse<Kv>) -> WatchFrame {
    if frame.created || frame.canceled {
        WatchFrame::Answer
    } else if frame.events.is_empty() {
        WatchFrame::Progress
    } else {
        WatchFrame::Events(u32::try_from(frame.events.len()).unwrap_or(u32::MAX))
    }
}

/// The previous value is kept whenever there was one, and sent if the client asked for it.
fn wire_event(NodeEvent(event): &NodeEvent, prev_kv: bool) -> wire::Event<Kv> {
    wire::Event {
        delete: event.kv.is_tombstone(),
        kv: Kv(event.kv.clone()),
        prev_kv: event.prev.as_ref().filter(|_| prev_kv).cloned().map(Kv),
    }
}
