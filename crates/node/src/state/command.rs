//! Commands: what callers hand to the sequencer's thread, and the queue in which they wait.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_channel::{SendError, SendTimeoutError, TrySendError};
use tokio::sync::oneshot;
use vetch_checkpoint::Capture;
use vetch_cluster::ReplicaId;
use vetch_store::auth::Caller;
use vetch_store::request::WriteRequest;
use vetch_sync::queue::Sender;

use super::snapshot_point::SnapshotPoint;
use crate::admission;
use crate::sequencer::Outcome;

/// Bytes of requests waiting for the sequencer; one more is answered "too many requests".
const QUEUE_BYTES_MAX: u64 = 256 << 20;

/// Where the outcome of a write goes.
pub(crate) type Reply = oneshot::Sender<Outcome>;

/// What the sequencer's thread does.
pub(crate) enum Command {
    Write(Write),
    /// Collects what a checkpoint needs, as of this place in the queue.
    Capture {
        reply: std::sync::mpsc::SyncSender<Capture>,
    },
    /// Determines where a snapshot begins, as of this place in the queue.
    Snapshot {
        reply: oneshot::Sender<SnapshotPoint>,
    },
    /// From this place in the queue on another server leads.
    TransferLeadership {
        to: ReplicaId,
        reply: oneshot::Sender<()>,
    },
    /// This server leads no more: returns what was evaluated and is not in a batch yet. Nothing
    /// is evaluated by then.
    EndLead,
    /// Checks whether an alarm can be lowered.
    ReviewAlarms,
    /// Finishes what is queued, then ends.
    Stop,
}

pub(crate) struct Write {
    pub(crate) caller: Caller,
    pub(crate) request: WriteRequest,
    /// What it adds to the bytes in the queue.
    pub(crate) bytes: u64,
    pub(crate) reply: Reply,
}

impl Command {
    /// A request of the node itself.
    pub(crate) fn write(request: WriteRequest, reply: Reply) -> Command {
        Command::write_for(Caller::Server, request, reply)
    }

    pub(crate) fn write_for(caller: Caller, request: WriteRequest, reply: Reply) -> Command {
        Command::Write(Write { caller, bytes: admission::held(&request), request, reply })
    }

    /// What it adds to the bytes in the queue.
    fn bytes(&self) -> u64 {
        match self {
            Command::Write(write) => write.bytes,
            Command::Capture { .. }
            | Command::Snapshot { .. }
            | Command::TransferLeadership { .. }
            | Command::EndLead
            | Command::ReviewAlarms
            | Command::Stop => 0,
        }
    }
}

/// The queue of the sequencer's thread.
pub(crate) struct CommandQueue {
    sender: Sender<Command>,
    /// Bytes of clients' requests in the queue.
    bytes: AtomicU64,
}

#[expect(clippy::result_large_err, reason = "a command that was not queued goes back to its sender")]
impl CommandQueue {
    pub(crate) fn new(sender: Sender<Command>) -> CommandQueue {
        CommandQueue { sender, bytes: AtomicU64::new(0) }
    }

    /// Queues a client's request. Refused as by a full queue if too many bytes wait already.
    pub(crate) fn submit(&self, command: Command) -> Result<(), TrySendError<Command>> {
        if self.bytes() > QUEUE_BYTES_MAX {
            return Err(TrySendError::Full(command));
        }
        let bytes = command.bytes();
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let sent = self.sender.try_send(command);
        if sent.is_err() {
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        sent
    }

    /// A request has left the queue. Those of the node itself were never added, so the sum may be
    /// lower than `bytes`.
    pub(crate) fn release(&self, bytes: u64) {
        let left = |queued: u64| Some(queued.saturating_sub(bytes));
        // Always succeeds, because `left` always has an answer.
        let _ = self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left);
    }

    /// Queues a command of the node itself, if there is room.
    pub(crate) fn try_send(&self, command: Command) -> Result<(), TrySendError<Command>> {
        self.sender.try_send(command)
    }

    pub(crate) fn send_timeout(
        &self,
        command: Command,
        timeout: Duration,
    ) -> Result<(), SendTimeoutError<Command>> {
        self.sender.send_timeout(command, timeout)
    }

    /// Waits for room.
    pub(crate) fn send(&self, command: Command) -> Result<(), SendError<Command>> {
        self.sender.send(command)
    }

    pub(crate) fn len(&self) -> usize {
        self.sender.queued()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}
