//! A server in a cluster: its node on the shared journal, and who its requests are passed on to.

mod join;
mod reach;
mod report;

use std::time::{Duration, Instant};

use tonic::transport::Endpoint;
use vetch_nats::{NatsError, NatsLog, Options, Unsafe};
use vetch_node::Node;
use vetch_node::cluster::{ClusterConfig, ClusterStatus};
use vetch_node::config::NodeConfig;
use vetch_node::error::OpenError;
use vetch_node::fence::Config;
use vetch_node::types::Progress;
use vetch_server::grpc::{self, StandIn};

use crate::serve::StartError;

pub(crate) use reach::Reach;
pub(crate) use report::report;

/// How soon a writer that does not answer is noticed by those who pass requests on to it.
const PING: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(2);

/// How long a start waits for a journal that does not answer: machines that boot together come up
/// in any order.
const START_PATIENCE: Duration = Duration::from_secs(120);
const START_PAUSE: Duration = Duration::from_secs(1);
/// How long the last servers of a journal are waited for when most of them are there.
const MOST_PATIENCE: Duration = Duration::from_secs(4);

/// How often a checkpoint is taken over from another server before a start is given up: the journal
/// may be trimmed beyond the first ones, too.
const CHECKPOINTS: usize = 5;

/// Blocks until the journal has been read, from a checkpoint of another server if there is no other
/// way.
pub(crate) fn open(
    config: NodeConfig,
    journal: &Options,
    read_lease: Duration,
    server: &grpc::Settings,
    others: &Reach,
    mut progress: impl FnMut(Progress),
) -> Result<Node, StartError> {
    let cluster = ClusterConfig {
        name: server.name.clone(),
        client_urls: server.client_urls.clone(),
        peer_urls: server.peer_urls.clone(),
        fence: Config { lease: read_lease, ..Config::default() },
    };
    let mut taken = 0;
    let mut journal = journal.clone();
    loop {
        let log = reach(&journal)?;
        // They have been looked at.
        journal.most_are_enough = true;
        for found in log.unsafe_settings() {
            tracing::warn!(%found, "the journal may lose acknowledged writes (--unsafe-journal)");
        }
        match Node::open_shared(config.clone(), cluster.clone(), Box::new(log), &mut progress) {
            Err(OpenError::Behind { first }) if taken < CHECKPOINTS => {
                tracing::info!(first, "the journal begins behind what this server has");
                join::take_checkpoint(&config.data_dir, config.proposed.member_id, &journal, others)?;
                taken += 1;
            }
            opened => return Ok(opened?),
        }
    }
}

/// Waits for a journal that cannot be reached yet, or some of whose servers are away, so that
/// nobody knows how they are set up. One that answers and is not fit for use is refused at once.
pub(crate) fn reach(journal: &Options) -> Result<NatsLog, NatsError> {
    let deadline = Instant::now() + START_PATIENCE;
    let enough = Instant::now() + MOST_PATIENCE;
    let mut journal = journal.clone();
    loop {
        match NatsLog::open(&journal) {
            Err(error @ (NatsError::Connect(_) | NatsError::Stream { .. }))
                if !error.to_string().contains("authorization") && Instant::now() < deadline =>
            {
                tracing::warn!(%error, "the journal does not answer yet; trying again");
                std::thread::sleep(START_PAUSE);
            }
            Err(NatsError::Unsafe(found))
                if !journal.most_are_enough
                    && found.iter().all(Unsafe::most_were_seen)
                    && Instant::now() >= enough =>
            {
                tracing::warn!("not all servers of the journal answer; going on with most of them");
                journal.most_are_enough = true;
            }
            Err(NatsError::Unsafe(found)) if some_are_away(&found) && Instant::now() < deadline => {
                tracing::warn!("not all servers of the journal answer yet; trying again");
                std::thread::sleep(START_PAUSE);
            }
            other => return other,
        }
    }
}

/// Whether nothing is wrong but that some servers, not all, did not answer.
fn some_are_away(found: &[Unsafe]) -> bool {
    found.iter().all(|found| matches!(found, Unsafe::Unknown { seen: 1.., .. }))
}

/// Passes what only the writer can answer on to whoever writes, until the node ends.
///
/// `own_urls` are the addresses that this server announces.
pub(crate) async fn follow_writer(node: Node, stand_in: StandIn, others: Reach, own_urls: Vec<String>) {
    let Some(mut status) = node.cluster() else { return };
    let (mut known, me) = (None, node.identity().member_id);
    loop {
        let now = place(&status.borrow_and_update(), me, &own_urls);
        if known.as_ref() != Some(&now) {
            point(&stand_in, &now, &others);
            known = Some(now);
        }
        let is_unknown = known == Some(Place::Unknown);
        tokio::select! {
            changed = status.changed() => if changed.is_err() { return },
            // Mostly somebody says that it writes within this time, so those who ask may wait for
            // it.
            () = tokio::time::sleep(PATIENCE), if is_unknown => {
                stand_in.no_writer();
                tokio::select! {
                    changed = status.changed() => if changed.is_err() { return },
                    _ = node.stopped() => return,
                }
            }
            _ = node.stopped() => return stand_in.no_writer(),
        }
    }
}

#[derive(PartialEq)]
enum Place {
    Here,
    At(String),
    /// It announces an address of this server, so that requests would come back.
    SameAddress(String),
    Unknown,
}

fn place(status: &ClusterStatus, me: u64, own_urls: &[String]) -> Place {
    match &status.writer {
        _ if status.handing_over => Place::Unknown,
        _ if status.is_writer => Place::Here,
        // What it wrote before a restart: it would pass requests on to itself.
        Some(writer) if writer.member == me => Place::Unknown,
        Some(writer) if own_urls.contains(&writer.url) => Place::SameAddress(writer.url.clone()),
        Some(writer) => Place::At(writer.url.clone()),
        None => Place::Unknown,
    }
}

fn point(stand_in: &StandIn, place: &Place, others: &Reach) {
    match place {
        Place::Here => stand_in.take_over(),
        Place::Unknown => stand_in.wait(),
        Place::SameAddress(url) => {
            tracing::error!(
                url,
                "the leader announces the address of this server; nothing is forwarded to it"
            );
            stand_in.no_writer();
        }
        Place::At(url) => match others.lazily(url, watched) {
            Ok(channel) if Reach::is_secure(url) => stand_in.pass_to_securely(channel),
            Ok(channel) => stand_in.pass_to(channel),
            Err(error) => {
                tracing::error!(url, error, "the writer cannot be reached at the address it announces");
                stand_in.no_writer();
            }
        },
    }
}

/// A connection whose end is noticed soon, whether anything is asked on it or not.
fn watched(endpoint: Endpoint) -> Endpoint {
    endpoint
        .connect_timeout(PATIENCE)
        .http2_keep_alive_interval(PING)
        .keep_alive_timeout(PATIENCE)
        .keep_alive_while_idle(true)
}

/// Lets another server write before this one ends. Should that fail, the others notice when it
/// falls silent.
pub(crate) async fn hand_over(node: &Node) {
    let has_others = |status: &ClusterStatus| status.is_writer && status.members.len() > 1;
    if !node.cluster().is_some_and(|status| has_others(&status.borrow())) {
        return;
    }
    if let Err(error) = node.hand_over(None, PATIENCE).await {
        tracing::warn!(%error, "nobody was handed over to");
    }
}
