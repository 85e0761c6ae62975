//! From a data directory and a replicated journal to a running node.
//!
//! Loads the newest checkpoint, follows the log behind it, and waits until everything in the log
//! has been read. The leader is elected in the log after that.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};
use std::time::Duration;

use crossbeam_channel::bounded;
use tokio::sync::watch;
use vetch_checkpoint::identity;
use vetch_checkpoint::transfer::remove_unfinished;
use vetch_cluster::{Engine, LogIndex, ReplicaId, Start};
use vetch_journal::{Disk, Position, RealDisk, Tip};
use vetch_members::{Leader, Member, MemberRegistry, PeerTable};
use vetch_store::Store;
use vetch_sync::Mutex;

use super::{AssembledParts, Recovered, connect, load, start};
use crate::cluster::{Cluster, ClusterConfig, ClusterStatus, ReadQueue};
use crate::commit::Committer;
use crate::config::NodeConfig;
use crate::error::OpenError;
use crate::handle::Node;
use crate::runtime::ReplicatedParts;
use crate::runtime::log_loop::{ReplicatedLogLoop, Work};
use crate::state::{NodeState, RunState};
use crate::time::{Monotonic, Sleepless, Time};
use crate::types::Progress;

/// Reports of other servers that wait for the journal thread.
const REPORTS_MAX: usize = 64;

/// The size of records that a log must take: a batch, and the request that made it too large.
const RECORD_MIN: usize = 4 << 20;
/// Overhead of an entry beside its effects.
const RECORD_OVERHEAD: usize = 4 << 10;
/// Commands about members that wait for the journal thread.
const MEMBER_COMMANDS_MAX: usize = 256;
/// How often to check whether the log has been read.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Progress is reported every so many polls.
const POLLS_PER_NOTE: u32 = 500;

impl Node {
    /// Recovers the data directory, and follows the log from there. Blocks until everything in the
    /// log has been read.
    pub fn open_replicated(
        config: NodeConfig,
        cluster: ClusterConfig,
        engine: Box<dyn Engine>,
        mut progress: impl FnMut(Progress),
    ) -> Result<Node, OpenError> {
        let node = follow(config, cluster, engine, &mut progress)?;
        let mut polls = 0;
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
            std::thread::sleep(POLL_INTERVAL);
            polls += 1;
            if polls % POLLS_PER_NOTE == 0 {
                progress(Progress::Note(progress_note(&node)));
            }
        }
        Ok(node)
    }
}

