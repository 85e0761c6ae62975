//! Routing: from the path of a request to its service.
//!
//! A match instead of a routing table: there are eleven services, and every request passes here.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{HeaderValue, Request, Response};
use tonic::body::Body;
use tower::Service;
use vetch_api::EtcdError;
use vetch_api::health::health_server::HealthServer;
use vetch_api::pb::auth_server::AuthServer;
use vetch_api::pb::cluster_server::ClusterServer;
use vetch_api::pb::lease_server::LeaseServer;
use vetch_api::pb::maintenance_server::MaintenanceServer;
use vetch_api::v3electionpb::election_server::ElectionServer;
use vetch_api::v3lockpb::lock_server::LockServer;
use vetch_api::vetch::operator_server::OperatorServer;
use vetch_api::vetch::peer_server::PeerServer;
use vetch_api::wire_server::kv_server::KvServer;
use vetch_api::wire_server::watch_server::WatchServer;
use vetch_members::Proof;

use super::auth::AuthService;
use super::cluster::ClusterService;
use super::election::ElectionService;
use super::health::HealthService;
use super::kv::KvService;
use super::kv_call::KvMethod;
use super::lease::LeaseService;
use super::lock::LockService;
use super::maintenance::MaintenanceService;
use super::operator::OperatorService;
use super::peer::PeerService;
use super::router::{RequestRouter, Routed};
use super::service_context::ServiceContext;
use super::snapshot::SnapshotQueue;
use super::watch::WatchService;
use super::{call_metadata, forwarded_identity, peer, status, unary_reply};
use crate::auth::Credentials;
use vetch_tls::PeerIdentity;

/// All services. Cloning copies pointers.
#[derive(Clone)]
pub struct Rpc {
    /// What `kv` serves.
    kv_service: Arc<KvService>,
    longest_message: usize,
    kv: KvServer<KvService>,
    watch: WatchServer<WatchService>,
    lease: LeaseServer<LeaseService>,
    cluster: ClusterServer<ClusterService>,
    maintenance: MaintenanceServer<MaintenanceService>,
    auth: AuthServer<AuthService>,
    lock: LockServer<LockService>,
    election: ElectionServer<ElectionService>,
    health: HealthServer<HealthService>,
    operator: OperatorServer<OperatorService>,
    peer: PeerServer<PeerService>,
    /// Set if another server may have to serve requests.
    router: Option<RequestRouter>,
}

/// The stream of requests that are authorised one by one.
const WATCH: &str = "/etcdserverpb.Watch/Watch";

/// The sender of a call, by its headers and its connection. It is verified for each call.
pub(crate) struct Sender {
    credentials: Credentials,
    /// Proof that the forwarding server reads the journal.
    proof: Option<Proof>,
}

impl Sender {
    fn new(credentials: Credentials, proof: Option<Proof>) -> Sender {
        Sender { credentials, proof }
    }

    pub(crate) fn credentials(&self) -> &Credentials {
        &self.credentials
    }
}

type ResponseFuture = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

impl Rpc {
    pub(super) fn new(context: ServiceContext) -> Rpc {
        let limit = context.settings.max_message_bytes();
        let kv_service = Arc::new(KvService(context.clone()));
        Rpc {
            kv_service: Arc::clone(&kv_service),
            longest_message: limit,
            kv: KvServer::from_arc(kv_service).max_decoding_message_size(limit),
            watch: WatchServer::new(WatchService(context.clone())).max_decoding_message_size(limit),
            lease: LeaseServer::new(LeaseService(context.clone())).max_decoding_message_size(limit),
            cluster: ClusterServer::new(ClusterService(context.clone())).max_decoding_message_size(limit),
            maintenance: MaintenanceServer::new(MaintenanceService(
                context.clone(),
                SnapshotQueue::default(),
            ))
            .max_decoding_message_size(limit),
            auth: AuthServer::new(AuthService(context.clone())).max_decoding_message_size(limit),
            lock: LockServer::new(LockService(context.clone())).max_decoding_message_size(limit),
            election: ElectionServer::new(ElectionService(context.clone())).max_decoding_message_size(limit),
            health: HealthServer::new(HealthService(context.clone())).max_decoding_message_size(limit),
            operator: OperatorServer::new(OperatorService(context.clone())).max_decoding_message_size(limit),
            peer: PeerServer::new(PeerService::new(context)).max_decoding_message_size(limit),
            router: None,
        }
    }

