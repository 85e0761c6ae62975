//! Open: from a data directory to a running node.
//!
//! Take the directory, load the newest checkpoint, replay the journal behind it, claim a new epoch, start the threads.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};
use std::time::Instant;

use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;
use vetch_journal::{DirLock, Disk, Journal, LocalConfig, LocalJournal, Payload, RealDisk, Tip};
use vetch_store::request::{AlarmKind, Event};
use vetch_store::{Record, Store};
use vetch_watch::{EventLog, Events, Hub, RingLimit};

use crate::admission::Admission;
use crate::checkpoint::{self, CheckpointConfig, Checkpointer};
use crate::clock::Clock;
use crate::config::NodeConfig;
use crate::error::OpenError;
use crate::handle::{Node, Threads};
use crate::identity;
use crate::metrics::NodeMetrics;
use crate::runtime::housekeeping::Housekeeping;
use crate::runtime::journal_loop::JournalLoop;
use crate::runtime::sequencer_loop::SequencerLoop;
use crate::runtime::{clock_loop, fan_out, spawn};
use crate::sequencer::Sequencer;
use crate::shared::{Chores, RunState, Shared};
use crate::types::Progress;
use crate::watch::NodeEvent;

/// Segments kept ready. Two, so that when the disk fills up there is still one for deletes.
const SPARE_SEGMENTS: usize = 2;
/// Recent matches kept for each distinct watched range; a watcher further behind reads the event log.
const RING: RingLimit = RingLimit { revisions: 512, bytes: 256 << 10 };
/// Positions the journal may be asked to trim to before it takes notice.
const TRIM_QUEUE: usize = 16;

/// Everything recovery found.
struct Recovered {
    store: Store,
    revisions: Vec<(i64, Events<NodeEvent>)>,
    /// Records that are in the journal and not yet in a checkpoint.
    dirty: Vec<Record>,
    journal: LocalJournal,
    tip: Tip,
    checkpointer: Checkpointer,
}

impl Node {
    /// Recovers the data directory and starts the node's threads. Blocks until the node can serve.
    pub fn open(config: NodeConfig, mut progress: impl FnMut(Progress)) -> Result<Node, OpenError> {
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        let member = config.data_dir.join("member");
        disk.create_dir_all(&member).map_err(|source| OpenError::Io {
            op: "creating",
            path: member.display().to_string(),
            source,
        })?;
        let lock = disk.lock_dir(&member)?;
        let identity = identity::load_or_create(disk.as_ref(), &member, config.proposed)?;
        let recovered = recover(&disk, &config, &mut progress)?;
        Ok(start(config, identity, recovered, lock))
    }
}

fn recover(
    disk: &Arc<dyn Disk>,
    config: &NodeConfig,
    progress: &mut dyn FnMut(Progress),
) -> Result<Recovered, OpenError> {
    let member = config.data_dir.join("member");
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get());
    let mut tell = |bytes_done, bytes_total| progress(Progress::Checkpoint { bytes_done, bytes_total });
    let loaded = checkpoint::load(
        Arc::clone(disk),
        &member.join("checkpoint"),
        CheckpointConfig::default(),
        threads,
        &mut tell,
    )?;
    if let Some(why) = &loaded.report.fell_back {
        progress(Progress::Note(format!("the newest checkpoint was passed over: {why}")));
    }
    loaded.report.notes.iter().for_each(|note| progress(Progress::Note(note.clone())));
    let local = LocalConfig {
        segment_len: config.journal_segment_bytes,
        spares: SPARE_SEGMENTS,
        unsafe_no_fsync: config.unsafe_no_fsync,
        new_journal_id: None,
    };
    let recovery = LocalJournal::recover(Arc::clone(disk), &member.join("journal"), local, loaded.tip)?;
    let mut tail = Tail { store: loaded.store, revisions: by_revision(loaded.history), dirty: Vec::new() };
    let mut journal = tail.replay(recovery, progress)?;
    let tip = journal.claim()?;
    assert!(tip.next_rev == tail.store.head().revision + 1, "journal and store agree on the next revision");
    let mark = tail.store.head();
    tail.store.publish(mark);
    let Tail { store, revisions, dirty } = tail;
    Ok(Recovered { store, revisions, dirty, journal, tip, checkpointer: loaded.checkpointer })
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
            for part in &item.entry.parts {
                if let Payload::Inline(payload) = &part.payload {
                    self.apply(payload)
                        .map_err(|source| OpenError::Replay { seq: item.entry.seq, source })?;
                }
            }
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

    fn apply(&mut self, payload: &[u8]) -> Result<(), vetch_store::BadCommand> {
        for unit in self.store.replay(payload)? {
            self.dirty.extend(unit.events.iter().map(|event| event.kv.clone()));
            let events: Vec<NodeEvent> = unit.events.into_iter().map(NodeEvent).collect();
            self.revisions.push((unit.revision, events.into()));
        }
        Ok(())
    }
}

