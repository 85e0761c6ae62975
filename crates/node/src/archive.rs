//! Archive: retention of journal and checkpoints for an archiver that copies them while the node
//! runs.
//!
//! A node with an archiver trims journal entries only when the archiver has stored them
//! ([`Archive::retain_after`]), and removes checkpoint files only when no copy pins them. Retention
//! must never stop the node: when the journal exceeds its retention limit, or the disk is full, the
//! retained entries are dropped. That is logged, counted, and seen by the archiver
//! ([`Archive::retention_dropped`]), which then starts over with a full backup.
//!
//! Not here: where copies go, and when (`vetch-backup`).

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use tokio::sync::oneshot;
use vetch_base::Seq;
use vetch_encryption::EncryptionKeys;
use vetch_journal::{Position, Tip};

use crate::handle::Node;
use crate::metrics::BackupMetrics;
use crate::state::NodeState;
use crate::sync::Mutex;
use vetch_checkpoint::identity::Identity;
use vetch_checkpoint::transfer::CheckpointSender;
use vetch_checkpoint::{CheckpointPins, PinnedCheckpoint};

/// Limit on queued requests for a backup.
const REQUESTS_MAX: usize = 16;

/// The newest durable entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Durable {
    pub seq: Seq,
    /// The revision after it.
    pub revision: i64,
}

impl From<&Tip> for Durable {
    fn from(tip: &Tip) -> Durable {
        Durable { seq: tip.seq, revision: tip.next_rev - 1 }
    }
}

/// A request for a backup now.
#[derive(Debug)]
pub struct BackupRequest {
    /// Take a full backup rather than only the entries since the last one.
    pub full: bool,
    pub reply: oneshot::Sender<Result<BackedUp, String>>,
}

/// What a backup covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackedUp {
    pub location: String,
    /// It has everything up to this revision.
    pub revision: i64,
    /// Of the newest full backup.
    pub full_revision: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BackupError {
    #[error("backups are not configured: start the server with --backup-location")]
    NotConfigured,
    #[error("too many requests for a backup wait already; try again later")]
    Busy,
    #[error("the backup failed: {0}")]
    Failed(String),
    #[error("server stopped")]
    Stopped,
}

/// The part of [`Shared`] that is about archiving.
#[derive(Debug)]
pub(crate) struct RetentionHold {
    /// Limit on the bytes of journal files while entries are retained. None if there is no
    /// archiver.
    journal_bytes_max: Option<u64>,
    durable: Mutex<Durable>,
    /// Entries after this one are retained. None if none are.
    retain_after: Mutex<Option<Seq>>,
    /// Where requests for a backup are sent.
    requests: Mutex<Option<Sender<BackupRequest>>>,
    pins: Arc<CheckpointPins>,
}

impl RetentionHold {
    /// Every entry is retained until the archiver calls [`Archive::retain_after`].
    pub(crate) fn new(journal_bytes_max: Option<u64>, tip: &Tip, pins: Arc<CheckpointPins>) -> RetentionHold {
        RetentionHold {
            journal_bytes_max,
            durable: Mutex::new(tip.into()),
            retain_after: Mutex::new(journal_bytes_max.map(|_| Seq::ZERO)),
            requests: Mutex::new(None),
            pins,
        }
    }

    pub(crate) fn is_enabled(&self) -> bool {
        self.journal_bytes_max.is_some()
    }

    pub(crate) fn note_durable(&self, tip: &Tip) {
        *self.durable.lock() = tip.into();
    }

    /// Up to where the journal may be trimmed if checkpoints need no entry before `wanted`.
    pub(crate) fn trim(&self, wanted: Seq, journal_bytes: u64, disk_full: bool) -> Trim {
        let mut retain_after = self.retain_after.lock();
        let Some(stored) = *retain_after else { return Trim::Upto(wanted) };
        if stored.next() >= wanted {
            return Trim::Upto(wanted);
        }
        if disk_full || self.journal_bytes_max.is_some_and(|max| journal_bytes > max) {
            *retain_after = None;
            return Trim::Dropped(wanted);
        }
        Trim::Upto(stored.next())
    }

    /// Pins the newest checkpoint, if there is one.
    pub(crate) fn pin_checkpoint(&self) -> Option<PinnedCheckpoint> {
        self.pins.pin_newest()
    }