    pub(super) fn kv_service(&self) -> &KvService {
        &self.kv_service
    }

    /// Simple tokens in memory.
    pub(crate) fn tokens(&self) -> usize {
        self.kv_service.0.authenticator().tokens()
    }

    /// A longer message is refused.
    pub(crate) fn longest_message(&self) -> usize {
        self.longest_message
    }

    /// The same services behind `router`, which decides where requests are served.
    pub fn with_router(self, router: RequestRouter) -> Rpc {
        Rpc { router: Some(router), ..self }
    }

    /// Whether there are other servers, and so possibly no leader.
    pub(crate) fn is_in_cluster(&self) -> bool {
        self.router.as_ref().is_some_and(RequestRouter::is_in_cluster)
    }

    /// The sender of a call over a connection of `peer`, with the forwarded identity and the
    /// caller's token in its headers. None if the forwarded identity is malformed.
    pub(crate) fn sender<'a>(
        &self,
        forwarded: impl FnOnce() -> Option<&'a HeaderValue>,
        token: Option<&HeaderValue>,
        peer: Option<&PeerIdentity>,
    ) -> Option<Sender> {
        match self.is_in_cluster().then(forwarded).flatten() {
            None => Some(Sender::new(Credentials::new(token.cloned(), peer.cloned()), None)),
            Some(forwarded) => {
                let (sender, proof) = forwarded_identity::parse(forwarded, peer)?;
                Some(Sender::new(Credentials::new(token.cloned(), sender), Some(proof)))
            }
        }
    }

    /// Whether this server can serve a call of this kind from this sender now without calling
    /// another server.
    pub(crate) fn can_serve_locally(&self, call: KvMethod, sender: &Sender) -> bool {
        let Some(router) = &self.router else { return true };
        let context = &self.kv_service.0;
        router.serves_locally(call)
            && sender.proof.is_none_or(|proof| context.node.is_known(&proof))
            && (!router.is_in_cluster()
                || context.authenticator().unknown_token(&context.node, &sender.credentials).is_none())
    }

    /// Routes a request to the server that can serve it, if that is not this one.
    async fn route(&self, router: &RequestRouter, request: Request<Body>) -> Routed {
        let context = &self.kv_service.0;
        if !router.is_in_cluster() {
            return router.route(request, &context.node).await;
        }
        let request = match forwarded_identity::verify(&context.node, request).await {
            Ok(request) => request,
            Err(status) => return Routed::Answered(status.into_http()),
        };
        match router.route(request, &context.node).await {
            Routed::Local(mut request) => {
                let credentials = Credentials::from_headers(request.headers());
                if let Err(refusal) = peer::resolve_token(context, router, &credentials).await {
                    return Routed::Answered(status::etcd(refusal).into_http());
                }
                // A token is looked up again for as long as its stream lasts.
                if request.uri().path() == WATCH {
                    request.extensions_mut().insert(router.clone());
                }
                Routed::Local(request)
            }
            answered => answered,
        }
    }

    /// Serves one request of a caller within this process. An RPC that fails is a response too.
    pub async fn answer(&self, request: Request<Body>) -> Response<Body> {
        unary_reply::response(self.reply(request).await)
    }

    /// The same for connections: the response of a unary call that is served here is a message of
    /// known length.
    pub(crate) async fn reply(&self, request: Request<Body>) -> vetch_http2::Answer<Body> {
        use vetch_http2::Answer::{Reply, Response};
        let request = match &self.router {
            None => request,
            // Boxed: few servers have one, and each request would carry its size.
            Some(router) => match Box::pin(self.route(router, request)).await {
                Routed::Local(request) => request,
                Routed::Answered(response) => return Response(response),
            },
        };
        if let Err(refusal) = call_metadata::check(request.headers()) {
            return Response(status::etcd(refusal).into_http());
        }
        if call_metadata::wants_leader(request.headers()) && self.has_no_leader() {
            return Response(status::etcd(EtcdError::NoLeader).into_http());
        }
        let uri = request.uri().clone();
        let response = match KvMethod::from_path(uri.path()) {
            Some(call) => match self.serve_kv_request(call, request).await {
                Reply(reply) => return Reply(reply),
                Response(response) => response,
            },
            None => match self.dispatch(request) {
                Some(answer) => answer.await.unwrap_or_else(|never| match never {}),
                None => status::unknown_service(uri.path()).into_http(),
            },
        };
        if let Some(status) = status::reworded(response.headers(), uri.path()) {
            return Response(status.into_http());
        }
        match self.kv_service.0.metrics.grpc.is_unary(uri.path()) {
            true => unary_reply::collect(response).await,
            false => Response(response),
        }
    }

    /// A call on keys whose message is still in the body of its request.
    async fn serve_kv_request(&self, call: KvMethod, request: Request<Body>) -> vetch_http2::Answer<Body> {
        let rpc = self.clone();
        let answer = move |credentials: Credentials, message| async move {
            rpc.serve_kv(call.decode(message)?, &credentials).await
        };
        unary_reply::unary(request, self.longest_message, answer).await
    }

    /// Whether this server knows that there is no leader.
    pub(crate) fn has_no_leader(&self) -> bool {
        self.kv_service.0.has_no_leader()
    }

    /// None if there is no such service.
    fn dispatch(&self, request: Request<Body>) -> Option<ResponseFuture> {
        let (service, _) = request.uri().path().strip_prefix('/')?.rsplit_once('/')?;
        Some(match service {
            "etcdserverpb.KV" => self.kv.clone().call(request),
            "etcdserverpb.Watch" => self.watch.clone().call(request),
            "etcdserverpb.Lease" => self.lease.clone().call(request),
            "etcdserverpb.Cluster" => self.cluster.clone().call(request),
            "etcdserverpb.Maintenance" => self.maintenance.clone().call(request),
            "etcdserverpb.Auth" => self.auth.clone().call(request),
            "v3lockpb.Lock" => self.lock.clone().call(request),
            "v3electionpb.Election" => self.election.clone().call(request),
            "grpc.health.v1.Health" => self.health.clone().call(request),
            "vetch.v1.Operator" => self.operator.clone().call(request),
            "vetch.v1.Peer" => self.peer.clone().call(request),
            _ => return None,
        })
    }
}