/// Groups events, which come in revision order, by their revision.
fn by_revision(history: Vec<Event>) -> Vec<(i64, Events<NodeEvent>)> {
    let mut revisions = Vec::new();
    let mut events = history.into_iter().map(NodeEvent).peekable();
    while let Some(first) = events.next() {
        let revision = first.0.kv.mod_revision();
        let mut group = vec![first];
        while let Some(event) = events.next_if(|event| event.0.kv.mod_revision() == revision) {
            group.push(event);
        }
        revisions.push((revision, group.into()));
    }
    revisions
}

fn start(config: NodeConfig, identity: crate::config::Identity, found: Recovered, lock: DirLock) -> Node {
    let mark = found.store.head();
    let (asks, asks_in) = crossbeam_channel::bounded(config.queue_depth);
    let (batches, batches_in) = crossbeam_channel::bounded(config.appends_in_flight);
    let (trims, trims_in) = crossbeam_channel::bounded(TRIM_QUEUE);
    let (bell, bell_in) = crossbeam_channel::bounded(1);
    let (fan_out_bell, fan_out_in) = crossbeam_channel::bounded(1);
    let (clock_stop, clock_stop_in) = crossbeam_channel::bounded(0);
    let floor = mark.compact_revision.max(0);
    let sequencer = Sequencer::new(found.tip, found.dirty);
    let alarmed = found.store.alarms().any(|alarm| alarm.kind == AlarmKind::NoSpace);
    let admission = Admission::new(identity.member_id, config.quota(), alarmed);
    let shared = Arc::new(Shared {
        identity,
        epoch: found.tip.epoch,
        started: Instant::now(),
        clock: Mutex::new(start_clock(&found.store)),
        store: RwLock::new(found.store),
        log: RwLock::new(EventLog::load(floor, mark.revision, found.revisions)),
        hub: RwLock::new(Hub::new(RING, mark.revision)),
        streams: Mutex::new(HashMap::new()),
        metrics: NodeMetrics::default(),
        asks,
        queued_bytes: AtomicU64::new(0),
        revision: AtomicI64::new(mark.revision),
        durable: watch::Sender::new(found.tip.seq),
        submitted: AtomicU64::new(found.tip.seq),
        fresh_bytes: AtomicU64::new(sequencer.fresh_bytes()),
        checkpoint_stride: AtomicU64::new(config.checkpoint_bytes),
        disk_full: AtomicBool::new(false),
        active_room: AtomicU64::new(found.journal.room()),
        spare_room: AtomicU64::new(0),
        checkpoint_bytes: AtomicU64::new(found.checkpointer.disk_bytes()),
        journal_bytes: AtomicU64::new(found.journal.segments() as u64 * config.journal_segment_bytes),
        chores: Chores { bell },
        fan_out: fan_out_bell,
        freed: watch::Sender::new(-1),
        stopping: AtomicBool::new(false),
        state: watch::Sender::new(RunState::Running),
        config,
    });
    let housekeeping = Housekeeping {
        shared: Arc::clone(&shared),
        bell: bell_in,
        trims,
        maintenance: found.journal.maintenance(),
        checkpointer: found.checkpointer,
        last_checkpoint: Instant::now(),
        not_before: None,
        failed: false,
        captured: None,
        lightened: -1,
    };
    let journal = JournalLoop {
        shared: Arc::clone(&shared),
        batches: batches_in,
        trims: trims_in,
        journal: found.journal,
    };
    let sequencing =
        SequencerLoop { shared: Arc::clone(&shared), asks: asks_in, batches, sequencer, admission };
    let (for_fan_out, for_clock) = (Arc::clone(&shared), Arc::clone(&shared));
    let handles = vec![
        spawn("sequencer", move || sequencing.run()),
        spawn("journal", move || {
            journal.run();
            // The directory stays taken until the last thread that writes to it has ended.
            drop(lock);
        }),
        spawn("housekeeping", move || housekeeping.run()),
        spawn("clock", move || clock_loop::run(&for_clock, &clock_stop_in)),
    ];
    // Ends by itself soon after the node; nothing depends on when.
    drop(spawn("fan-out", move || fan_out::run(&for_fan_out, &fan_out_in)));
    shared.chores.ring();
    Node::new(shared, Threads { clock_stop: Some(clock_stop), handles })
}

fn start_clock(store: &Store) -> Clock {
    let mut clock = Clock::default();
    for (id, lease) in store.leases().iter() {
        clock.start(id, lease.ttl(), lease.remaining(), 0);
    }
    clock
}
