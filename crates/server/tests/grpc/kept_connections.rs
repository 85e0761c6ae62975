//! Connections that are used for long: what one has learned of its headers must not outlive its
//! truth. Every test repeats a call until its header block is a known one, changes what the answer
//! depends on, and repeats the call.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tonic::transport::Channel;
use vetch_api::pb;
use vetch_api::pb::auth_client::AuthClient;
use vetch_api::pb::kv_client::KvClient;
use vetch_api::pb::watch_client::WatchClient;
use vetch_api::pb::watch_request::RequestUnion;
use vetch_checkpoint::identity::Identity;
use vetch_cluster::{Config, Log, LogError, LogEvent, OrderedLog, Ticket};
use vetch_metrics::ServerMetrics;
use vetch_node::Node;
use vetch_node::cluster::ClusterConfig;
use vetch_node::config::NodeConfig;
use vetch_node::journal::Position;
use vetch_server::auth as server_auth;
use vetch_server::grpc::{self, RequestRouter};
use vetch_server::http::Server;
use vetch_testkit::log::handle::ModelHandle;
use vetch_testkit::log::model::ModelLog;

use crate::auth::{BAD_TOKEN, NO_USER, by, get, put, refused};
use crate::router::{listening, listening_with};
use crate::{MEMBER, World};

/// Calls after which a connection knows the header block.
const CALLS_UNTIL_KNOWN: usize = 3;