fn progress_note(node: &Node) -> String {
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
    engine: Box<dyn Engine>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Node, OpenError> {
    let incarnation = RandomState::new().hash_one(std::process::id());
    let (time, steady) = (Arc::new(Monotonic::new()), Arc::new(Sleepless::new()));
    let env = Env { disk: Arc::new(RealDisk), time, steady, incarnation };
    let (node, parts) = assemble(env, config, cluster, engine, progress)?;
    Ok(Node::new(node, start(parts, ReplicatedLogLoop::run)))
}

/// The environment of a server.
pub struct Env {
    pub disk: Arc<dyn Disk>,
    /// Times the leases of clients.
    pub time: Arc<dyn Time>,
    /// Times elections and read leases: it goes on while the machine is suspended.
    pub steady: Arc<dyn Time>,
    /// Drawn at random at every start.
    pub incarnation: u64,
}

/// Recovers the data directory and makes the parts of a node on a shared journal, at rest.
pub(crate) fn assemble(
    env: Env,
    mut config: NodeConfig,
    cluster: ClusterConfig,
    engine: Box<dyn Engine>,
    progress: &mut dyn FnMut(Progress),
) -> Result<(Arc<NodeState>, ReplicatedParts), OpenError> {
    let Env { disk, time, steady, incarnation } = env;
    let member = config.data_dir.join("member");
    disk.create_dir_all(&member).map_err(|source| OpenError::Io {
        op: "creating",
        path: member.display().to_string(),
        source,
    })?;
    let lock = disk.lock_dir(&member)?;
    remove_unfinished(&member)?;
    let identity = identity::load_or_create(disk.as_ref(), &member, config.proposed)?;
    let loaded = load(&disk, &config, progress)?;
    let has_journal = member.join("journal").exists();
    // A server that had read nothing when it took a checkpoint, as one does whose log is full,
    // begins like a new one.
    let is_empty = loaded.tip == Tip::genesis(Store::default().head().revision + 1);
    if has_journal || (loaded.position == 0 && loaded.report.number.is_some() && !is_empty) {
        return Err(OpenError::NotShared(config.data_dir.display().to_string()));
    }
    let start = LogIndex { position: Position(loaded.position), tip: loaded.tip };
    let me = ReplicaId { member: identity.member_id, incarnation };
    let clock = Arc::clone(&steady);
    let log = engine.begin(Start { me, index: start, clock: Box::new(move || clock.now()) })?;
    let max = log.max_record();
    if max < RECORD_MIN {
        return Err(OpenError::SmallRecords { max, wanted: 2 * RECORD_MIN });
    }
    // A record holds a batch and the request that closed it: the values that this one sent, and as
    // much again that it keeps.
    config.tuning.batch.bytes = config.tuning.batch.bytes.min(max / 8);
    let request_max = (max - config.tuning.batch.bytes) / 2 - RECORD_OVERHEAD;
    let mut store = loaded.store;
    let mark = store.head();
    store.publish(mark);
    store.limit_kept_values(request_max);
    let recovered = Recovered {
        store,
        history: loaded.history,
        revisions: Vec::new(),
        dirty: Vec::new(),
        journal: None,
        tip: loaded.tip,
        checkpointer: loaded.checkpointer,
    };
    let (reads, reads_in) = ReadQueue::new(config.queue_depth, steady);
    let (member_commands, member_commands_in) = bounded(MEMBER_COMMANDS_MAX);
    let (reports, reports_in) = bounded(REPORTS_MAX);
    let ClusterConfig { name, client_urls, peer_urls } = cluster;
    let url = client_urls.first().cloned().unwrap_or_default();
    let as_member = Member { id: identity.member_id, incarnation, name, client_urls, peer_urls };
    let registry = MemberRegistry::load(Arc::clone(&disk), member, as_member.clone());
    let (members, key) = (registry.members(), registry.key());
    let part = Arc::new(Cluster {
        reads,
        status: watch::Sender::new(ClusterStatus { members, key, ..ClusterStatus::default() }),
        member_commands,
        me: as_member,
        reports,
        info: Mutex::default(),
        url: url.clone(),
        request_max,
        position: AtomicU64::new(start.position.0),
        must_checkpoint: AtomicBool::new(false),
        saved: AtomicI64::new(mark.revision),
    });
    let (node, rest) = connect(config, identity, time, recovered, None, Some(Arc::clone(&part)));
    let waker = log.waker();
    if let Some(waker) = &waker {
        reads_in.wake_with(waker);
        if log.pace().writes_wake {
            rest.batches.wakes(Arc::clone(waker));
        }
    }
    let auth = Arc::clone(node.store.read().auth());
    let is_from_start = start.position.0 == 0;
    let peers = if is_from_start { PeerTable::default() } else { PeerTable::incomplete(Duration::ZERO) };
    let journal = ReplicatedLogLoop {
        node: Arc::clone(&node),
        cluster: part,
        committer: Committer::new(&node),
        batches: rest.batches,
        reads: reads_in,
        member_commands: member_commands_in,
        reports: reports_in,
        log,
        registry,
        me: Leader { member: me.member, url },
        can_wake: waker.is_some(),
        work: Work::new(start.tip.seq, auth, peers),
        _lock: lock,
    };
    let AssembledParts { sequencer, housekeeping, fan_out, lease_thread, .. } = rest;
    Ok((node, ReplicatedParts { sequencer, journal, housekeeping, fan_out, lease_thread }))
}
