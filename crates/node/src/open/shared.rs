//! From a data directory and a shared journal to a running node.
//!
//! Load the newest checkpoint, begin to follow the log behind it, and wait until everything that
//! was there has been read. Who writes is decided after that, by the log.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};
use std::time::Duration;

use crossbeam_channel::bounded;
use tokio::sync::watch;
use vetch_cluster::{Driver, Log, LogIndex, ReplicaId};
use vetch_journal::{Disk, Position, RealDisk, Tip};
use vetch_store::Store;

use super::{AssembledParts, Recovered, connect, load, start};
use crate::cluster::{Cluster, ClusterConfig, ClusterStatus, Writer};
use crate::commit::Committer;
use crate::config::NodeConfig;
use crate::error::OpenError;
use crate::handle::Node;
use crate::members::Member;
use crate::read_index::Reads;
use crate::roster::Roster;
use crate::runtime::membership::Membership;
use crate::runtime::shared_loop::{SharedLoop, Work};
use crate::state::{NodeState, RunState};
use crate::stepped::SharedParts;
use crate::sync::Mutex;
use crate::time::{Monotonic, Sleepless, Time};
use crate::types::Progress;
use vetch_checkpoint::identity;
use vetch_checkpoint::transfer::remove_unfinished;

/// What other servers told and was not looked at yet.
const REPORTS: usize = 64;

/// The largest record that a log must take: a batch, and the request that made it too large.
const RECORD: usize = 4 << 20;
/// For what an entry consists of beside its effects.
const RECORD_ROOM: usize = 4 << 10;
/// What servers ask of the writer about members, waiting for its journal's thread.
const ORDERS: usize = 256;
/// Between two looks whether the log has been read.
const LOOK: Duration = Duration::from_millis(10);
/// A note about it this often.
const NOTE_EVERY: u32 = 500;

impl Node {
    /// Recovers the data directory, and follows the log from there. Blocks until everything in the
    /// log has been read.
    pub fn open_shared(
        config: NodeConfig,
        cluster: ClusterConfig,
        log: Box<dyn Log>,
        mut progress: impl FnMut(Progress),
    ) -> Result<Node, OpenError> {
        let node = follow(config, cluster, log, &mut progress)?;
        let mut looks = 0;
        while !node.state().cluster.as_ref().is_some_and(|cluster| cluster.status.borrow().caught_up) {
            let state = node.state().lifecycle.run_state();
            let ended = match state {
                RunState::Running | RunState::Stopped | RunState::Replaced => None,
                RunState::Behind(first) => Some(OpenError::Behind { first }),
                RunState::Failed(cause) => Some(OpenError::Ended(cause)),
            };
            if let Some(error) = ended {
                node.end();
                return Err(error);
            }
            std::thread::sleep(LOOK);
            looks += 1;
            if looks % NOTE_EVERY == 0 {
                progress(Progress::Note(told(&node)));
            }
        }
        Ok(node)
    }
}

fn told(node: &Node) -> String {
    let revision = node.revision();
    if node.cluster().is_some_and(|status| status.borrow().suspect) {
        return format!(
            "the journal seems to have lost records that this server, at revision {revision}, has read: waiting until it has \
             them again; see docs/cluster.md"
        );
    }
    format!("reading the journal; revision {revision} so far")
}