async fn put_until_known(kv: &mut KvClient<Channel>) {
    for _ in 0..CALLS_UNTIL_KNOWN {
        kv.put(put("/key")).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_follow_the_leader() {
    let (there, here) = (World::new().await, World::new().await);
    let (server, channel) = listening(&there, &there.rpc).await;
    let router = RequestRouter::in_cluster();
    let (front, to_front) = listening(&here, &here.rpc.clone().with_router(router.clone())).await;
    let mut kv = KvClient::new(to_front);
    let written = || (there.node.revision(), here.node.revision());
    router.serve_locally();
    put_until_known(&mut kv).await;
    assert_eq!(written(), (1, 4));
    router.forward_to(channel.clone());
    put_until_known(&mut kv).await;
    assert_eq!(written(), (4, 4), "leadership went there");
    router.no_leader();
    assert_eq!(crate::refused(kv.put(put("/key")).await).1, "etcdserver: no leader");
    router.serve_locally();
    put_until_known(&mut kv).await;
    assert_eq!(written(), (4, 7), "and came back");
    front.stop().await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_are_looked_up_for_each_call() {
    let world = World::new().await;
    let (server, channel) = listening(&world, &world.rpc).await;
    let mut kv = KvClient::new(channel);
    put_until_known(&mut kv).await;
    world.add_user("u", "pw").await;
    world.permit("u", 2, "/", "0").await;
    world.enable().await;
    assert_eq!(refused!(kv.put(put("/key"))), NO_USER, "users are asked for now");
    let token = world.log_in("u", "pw").await;
    for _ in 0..CALLS_UNTIL_KNOWN {
        kv.put(by(&token, put("/key"))).await.unwrap();
        kv.range(by(&token, get("/key", ""))).await.unwrap();
    }
    let root = world.log_in("root", "rootpw").await;
    let gone = pb::AuthUserDeleteRequest { name: "u".into() };
    world.auth().user_delete(by(&root, gone)).await.unwrap();
    assert_eq!(refused!(kv.put(by(&token, put("/key")))), BAD_TOKEN);
    assert_eq!(refused!(kv.range(by(&token, get("/key", "")))), BAD_TOKEN);
    world.auth().auth_disable(by(&root, pb::AuthDisableRequest {})).await.unwrap();
    put_until_known(&mut kv).await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_that_take_each_other_for_the_leader_do_not_forward_for_ever() {
    let worlds = [World::new().await, World::new().await];
    let routers = [RequestRouter::in_cluster(), RequestRouter::in_cluster()];
    let (one, to_one) = listening(&worlds[0], &worlds[0].rpc.clone().with_router(routers[0].clone())).await;
    let (two, to_two) = listening(&worlds[1], &worlds[1].rpc.clone().with_router(routers[1].clone())).await;
    routers[0].forward_to(to_two);
    routers[1].forward_to(to_one.clone());
    let mut kv = KvClient::new(to_one);
    let answer = tokio::time::timeout(Duration::from_secs(20), kv.put(put("/key"))).await;
    assert_eq!(crate::refused(answer.expect("an answer")).1, "etcdserver: no leader");
    // One change of leadership after the other is no reason to refuse.
    routers[1].serve_locally();
    kv.put(put("/key")).await.unwrap();
    one.stop().await;
    two.stop().await;
}

/// The model log, with records as large as a server wants them and without a busy wait.
struct SharedLog(ModelHandle);

impl Log for SharedLog {
    fn append(&mut self, ticket: Ticket, after: Position, record: Bytes) {
        self.0.append(ticket, after, record);
    }

    fn read(&mut self, after: Position) {
        self.0.read(after);
    }

    fn next(&mut self, wait: Duration) -> Option<LogEvent> {
        let deadline = Instant::now() + wait;
        loop {
            match self.0.next(Duration::ZERO) {
                None if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(1)),
                news => return news,
            }
        }
    }

    fn trim(&mut self, floor: Position) -> Result<(), LogError> {
        self.0.trim(floor)
    }

    fn max_record(&self) -> usize {
        8 << 20
    }
}

/// A server of a cluster, reached over a connection.
struct Member {
    node: Node,
    router: RequestRouter,
    server: Server,
    channel: Channel,
    _dir: tempfile::TempDir,
}

/// How long a token lives; borrowed ones a quarter of that.
const TOKEN_TTL: Duration = Duration::from_secs(2);

async fn member(log: &Arc<Mutex<ModelLog>>, member_id: u64) -> Member {
    let dir = tempfile::tempdir().unwrap();
    let config = NodeConfig::new(dir.path().into(), Identity { cluster_id: 1, member_id });
    let cluster = ClusterConfig {
        name: format!("m{member_id}"),
        client_urls: vec![format!("http://m{member_id}")],
        peer_urls: Vec::new(),
    };
    let log = SharedLog(ModelHandle::new(Arc::clone(log)));
    let engine = Box::new(OrderedLog::new(log, Config::default()));
    let opening = tokio::task::spawn_blocking(move || Node::open_replicated(config, cluster, engine, |_| {}));
    let node = opening.await.unwrap().unwrap();
    let auth = server_auth::Settings {
        tokens: server_auth::TokenKind::Simple { ttl: TOKEN_TTL },
        bcrypt_cost: 4,
        ..server_auth::Settings::default()
    };
    let settings = Arc::new(grpc::Settings { auth, ..grpc::Settings::default() });
    let metrics = Arc::new(ServerMetrics::new(false, Duration::MAX));
    let router = RequestRouter::in_cluster();
    let rpc = grpc::routes(node.clone(), settings, metrics).with_router(router.clone());
    tokio::spawn(grpc::forward_read_index_requests(node.clone(), router.clone()));
    tokio::spawn(grpc::stay_registered(node.clone(), router.clone()));
    let (server, channel) = listening_with(node.clone(), &rpc).await;
    Member { node, router, server, channel, _dir: dir }
}

/// One stream on which watches are created again and again.
struct Watches {
    requests: tokio::sync::mpsc::Sender<pb::WatchRequest>,
    answers: tonic::Streaming<pb::WatchResponse>,
}

impl Watches {
    async fn open(channel: &Channel, token: &str) -> Watches {
        let (requests, receiver) = tokio::sync::mpsc::channel(4);
        let requesting = by(token, tokio_stream::wrappers::ReceiverStream::new(receiver));
        let answers = WatchClient::new(channel.clone()).watch(requesting).await.unwrap().into_inner();
        Watches { requests, answers }
    }

    async fn create(&mut self) {
        let create = pb::WatchCreateRequest { key: "/other".into(), ..Default::default() };
        let request = pb::WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
        self.requests.send(request).await.unwrap();
        let answer = self.answers.message().await.unwrap().unwrap();
        assert!(answer.created && !answer.canceled, "{answer:?}");
    }
}

async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_token_that_a_follower_has_borrowed_is_asked_for_again() {
    let log = Arc::new(Mutex::new(ModelLog::new(true)));
    let leader = member(&log, MEMBER).await;
    until("a server leads", || leader.node.cluster().unwrap().borrow().is_leader).await;
    leader.router.serve_locally();
    let follower = member(&log, MEMBER + 1).await;
    follower.router.forward_to(leader.channel.clone());
    until("the follower is a member", || {
        let cluster = follower.node.cluster().unwrap();
        let status = cluster.borrow();
        status.key != 0 && status.members.len() == 2 && status.leader.is_some()
    })
    .await;
    let mut users = AuthClient::new(leader.channel.clone());
    let add = pb::AuthUserAddRequest { name: "root".into(), password: "pw".into(), ..Default::default() };
    users.user_add(add).await.unwrap();
    users.role_add(pb::AuthRoleAddRequest { name: "root".into() }).await.unwrap();
    let grant = pb::AuthUserGrantRoleRequest { user: "root".into(), role: "root".into() };
    users.user_grant_role(grant).await.unwrap();
    users.auth_enable(pb::AuthEnableRequest {}).await.unwrap();
    let login = pb::AuthenticateRequest { name: "root".into(), password: "pw".into() };
    let token = users.authenticate(login).await.unwrap().into_inner().token;
    // Until the follower has applied that, it looks at no token, and the leader refuses the call.
    until("the follower asks for users", || follower.node.auth_enabled()).await;

    let mut watches = Watches::open(&follower.channel, &token).await;
    watches.create().await;
    let mut kv = KvClient::new(follower.channel.clone());
    let begun = Instant::now();
    while begun.elapsed() < TOKEN_TTL + TOKEN_TTL / 2 {
        kv.range(by(&token, get("/key", ""))).await.unwrap();
        kv.put(by(&token, put("/key"))).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    watches.create().await;
    // Not used for its time, it ends at both.
    tokio::time::sleep(TOKEN_TTL + TOKEN_TTL / 2).await;
    assert_eq!(refused!(kv.range(by(&token, get("/key", "")))), BAD_TOKEN);
    for member in [follower, leader] {
        member.server.stop().await;
        member.node.shutdown().await;
    }
}
