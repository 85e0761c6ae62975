//! Open: from a data directory to a running node.
//!
//! Take the directory, load the newest checkpoint, replay the journal behind it, claim a new epoch,
//! start the threads. `shared` does the same for a journal that several servers share.

pub(crate) mod shared;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crossbeam_channel::bounded;
use tokio::sync::{Semaphore, watch};
use vetch_journal::{Disk, Entry, Journal, LocalConfig, LocalJournal, Position, RealDisk, Tip};
use vetch_store::load::History;
use vetch_store::request::AlarmKind;
use vetch_store::{Record, Store};
use vetch_watch::{EventLog, Events, Hub};

use crate::admission::Admission;
use crate::archive::RetentionHold;
use crate::auth::DurableAuth;
use crate::cluster::Cluster;
use crate::commit::Committer;
use crate::config::NodeConfig;
use crate::error::OpenError;
use crate::handle::{Node, Threads};
use crate::key_usage::KeyUsage;
use crate::lease::LEASE_LISTS_MAX;
use crate::lessor::Lessor;
use crate::metrics::NodeMetrics;
use crate::pins::ReadPins;
use crate::queue::{self, Receiver, Sender};
use crate::runtime::fan_out::FanOut;
use crate::runtime::housekeeping::{Capturing, Housekeeping};
use crate::runtime::journal_loop::{InlineCommit, JournalLoop, JournalPart};
use crate::runtime::lease_thread::LeaseThread;
use crate::runtime::sequencer_loop::{RoundOutput, SequencerLoop};
use crate::runtime::{Urgency, spawn};
use crate::scrub::Scrub;
use crate::sequencer::{Batch, Sequencer};
use crate::state::{Command, HousekeepingBell, NodeState, Reply, RunState};
use crate::stepped::Parts;
use crate::sync::{Mutex, RwLock};
use crate::time::{Monotonic, Time};
use crate::types::Progress;
use crate::watch::NodeEvent;
use vetch_checkpoint::identity::{Identity, load_or_create};
use vetch_checkpoint::replay;
use vetch_checkpoint::{Checkpointer, Loaded};

/// Positions the journal may be asked to trim to before it takes notice.
const TRIM_QUEUE: usize = 16;

/// Everything recovery found.
struct Recovered {
    store: Store,
    /// What happened before the checkpoint and may still be watched.
    history: History,
    /// What happened behind it.
    revisions: Vec<(i64, Events<NodeEvent>)>,
    /// Records that are in the journal and not yet in a checkpoint.
    dirty: Vec<Record>,
    /// None if it is shared.
    journal: Option<LocalJournal>,
    tip: Tip,
    checkpointer: Checkpointer,
}

/// How long housekeeping waits for a place in the sequencer's queue, on a thread of its own.
const ENQUEUE_TIMEOUT: Duration = Duration::from_millis(100);

impl Node {
    /// Recovers the data directory and starts the node's threads. Blocks until the node can serve.
    pub fn open(config: NodeConfig, progress: impl FnMut(Progress)) -> Result<Node, OpenError> {
        let (node, mut parts) = assemble(Arc::new(RealDisk), Arc::new(Monotonic::new()), config, progress)?;
        parts.housekeeping.enqueue_timeout = ENQUEUE_TIMEOUT;
        let threads = start(parts, JournalPart::run);
        Ok(Node::new(node, threads))
    }
}

/// Recovers the data directory and makes the parts of a node, at rest.
pub(crate) fn assemble(
    disk: Arc<dyn Disk>,
    time: Arc<dyn Time>,
    config: NodeConfig,
    mut progress: impl FnMut(Progress),
) -> Result<(Arc<NodeState>, Parts), OpenError> {
    let member = config.data_dir.join("member");
    disk.create_dir_all(&member).map_err(|source| OpenError::Io {
        op: "creating",
        path: member.display().to_string(),
        source,
    })?;
    let lock = disk.lock_dir(&member)?;
    let identity = load_or_create(disk.as_ref(), &member, config.proposed)?;
    let mut recovered = recover(&disk, &config, &mut progress)?;
    let local = recovered.journal.take().expect("a local journal was recovered");
    let (node, assembled) = connect(config, identity, time, recovered, Some(&local), None);
    let journal = JournalPart::new(JournalLoop {
        node: Arc::clone(&node),
        committer: Committer::new(&node),
        batches: assembled.batches,
        trims: Some(assembled.trims),
        journal: local,
        waiting: None,
        noted: None,
        _lock: lock,
    });
    let AssembledParts { mut sequencer, housekeeping, fan_out, lease_thread, .. } = assembled;
    sequencer.inline_commit = journal.inline_commit();
    Ok((node, Parts { sequencer, journal, housekeeping, fan_out, lease_thread }))
}

