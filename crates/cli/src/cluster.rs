//! A server in a cluster: its node on a journal that others share, and who its requests are
//! forwarded to.

mod join;
mod peer_dialer;
mod report;

use std::time::Duration;

use tonic::transport::Endpoint;
use vetch_cluster::{Config, OrderedLog};
use vetch_node::Node;
use vetch_node::cluster::{ClusterConfig, ClusterStatus};
use vetch_node::config::NodeConfig;
use vetch_node::error::OpenError;
use vetch_node::types::Progress;
use vetch_server::grpc::{self, RequestRouter};

use crate::engine::{ConnectError, OrderedJournal};
use join::NoCheckpoint;

pub(crate) use peer_dialer::PeerDialer;
pub(crate) use report::report;

/// Keepalive of the connection to the leader, so that one that does not answer is noticed soon.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(1);
const LEADER_TIMEOUT: Duration = Duration::from_secs(2);

/// How often a checkpoint is taken over from another server before a start is given up: the journal
/// may be trimmed beyond the first ones, too.
const CHECKPOINT_ATTEMPTS_MAX: usize = 5;

/// Why a server in a cluster cannot start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClusterError {
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error(transparent)]
    Journal(#[from] ConnectError),
    #[error(transparent)]
    NoCheckpoint(#[from] NoCheckpoint),
}

/// Blocks until the journal has been read, from a checkpoint of another server if there is no other
/// way.
pub(crate) fn open(
    config: NodeConfig,
    journal: &OrderedJournal,
    server: &grpc::Settings,
    dialer: &PeerDialer,
    mut progress: impl FnMut(Progress),
) -> Result<Node, ClusterError> {
    let cluster = ClusterConfig {
        name: server.name.clone(),
        client_urls: server.client_urls.clone(),
        peer_urls: server.peer_urls.clone(),
    };
    let rules = Config { lease_duration: journal.read_lease, ..Config::default() };
    let mut taken = 0;
    let mut place = journal.place.clone();
    loop {
        let engine = Box::new(OrderedLog::new(place.connect()?, rules.clone()));
        // The settings of its servers have been checked.
        place.trust_majority();
        match Node::open_replicated(config.clone(), cluster.clone(), engine, &mut progress) {
            Err(OpenError::Behind { first }) if taken < CHECKPOINT_ATTEMPTS_MAX => {
                tracing::info!(first, "the journal was trimmed beyond the state of this server");
                join::fetch_checkpoint(&config.data_dir, config.proposed.member_id, &place, dialer)?;
                taken += 1;
            }
            opened => return Ok(opened?),
        }
    }
}

/// Keeps the route of requests that only the leader can serve up to date, until the node ends.
///
/// `own_urls` are the addresses that this server announces.
pub(crate) async fn follow_leader(
    node: Node,
    router: RequestRouter,
    dialer: PeerDialer,
    own_urls: Vec<String>,
) {
    let Some(mut status) = node.cluster() else { return };
    let (mut known, me) = (None, node.identity().member_id);
    loop {
        let now = leader_location(&status.borrow_and_update(), me, &own_urls);
        if known.as_ref() != Some(&now) {
            update_route(&router, &now, &dialer);
            known = Some(now);
        }
        let is_unknown = known == Some(LeaderLocation::Unknown);
        tokio::select! {
            changed = status.changed() => if changed.is_err() { return },
            // A leader usually appears within this time, so hold requests until then.
            () = tokio::time::sleep(LEADER_TIMEOUT), if is_unknown => {
                router.no_leader();
                tokio::select! {
                    changed = status.changed() => if changed.is_err() { return },
                    _ = node.stopped() => return,
                }
            }
            _ = node.stopped() => return router.no_leader(),
        }
    }
}

#[derive(PartialEq)]
enum LeaderLocation {
    Local,
    Remote(String),
    /// It announces an address of this server, so that requests would come back.
    SameAddress(String),
    Unknown,
}

fn leader_location(status: &ClusterStatus, me: u64, own_urls: &[String]) -> LeaderLocation {
    match &status.leader {
        _ if status.transferring => LeaderLocation::Unknown,
        _ if status.is_leader => LeaderLocation::Local,
        // Its own announcement from before a restart: it would forward requests to itself.
        Some(leader) if leader.member == me => LeaderLocation::Unknown,
        Some(leader) if own_urls.contains(&leader.url) => LeaderLocation::SameAddress(leader.url.clone()),
        Some(leader) => LeaderLocation::Remote(leader.url.clone()),
        None => LeaderLocation::Unknown,
    }
}

fn update_route(router: &RequestRouter, location: &LeaderLocation, dialer: &PeerDialer) {
    match location {
        LeaderLocation::Local => router.serve_locally(),
        LeaderLocation::Unknown => router.set_pending(),
        LeaderLocation::SameAddress(url) => {
            tracing::error!(url, "the leader announces the address of this server; not forwarding to it");
            router.no_leader();
        }
        LeaderLocation::Remote(url) => match dialer.connect_lazy(url, with_keepalive) {
            Ok(channel) if PeerDialer::is_secure(url) => router.forward_to_over_tls(channel),
            Ok(channel) => router.forward_to(channel),
            Err(error) => {
                tracing::error!(url, %error, "cannot reach the leader at the address it announces");
                router.no_leader();
            }
        },
    }
}

/// A connection with keep-alives, so that its loss is noticed soon even while it is idle.
fn with_keepalive(endpoint: Endpoint) -> Endpoint {
    endpoint
        .connect_timeout(LEADER_TIMEOUT)
        .http2_keep_alive_interval(KEEPALIVE_INTERVAL)
        .keep_alive_timeout(LEADER_TIMEOUT)
        .keep_alive_while_idle(true)
}

/// Transfers leadership before this server ends. If that fails, the others elect a leader after the
/// election timeout.
pub(crate) async fn transfer_leadership(node: &Node) {
    let has_others = |status: &ClusterStatus| status.is_leader && status.members.len() > 1;
    if !node.cluster().is_some_and(|status| has_others(&status.borrow())) {
        return;
    }
    if let Err(error) = node.transfer_leadership(None, LEADER_TIMEOUT).await {
        tracing::warn!(%error, "leadership was not transferred");
    }
}
