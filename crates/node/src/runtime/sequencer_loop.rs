//! The sequencer's thread: waits for commands, evaluates a round of them (`round.rs`), and sends
//! the resulting batches to the journal.
//!
//! **Inline commit.** While batches are short and nothing is in flight, this thread appends and
//! commits a batch itself: few clients are answered sooner without a thread switch.
//!
//! **Group commit window.** A sync costs the processor more than a request does, and the first
//! request after a sync would get the next one to itself. So after an inline commit this thread
//! waits for most of the clients that took part in it, for no longer than a few syncs take. A
//! single client never waits.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{TryRecvError, TrySendError};
use vetch_journal::Draft;
use vetch_sync::queue::{Receiver, Sender};

use crate::admission::Admission;
use crate::runtime::Step;
use crate::runtime::journal_loop::InlineCommit;
use crate::sequencer::{Batch, Sequencer};
use crate::state::{Command, NodeState, Reply};

/// Short batches in a row after which the next ones are likely to be short as well.
const INLINE_AFTER_SHORT_BATCHES: usize = 8;

/// A batch of more bytes is not short, however few requests it has: writing it is worth a thread
/// switch.
const SHORT_BATCH_BYTES_MAX: usize = 256 << 10;

/// One in this many of the expected requests is not waited for.
const STRAGGLER_SHARE: usize = 8;
/// The length of the group commit window, in syncs, and its limit.
const GROUP_COMMIT_WINDOW_SYNCS: u32 = 3;
const GROUP_COMMIT_WINDOW_MAX: Duration = Duration::from_micros(500);

/// Evaluates commands and forms batches.
pub struct SequencerLoop {
    pub(super) node: Arc<NodeState>,
    pub(super) commands: Receiver<Command>,
    batches: Sender<Batch<Reply>>,
    /// Into the local journal; does nothing on a shared one.
    inline_commit: InlineCommit,
    /// Short batches in a row.
    short_batches: usize,
    /// Set by an inline commit.
    group_commit_window: Option<GroupCommitWindow>,
    pub(super) sequencer: Sequencer,
    pub(super) admission: Admission,
    /// What the rounds so far have produced.
    pub(super) output: RoundOutput,
}

/// What to do while the queue of batches is full.
enum WhenFull {
    Wait,
    Return,
}

/// How many requests to wait for, and until when.
struct GroupCommitWindow {
    /// Requests answered by the last sync, and those that had arrived by then.
    expected: usize,
    until: Instant,
}

/// What a round leaves to do once the store is unlocked.
#[derive(Default)]
pub(super) struct RoundOutput {
    pub(super) batches: VecDeque<Batch<Reply>>,
    pub(super) stop: bool,
}

impl SequencerLoop {
    pub(crate) fn new(
        node: &Arc<NodeState>,
        commands: Receiver<Command>,
        batches: Sender<Batch<Reply>>,
        sequencer: Sequencer,
        admission: Admission,
    ) -> SequencerLoop {
        SequencerLoop {
            node: Arc::clone(node),
            commands,
            batches,
            inline_commit: InlineCommit::default(),
            short_batches: 0,
            group_commit_window: None,
            sequencer,
            admission,
            output: RoundOutput::default(),
        }
    }

    /// Commits short batches on this thread from now on.
    pub(crate) fn commit_through(&mut self, inline_commit: InlineCommit) {
        self.inline_commit = inline_commit;
    }

    pub(crate) fn run(mut self) {
        loop {
            // The store is unlocked here: the journal's thread needs it to make room in this queue.
            if matches!(self.send_output(WhenFull::Wait), Step::Ended) {
                return;
            }
            self.commands.wait(None);
            if let Some(GroupCommitWindow { expected, until }) = self.group_commit_window.take() {
                self.commands.wait_for(expected - expected / STRAGGLER_SHARE, until);
            }
            let Ok(command) = self.commands.recv() else { return };
            self.round(command);
        }
    }

    /// One round, if a command is queued and the journal takes what the last round produced.
    pub fn step(&mut self) -> Step {
        match self.send_output(WhenFull::Return) {
            Step::Worked => {}
            other => return other,
        }
        match self.commands.try_recv() {
            Ok(command) => {
                self.round(command);
                Step::Worked
            }
            Err(TryRecvError::Empty) => Step::Idle,
            Err(TryRecvError::Disconnected) => Step::Ended,
        }
    }

    /// Sends what the rounds so far have produced. Idle if there is no room for it.
    fn send_output(&mut self, when_full: WhenFull) -> Step {
        while !self.output.batches.is_empty() {
            match self.commit_inline() {
                Some(Step::Ended) => return Step::Ended,
                Some(_) => continue,
                None => {}
            }
            let Some(batch) = self.output.batches.pop_front() else { break };
            let sent = match when_full {
                WhenFull::Wait => self.batches.send(batch).map_err(TrySendError::from),
                WhenFull::Return => self.batches.try_send(batch),
            };
            match sent {
                Ok(()) => {}
                Err(TrySendError::Full(batch)) => {
                    self.output.batches.push_front(batch);
                    return Step::Idle;
                }
                Err(TrySendError::Disconnected(_)) => return Step::Ended,
            }
        }
        if self.output.stop { Step::Ended } else { Step::Worked }
    }

    /// Appends and commits the next batch here if it is short, as those before it were; None if it
    /// is for the journal's thread. Under load the next requests are evaluated while a batch is
    /// synced, which takes two threads.
    fn commit_inline(&mut self) -> Option<Step> {
        let (short, batch) = (self.node.config.tuning.batch.short_requests, self.output.batches.front()?);
        let answered = batch.replies.len();
        let bytes = batch.draft.as_ref().map_or(0, Draft::size);
        let is_short = answered <= short && bytes <= SHORT_BATCH_BYTES_MAX;
        self.short_batches =
            if is_short { (self.short_batches + 1).min(INLINE_AFTER_SHORT_BATCHES) } else { 0 };
        if self.short_batches < INLINE_AFTER_SHORT_BATCHES {
            return None;
        }
        let began = Instant::now();
        let step = self.inline_commit.append(&mut self.output.batches)?;
        let now = Instant::now();
        let waiting = self.commands.len();
        if waiting < short {
            let window = GROUP_COMMIT_WINDOW_MAX.min((now - began) * GROUP_COMMIT_WINDOW_SYNCS);
            self.group_commit_window =
                Some(GroupCommitWindow { expected: answered + waiting, until: now + window });
        }
        Some(step)
    }
}
