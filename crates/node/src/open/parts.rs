//! Parts: what would be the threads of a node, at rest, around the state that they share.

use std::sync::Arc;

use crossbeam_channel::bounded;
use vetch_checkpoint::identity::Identity;
use vetch_journal::{LocalJournal, Position};
use vetch_store::request::AlarmKind;
use vetch_sync::queue::{self, Receiver};

use super::load::Recovered;
use crate::admission::Admission;
use crate::cluster::Cluster;
use crate::config::NodeConfig;
use crate::key_usage::KeyUsage;
use crate::retention::RetentionHold;
use crate::runtime::fan_out::FanOut;
use crate::runtime::housekeeping::{Housekeeping, Trimmer};
use crate::runtime::lease_thread::LeaseThread;
use crate::runtime::sequencer_loop::SequencerLoop;
use crate::scrub::Scrub;
use crate::sequencer::{Batch, Sequencer};
use crate::state::{NodeState, PartHandles, RecoveredState, Reply};
use crate::time::Time;

/// Trim positions that wait for the journal.
const TRIM_QUEUE: usize = 16;

/// The parts of a node except for the journal's, and the queues from which that one takes work.
pub(super) struct AssembledParts {
    pub(super) sequencer: SequencerLoop,
    pub(super) housekeeping: Housekeeping,
    pub(super) fan_out: FanOut,
    pub(super) lease_thread: LeaseThread,
    pub(super) batches: Receiver<Batch<Reply>>,
    pub(super) trims: crossbeam_channel::Receiver<Position>,
}

/// Makes the state of a node, and the parts around it. `local` is None on a shared journal.
pub(super) fn connect(
    config: NodeConfig,
    identity: Identity,
    time: Arc<dyn Time>,
    found: Recovered,
    local: Option<&LocalJournal>,
    cluster: Option<Arc<Cluster>>,
) -> (Arc<NodeState>, AssembledParts) {
    let (commands, commands_in) = queue::bounded(config.queue_depth);
    let (batches, batches_in) = queue::bounded(config.appends_in_flight);
    let (trims, trims_in) = bounded(TRIM_QUEUE);
    let (housekeeping, housekeeping_in) = bounded(1);
    let (fan_out, fan_out_in) = queue::bounded(1);
    let sequencer = Sequencer::new(found.tip.seq, found.dirty);
    let alarmed = found.store.alarms().any(|alarm| alarm.kind == AlarmKind::NoSpace);
    let admission = Admission::new(identity.member_id, config.quota(), alarmed);
    let admission = match &cluster {
        None => admission,
        Some(cluster) => admission.in_cluster(cluster.request_max as u64),
    };
    let segments_by_key = local.map(LocalJournal::segments_by_key).unwrap_or_default();
    let recovered = RecoveredState {
        log: Recovered::event_log(found.history, found.revisions, &found.store),
        retention: RetentionHold::new(config.archive_limit, &found.tip, found.checkpointer.pins()),
        key_usage: KeyUsage::new(config.keys.clone(), segments_by_key, found.checkpointer.files_by_key()),
        store: found.store,
        tip: found.tip,
        cluster,
    };
    let handles = PartHandles { commands, housekeeping, fan_out };
    let node = Arc::new(NodeState::new(config, identity, time, recovered, handles));
    node.disk.set_fresh_bytes(sequencer.fresh_bytes());
    node.disk.set_active_room(local.map_or(0, LocalJournal::room));
    node.disk.set_checkpoint_bytes(found.checkpointer.disk_bytes());
    let segments = local.map_or(0, LocalJournal::segments) as u64;
    node.disk.set_journal_bytes(segments * node.config.journal_segment_bytes);
    let mut checkpointer = found.checkpointer;
    let urgent = Arc::clone(&node);
    checkpointer.set_should_hurry(Arc::new(move || urgent.disk.is_stride_done() || urgent.is_stopping()));
    let journal_dir = local.map(|_| node.config.data_dir.join("member").join("journal"));
    let scrub = Scrub::new(checkpointer.disk(), journal_dir, node.config.scrub_interval);
    let trimmer = Trimmer::new(&node, trims, batches_in.nudge());
    let maintenance = local.map(LocalJournal::maintenance);
    let parts = AssembledParts {
        sequencer: SequencerLoop::new(&node, commands_in, batches, sequencer, admission),
        housekeeping: Housekeeping::new(&node, housekeeping_in, maintenance, checkpointer, scrub, trimmer),
        fan_out: FanOut::new(&node, fan_out_in),
        lease_thread: LeaseThread::new(&node),
        batches: batches_in,
        trims: trims_in,
    };
    node.housekeeping.ring();
    (node, parts)
}