/// The newest checkpoint.
fn load(
    disk: &Arc<dyn Disk>,
    config: &NodeConfig,
    progress: &mut dyn FnMut(Progress),
) -> Result<Loaded, OpenError> {
    let mut report = |bytes_done, bytes_total| progress(Progress::Checkpoint { bytes_done, bytes_total });
    let loaded = vetch_checkpoint::load(
        Arc::clone(disk),
        &config.data_dir.join("member").join("checkpoint"),
        config.tuning.checkpoint,
        config.tuning.recovery_threads,
        &config.keys,
        &mut report,
    )?;
    if let Some(why) = &loaded.report.fell_back {
        progress(Progress::Note(format!("the newest checkpoint was passed over: {why}")));
    }
    loaded.report.notes.iter().for_each(|note| progress(Progress::Note(note.clone())));
    Ok(loaded)
}

fn recover(
    disk: &Arc<dyn Disk>,
    config: &NodeConfig,
    progress: &mut dyn FnMut(Progress),
) -> Result<Recovered, OpenError> {
    let mut recovered = replayed(disk, config, progress)?;
    let journal = recovered.journal.as_mut().expect("a local journal was recovered");
    recovered.tip = journal.claim()?;
    Ok(recovered)
}

/// The state that the directory of a server on a journal of its own holds, as it was left.
fn replayed(
    disk: &Arc<dyn Disk>,
    config: &NodeConfig,
    progress: &mut dyn FnMut(Progress),
) -> Result<Recovered, OpenError> {
    let member = config.data_dir.join("member");
    let mut loaded = load(disk, config, progress)?;
    if loaded.position > 0 {
        return Err(OpenError::Shared(config.data_dir.display().to_string()));
    }
    let local = LocalConfig {
        segment_len: config.journal_segment_bytes,
        spares: config.tuning.spare_segments,
        unsafe_no_fsync: config.unsafe_no_fsync,
        new_journal_id: config.tuning.new_journal_id,
        keys: config.keys.clone(),
    };
    let recovery = LocalJournal::recover(Arc::clone(disk), &member.join("journal"), local, loaded.tip)?;
    let mut tail =
        Tail { store: std::mem::take(&mut loaded.store), revisions: Vec::new(), dirty: Vec::new() };
    let journal = tail.replay(recovery, progress)?;
    // What the checkpoint before the newest would have to replay must be readable too.
    let oldest = loaded.checkpointer.journal_needed_from().unwrap_or(loaded.tip);
    journal.check_keys(Position(oldest.seq + 1))?;
    let tip = *journal.tip();
    assert!(tip.next_rev == tail.store.head().revision + 1, "journal and store agree on the next revision");
    let mark = tail.store.head();
    tail.store.publish(mark);
    let Tail { store, revisions, dirty } = tail;
    let Loaded { history, checkpointer, .. } = loaded;
    Ok(Recovered { store, history, revisions, dirty, journal: Some(journal), tip, checkpointer })
}

/// The state while the journal's tail is replayed into it.
struct Tail {
    store: Store,
    revisions: Vec<(i64, Events<NodeEvent>)>,
    dirty: Vec<Record>,
}