fn follow(
    config: NodeConfig,
    cluster: ClusterConfig,
    log: Box<dyn Log>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Node, OpenError> {
    let life = RandomState::new().hash_one(std::process::id());
    let (time, steady) = (Arc::new(Monotonic::new()), Arc::new(Sleepless::new()));
    let env = Env { disk: Arc::new(RealDisk), time, steady, life };
    let (node, parts) = assemble(env, config, cluster, log, progress)?;
    Ok(Node::new(node, start(parts, SharedLoop::run)))
}

/// What a server stands on.
pub struct Env {
    pub disk: Arc<dyn Disk>,
    /// For the leases of clients.
    pub time: Arc<dyn Time>,
    /// For who writes: it goes on while the machine sleeps.
    pub steady: Arc<dyn Time>,
    /// Drawn at random at every start.
    pub life: u64,
}

/// Recovers the data directory and makes the parts of a node on a shared journal, at rest.
pub(crate) fn assemble(
    env: Env,
    mut config: NodeConfig,
    cluster: ClusterConfig,
    log: Box<dyn Log>,
    progress: &mut dyn FnMut(Progress),
) -> Result<(Arc<NodeState>, SharedParts), OpenError> {
    let Env { disk, time, steady, life } = env;
    let member = config.data_dir.join("member");
    disk.create_dir_all(&member).map_err(|source| OpenError::Io {
        op: "creating",
        path: member.display().to_string(),
        source,
    })?;
    let lock = disk.lock_dir(&member)?;
    remove_unfinished(&member)?;
    let identity = identity::load_or_create(disk.as_ref(), &member, config.proposed)?;
    let max = log.max_record();
    if max < RECORD {
        return Err(OpenError::SmallRecords { max, wanted: 2 * RECORD });
    }
    // A record holds a batch and the request that closed it: what that one sent, and as much again
    // that it takes over.
    config.tuning.batch.bytes = config.tuning.batch.bytes.min(max / 8);
    let largest_request = (max - config.tuning.batch.bytes) / 2 - RECORD_ROOM;
    let loaded = load(&disk, &config, progress)?;
    let has_journal = member.join("journal").exists();
    // A server that had read nothing when it took a checkpoint, as one does whose journal is full,
    // begins like a new one.
    let is_empty = loaded.tip == Tip::genesis(Store::default().head().revision + 1);
    if has_journal || (loaded.position == 0 && loaded.report.number.is_some() && !is_empty) {
        return Err(OpenError::NotShared(config.data_dir.display().to_string()));
    }
    let start = LogIndex { position: Position(loaded.position), tip: loaded.tip };
    let mut store = loaded.store;
    let mark = store.head();
    store.publish(mark);
    store.limit_kept_values(largest_request);
    let recovered = Recovered {
        store,
        history: loaded.history,
        revisions: Vec::new(),
        dirty: Vec::new(),
        journal: None,
        tip: loaded.tip,
        checkpointer: loaded.checkpointer,
    };
    let (reads, reads_in) = Reads::new(config.queue_depth, Arc::clone(&steady));
    let (orders, orders_in) = bounded(ORDERS);
    let (reports, reports_in) = bounded(REPORTS);
    let ClusterConfig { name, client_urls, peer_urls, replication } = cluster;
    let url = client_urls.first().cloned().unwrap_or_default();
    let as_member = Member { id: identity.member_id, life, name, client_urls, peer_urls };
    let membership = Membership::load(Arc::clone(&disk), member, as_member.clone());
    let (members, key) = (membership.members(), membership.key());
    let part = Cluster {
        reads,
        status: watch::Sender::new(ClusterStatus { members, key, ..ClusterStatus::default() }),
        orders,
        me: as_member,
        reports,
        board: Mutex::default(),
        url: url.clone(),
        largest_request,
        position: AtomicU64::new(start.position.0),
        alone: AtomicBool::new(false),
        saved: AtomicI64::new(mark.revision),
    };
    let (node, rest) = connect(config, identity, time, recovered, None, Some(part));
    let waker = log.waker();
    if let Some(waker) = &waker {
        reads_in.wake(waker);
    }
    let me = ReplicaId { member: identity.member_id, incarnation: life };
    let auth = Arc::clone(node.store.read().auth());
    let is_from_start = start.position.0 == 0;
    let roster = if is_from_start { Roster::default() } else { Roster::unknown(Duration::ZERO) };
    let journal = SharedLoop {
        node: Arc::clone(&node),
        committer: Committer::new(&node),
        batches: rest.batches,
        reads: reads_in,
        orders: orders_in,
        reports: reports_in,
        driver: Driver::with_clock(log, replication, me, start, Box::new(move || steady.now())),
        membership,
        me: Writer { member: identity.member_id, url },
        is_woken: waker.is_some(),
        work: Work::new(start.tip.seq, auth, roster),
        _lock: lock,
    };
    let AssembledParts { sequencer, housekeeping, fan_out, lease_thread, .. } = rest;
    Ok((node, SharedParts { sequencer, journal, housekeeping, fan_out, lease_thread }))
}