impl Service<Request<Body>> for Rpc {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> ResponseFuture {
        let rpc = self.clone();
        Box::pin(async move { Ok(rpc.answer(request).await) })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use vetch_checkpoint::identity::Identity;
    use vetch_node::Node;
    use vetch_node::config::NodeConfig;

    use super::*;
    use crate::grpc::{Settings, routes};
    use vetch_metrics::ServerMetrics;

    /// A connection caches what the headers say, so the proof in them is verified for each call.
    #[tokio::test]
    async fn a_proof_is_checked_for_each_call_and_not_with_the_headers() {
        let dir = tempfile::tempdir().expect("a directory");
        let config = NodeConfig::new(dir.path().into(), Identity { cluster_id: 1, member_id: 2 });
        let opening = tokio::task::spawn_blocking(move || Node::open(config, |_| {}));
        let node = opening.await.expect("no panic").expect("a node");
        let metrics = Arc::new(ServerMetrics::new(false, Duration::MAX));
        let router = RequestRouter::in_cluster();
        let rpc = routes(node.clone(), Arc::new(Settings::default()), metrics).with_router(router.clone());
        router.serve_locally();
        let unknown = HeaderValue::from_static("1.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
        let claimed =
            rpc.sender(|| Some(&unknown), None, None).expect("it is one, whether or not it is true");
        assert!(!rpc.can_serve_locally(KvMethod::Range, &claimed), "this server knows no such announcement");
        let own = rpc.sender(|| None, None, None).expect("no claim");
        assert!(rpc.can_serve_locally(KvMethod::Range, &own) && rpc.can_serve_locally(KvMethod::Put, &own));
        router.no_leader();
        assert!(rpc.can_serve_locally(KvMethod::Range, &own) && !rpc.can_serve_locally(KvMethod::Put, &own));
        let nonsense = HeaderValue::from_static("nonsense");
        assert!(rpc.sender(|| Some(&nonsense), None, None).is_none());
        node.shutdown().await;
    }
}