impl Tail {
    fn replay(
        &mut self,
        mut recovery: vetch_journal::Recovery,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<LocalJournal, OpenError> {
        while let Some(item) = recovery.next_entry()? {
            self.apply(&item.entry).map_err(|source| OpenError::Replay { seq: item.entry.seq, source })?;
            let read = recovery.progress();
            progress(Progress::Journal { bytes_done: read.done, bytes_total: read.total });
        }
        let (journal, report) = recovery.finish()?;
        if let Some(cut) = report.cut {
            progress(Progress::Note(format!(
                "cut an unacknowledged write that a power loss had torn: {} bytes of {} at {}: {}",
                cut.bytes, cut.file, cut.offset, cut.reason
            )));
        }
        Ok(journal)
    }

    fn apply(&mut self, entry: &Entry) -> Result<(), vetch_store::BadCommand> {
        for unit in replay::replay(&mut self.store, entry)? {
            self.dirty.extend(unit.events.iter().map(|event| event.kv.clone()));
            let events: Vec<NodeEvent> = unit.events.into_iter().map(NodeEvent).collect();
            self.revisions.push((unit.revision, events.into()));
        }
        Ok(())
    }
}

/// Groups events, which come in revision order, by their revision.
fn by_revision(history: History) -> impl Iterator<Item = (i64, Events<NodeEvent>)> {
    let mut events = history.into_events().map(|(revision, event)| (revision, NodeEvent(event))).peekable();
    std::iter::from_fn(move || {
        let (revision, first) = events.next()?;
        let is_of_it = |(other, _): &(i64, NodeEvent)| *other == revision;
        let Some((_, second)) = events.next_if(is_of_it) else {
            return Some((revision, Events::One(first)));
        };
        let mut group = vec![first, second];
        while let Some((_, event)) = events.next_if(is_of_it) {
            group.push(event);
        }
        Some((revision, group.into()))
    })
}

/// The parts of a node but for the journal's, and where that one's work comes from.
struct AssembledParts {
    sequencer: SequencerLoop,
    housekeeping: Housekeeping,
    fan_out: FanOut,
    lease_thread: LeaseThread,
    batches: Receiver<Batch<Reply>>,
    trims: crossbeam_channel::Receiver<Position>,
}

/// Builds what the parts share, and the parts around it.
fn connect(
    config: NodeConfig,
    identity: Identity,
    time: Arc<dyn Time>,
    found: Recovered,
    local: Option<&LocalJournal>,
    cluster: Option<Cluster>,
) -> (Arc<NodeState>, AssembledParts) {
    let (commands, commands_in) = queue::bounded(config.queue_depth);
    let (batches, batches_in) = queue::bounded(config.appends_in_flight);
    let (trims, trims_in) = bounded(TRIM_QUEUE);
    let (bell, bell_in) = bounded(1);
    let (fan_out_bell, fan_out_in) = queue::bounded(1);
    let sequencer = Sequencer::new(found.tip, cluster.is_some(), found.dirty);
    let alarmed = found.store.alarms().any(|alarm| alarm.kind == AlarmKind::NoSpace);
    let admission = Admission::new(identity.member_id, config.quota(), alarmed);
    let admission = match &cluster {
        None => admission,
        Some(cluster) => admission.in_cluster(cluster.largest_request as u64),
    };
    let started = time.now();
    let segments_by_key = local.map(LocalJournal::segments_by_key).unwrap_or_default();
    let key_usage = KeyUsage::new(config.keys.clone(), segments_by_key, found.checkpointer.files_by_key());
    let recovered = RecoveredState {
        store: found.store,
        history: found.history,
        revisions: found.revisions,
        tip: found.tip,
        key_usage,
        cluster,
    };
    let retention = RetentionHold::new(config.archive_limit, &found.tip, found.checkpointer.pins());
    let node = share(
        config,
        identity,
        time,
        recovered,
        retention,
        PartHandles { commands, bell, fan_out: fan_out_bell },
    );
    node.fresh_bytes.store(sequencer.fresh_bytes(), Ordering::Relaxed);
    node.active_room.store(local.map_or(0, LocalJournal::room), Ordering::Relaxed);
    node.checkpoint_bytes.store(found.checkpointer.disk_bytes(), Ordering::Relaxed);
    let segments = local.map_or(0, LocalJournal::segments) as u64 * node.config.journal_segment_bytes;
    node.journal_bytes.store(segments, Ordering::Relaxed);
    let mut checkpointer = found.checkpointer;
    let hurry_state = Arc::clone(&node);
    checkpointer
        .set_should_hurry(Arc::new(move || hurry_state.is_stride_done() || hurry_state.is_stopping()));
    let journal_dir = local.map(|_| node.config.data_dir.join("member").join("journal"));
    let scrub = Scrub::new(checkpointer.disk(), journal_dir, node.config.scrub_interval);
    let housekeeping = Housekeeping {
        node: Arc::clone(&node),
        bell: bell_in,
        trims,
        nudge: batches_in.nudge(),
        maintenance: local.map(LocalJournal::maintenance),
        checkpointer,
        last_checkpoint: started,
        not_before: None,
        failed: false,
        is_verifying: false,
        damaged_journal: None,
        scrub,
        trimmed: 0,
        capture: Capturing::No,
        enqueue_timeout: Duration::ZERO,
    };
    let sequencer = SequencerLoop {
        node: Arc::clone(&node),
        commands: commands_in,
        batches,
        inline_commit: InlineCommit::default(),
        short_batches: 0,
        group_commit_window: None,
        sequencer,
        admission,
        output: RoundOutput::default(),
    };
    let fan_out = FanOut { node: Arc::clone(&node), bell: fan_out_in, more: false };
    let lease_thread =
        LeaseThread { node: Arc::clone(&node), last_record: started, last_prefix_turn: started };
    node.housekeeping.ring();
    (
        node,
        AssembledParts {
            sequencer,
            housekeeping,
            fan_out,
            lease_thread,
            batches: batches_in,
            trims: trims_in,
        },
    )
}

/// The state that recovery found, for everybody.
struct RecoveredState {
    store: Store,
    history: History,
    revisions: Vec<(i64, Events<NodeEvent>)>,
    tip: Tip,
    key_usage: KeyUsage,
    cluster: Option<Cluster>,
}

/// Where the parts are reached.
struct PartHandles {
    commands: Sender<Command>,
    bell: crossbeam_channel::Sender<()>,
    fan_out: Sender<()>,
}

fn share(
    config: NodeConfig,
    identity: Identity,
    time: Arc<dyn Time>,
    recovered: RecoveredState,
    retention: RetentionHold,
    handles: PartHandles,
) -> Arc<NodeState> {
    let mark = recovered.store.head();
    let floor = mark.compact_revision.max(0);
    Arc::new(NodeState {
        identity,
        epoch: recovered.tip.epoch,
        started: time.now(),
        time,
        lessor: Mutex::new(start_lease_timers(&recovered.store)),
        auth: DurableAuth::new(Arc::clone(recovered.store.auth())),
        alarms: RwLock::new(recovered.store.alarms().collect()),
        retention,
        store: RwLock::new(recovered.store),
        log: RwLock::new(EventLog::load(
            floor,
            mark.revision,
            by_revision(recovered.history).chain(recovered.revisions),
        )),
        hub: RwLock::new(Hub::new(config.tuning.ring, mark.revision)),
        streams: Mutex::new(HashMap::new()),
        closing: Mutex::default(),
        prefixes: Mutex::default(),
        commit_times: Mutex::default(),
        metrics: NodeMetrics::default(),
        key_usage: recovered.key_usage,
        commands: handles.commands,
        queued_bytes: AtomicU64::new(0),
        revision: AtomicI64::new(mark.revision),
        durable: watch::Sender::new(recovered.tip.seq),
        fresh_bytes: AtomicU64::new(0),
        checkpoint_stride: AtomicU64::new(config.checkpoint_bytes),
        disk_full: AtomicBool::new(false),
        disk_fails: AtomicBool::new(false),
        damage: Mutex::default(),
        active_room: AtomicU64::new(0),
        spare_room: AtomicU64::new(0),
        checkpoint_bytes: AtomicU64::new(0),
        journal_bytes: AtomicU64::new(0),
        housekeeping: HousekeepingBell { bell: handles.bell },
        fan_out: handles.fan_out,
        collecting_snapshots: AtomicUsize::new(0),
        pins: ReadPins::default(),
        lease_lists: Semaphore::new(LEASE_LISTS_MAX),
        freed: watch::Sender::new(-1),
        past_hashes: Mutex::default(),
        following: AtomicBool::new(config.follow || recovered.cluster.is_some()),
        leadership_count: AtomicU64::new(0),
        cluster: recovered.cluster,
        stopping: AtomicBool::new(false),
        run_state: watch::Sender::new(RunState::Running),
        config,
    })
}

/// Gives each part its thread; `run` is how the journal's works.
fn start<J: Send + 'static>(parts: Parts<J>, run: fn(J)) -> Threads {
    let Parts { sequencer, journal, housekeeping, fan_out, lease_thread } = parts;
    let (lease_thread_stop, lease_thread_stop_in) = bounded(0);
    let handles = vec![
        spawn("sequencer", Urgency::High, move || sequencer.run()),
        spawn("journal", Urgency::High, move || run(journal)),
        spawn("housekeeping", Urgency::Low, move || housekeeping.run()),
        spawn("leases", Urgency::Usual, move || lease_thread.run(&lease_thread_stop_in)),
    ];
    // Ends by itself soon after the node; nothing depends on when.
    drop(spawn("fan-out", Urgency::Usual, move || fan_out.run()));
    Threads { lease_thread_stop: Some(lease_thread_stop), handles }
}

fn start_lease_timers(store: &Store) -> Lessor {
    let mut lessor = Lessor::default();
    for (id, lease) in store.leases().iter() {
        lessor.start(id, lease.grant(), lease.ttl(), lease.remaining(), 0);
    }
    lessor
}
