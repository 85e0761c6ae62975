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

use crossbeam_channel::{Receiver, TrySendError};
use tokio::sync::oneshot;
use vetch_base::Seq;
use vetch_checkpoint::PinnedCheckpoint;
use vetch_checkpoint::identity::Identity;
use vetch_checkpoint::transfer::CheckpointSender;
use vetch_encryption::EncryptionKeys;

use crate::handle::Node;
use crate::metrics::BackupMetrics;
use crate::retention::{BackedUp, BackupFailed, BackupRequest, Durable};
use crate::state::NodeState;

/// Why there is no backup.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BackupError {
    #[error("backups are not configured: start the server with --backup-location")]
    NotConfigured,
    #[error("too many requests for a backup wait already; try again later")]
    Busy,
    #[error(transparent)]
    Failed(#[from] BackupFailed),
    #[error("server stopped")]
    Stopped,
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
        self.node.retention.durable()
    }

    /// The archiver has stored entries up to `seq`; later ones are retained.
    pub fn retain_after(&self, seq: Seq) {
        self.node.retention.retain_after(seq);
        // Segments may have become free.
        self.node.housekeeping.ring();
    }

    /// Whether retained entries were dropped since the last call of [`Archive::retain_after`].
    pub fn retention_dropped(&self) -> bool {
        self.node.retention.is_dropped()
    }

    /// Pins the newest checkpoint, if there is one.
    pub fn pin_checkpoint(&self) -> Option<PinnedCheckpoint> {
        self.node.retention.pin_checkpoint()
    }

    /// Receives requests for a backup from now on.
    pub fn requests(&self) -> Receiver<BackupRequest> {
        self.node.retention.open_requests()
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
        let requests = self.state().retention.requests().ok_or(BackupError::NotConfigured)?;
        let (reply, answer) = oneshot::channel();
        requests.try_send(BackupRequest { full, reply }).map_err(|error| match error {
            TrySendError::Full(_) => BackupError::Busy,
            TrySendError::Disconnected(_) => BackupError::Stopped,
        })?;
        Ok(answer.await.map_err(|_| BackupError::Stopped)??)
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
