//! Parts: the threads of a node, before they run.

use super::fan_out::FanOut;
use super::housekeeping::Housekeeping;
use super::journal_loop::JournalPart;
use super::lease_thread::LeaseThread;
use super::log_loop::ReplicatedLogLoop;
use super::sequencer_loop::SequencerLoop;

/// What would be the threads of a node, with a journal of its own unless another kind is named.
pub struct Parts<J = JournalPart> {
    pub sequencer: SequencerLoop,
    pub journal: J,
    pub housekeeping: Housekeeping,
    pub fan_out: FanOut,
    pub lease_thread: LeaseThread,
}

/// The same on a replicated journal. Its step never ends before the node does: call it in a loop.
pub type ReplicatedParts = Parts<ReplicatedLogLoop>;