    /// The position from which pinned checkpoints need a shared journal.
    pub(crate) fn pinned_position(&self) -> Option<Position> {
        self.pins.lowest_position().map(Position)
    }

    /// Drops every pin, because the disk is full. True if there was one.
    pub(crate) fn release_pins(&self) -> bool {
        self.pins.release_all()
    }
}

/// The entry up to which the journal may be trimmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trim {
    Upto(Seq),
    /// The same, and entries are dropped that the archiver has not stored.
    Dropped(Seq),
}

/// The archiver's view of a node.
#[derive(Clone)]
pub struct Archive {
    node: Arc<NodeState>,
}

impl Archive {
    pub fn identity(&self) -> Identity {
        self.node.identity
    }

    pub fn journal_dir(&self) -> PathBuf {
        self.node.config.data_dir.join("member").join("journal")
    }

    pub fn checkpoint_dir(&self) -> PathBuf {
        self.node.config.data_dir.join("member").join("checkpoint")
    }

    /// The keys that decrypt its files.
    pub fn keys(&self) -> &EncryptionKeys {
        &self.node.config.keys
    }

    /// The newest entry that is durable.
    pub fn durable(&self) -> Durable {
        *self.node.retention.durable.lock()
    }

    /// The archiver has stored entries up to `seq`; later ones are retained.
    pub fn retain_after(&self, seq: Seq) {
        *self.node.retention.retain_after.lock() = Some(seq);
        // Segments may have become free.
        self.node.housekeeping.ring();
    }

    /// Whether retained entries were dropped since the last call of [`Archive::retain_after`].
    pub fn retention_dropped(&self) -> bool {
        self.node.retention.retain_after.lock().is_none()
    }

    /// Pins the newest checkpoint, if there is one.
    pub fn pin_checkpoint(&self) -> Option<PinnedCheckpoint> {
        self.node.retention.pin_checkpoint()
    }

    /// Receives requests for a backup from now on.
    pub fn requests(&self) -> Receiver<BackupRequest> {
        let (sender, requests) = bounded(REQUESTS_MAX);
        *self.node.retention.requests.lock() = Some(sender);
        requests
    }

    pub fn metrics(&self) -> &BackupMetrics {
        &self.node.metrics.backup
    }

    /// Whether the node has come to its end, with everything durable that ever will be.
    pub fn has_ended(&self) -> bool {
        !self.node.lifecycle.is_running()
    }
}

impl Node {
    /// For the archiver. None if the node is configured without one.
    pub fn archive(&self) -> Option<Archive> {
        self.state().retention.is_enabled().then(|| Archive { node: Arc::clone(self.state()) })
    }

    /// The newest checkpoint of a server on a shared journal, for another server. None if there is
    /// none yet.
    pub fn send_checkpoint(&self) -> io::Result<Option<CheckpointSender>> {
        let node = self.state();
        let pinned = node.retention.pin_checkpoint().filter(|_| node.cluster.is_some());
        let member = node.config.data_dir.join("member");
        pinned.map(|pinned| CheckpointSender::begin(&member, pinned)).transpose()
    }

    /// Requests a backup and waits until it is stored.
    pub async fn back_up(&self, full: bool) -> Result<BackedUp, BackupError> {
        let requests = self.state().retention.requests.lock().clone().ok_or(BackupError::NotConfigured)?;
        let (reply, answer) = oneshot::channel();
        requests.try_send(BackupRequest { full, reply }).map_err(|error| match error {
            TrySendError::Full(_) => BackupError::Busy,
            TrySendError::Disconnected(_) => BackupError::Stopped,
        })?;
        answer.await.map_err(|_| BackupError::Stopped)?.map_err(BackupError::Failed)
    }
}

impl NodeState {
    /// Logs and counts that entries retained for a backup were dropped.
    pub(crate) fn report_retention_dropped(&self) {
        self.metrics.backup.retention_dropped.add(1);
        let journal_bytes = self.disk.journal_bytes();
        tracing::error!(
            journal_bytes,
            "dropped the journal that was retained for the backup, because the limit is reached or the disk is full: \
             revisions since the last backup cannot be restored from it; the next backup is a full one"
        );
    }
}
