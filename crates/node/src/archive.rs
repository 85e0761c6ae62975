//! Archive: what a node keeps, and tells, for whoever copies it elsewhere while it runs.
//!
//! A node that is archived lets go of journal segments only when their entries are said to be safe
//! elsewhere ([`Archive::keep_behind`]), and of checkpoint files only when nobody holds them.
//! Neither may ever stop the node: when the journal grows beyond the limit it was given for this,
//! or the disk is full, everything is let go, which is logged, counted, and seen by the archiver
//! ([`Archive::was_let_go`]), who then begins anew.
//!
//! Not here: where copies go, and when (`vetch-backup`).

use std::path::PathBuf;
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use tokio::sync::oneshot;
use vetch_encryption::EncryptionKeys;
use vetch_journal::{Position, Tip};

use crate::checkpoint::{Held, Holds};
use crate::config::Identity;
use crate::handle::Node;
use crate::metrics::BackupMetrics;
use crate::state::NodeState;
use crate::sync::Mutex;

/// Requests for a backup that wait for the archiver; one more is refused.
const REQUESTS: usize = 16;

/// What the journal has, and what it means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Durable {
    /// Of the last entry.
    pub seq: u64,
    /// After that entry.
    pub revision: i64,
}

impl From<&Tip> for Durable {
    fn from(tip: &Tip) -> Durable {
        Durable { seq: tip.seq, revision: tip.next_rev - 1 }
    }
}

/// Somebody wants a backup now.
#[derive(Debug)]
pub struct BackupRequest {
    /// With a full one, not only what was written since the last.
    pub full: bool,
    pub reply: oneshot::Sender<Result<BackedUp, String>>,
}

/// What a backup holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackedUp {
    pub location: String,
    /// Everything up to this revision is there.
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
pub(crate) struct Keep {
    /// Most bytes of journal files while something is kept. None: nobody archives.
    limit: Option<u64>,
    durable: Mutex<Durable>,
    /// Entries behind this one are kept. None: nothing is.
    behind: Mutex<Option<u64>>,
    door: Mutex<Option<Sender<BackupRequest>>>,
    holds: Arc<Holds>,
}

impl Keep {
    /// Everything is kept until the archiver has had a look.
    pub(crate) fn new(limit: Option<u64>, tip: &Tip, holds: Arc<Holds>) -> Keep {
        let (durable, behind) = (Mutex::new(tip.into()), Mutex::new(limit.map(|_| 0)));
        Keep { limit, durable, behind, door: Mutex::new(None), holds }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.limit.is_some()
    }

    pub(crate) fn became_durable(&self, tip: &Tip) {
        *self.durable.lock() = tip.into();
    }

    /// How far the journal may be trimmed if checkpoints need nothing before entry `wanted`.
    pub(crate) fn trim(&self, wanted: u64, journal_bytes: u64, disk_full: bool) -> Trim {
        let mut behind = self.behind.lock();
        let Some(kept) = *behind else { return Trim::Upto(wanted) };
        if kept + 1 >= wanted {
            return Trim::Upto(wanted);
        }
        if disk_full || self.limit.is_some_and(|limit| journal_bytes > limit) {
            *behind = None;
            return Trim::LetGo(wanted);
        }
        Trim::Upto(kept + 1)
    }

    /// The newest checkpoint, whose files stay until the answer is dropped. None: there is none
    /// yet.
    pub(crate) fn hold_checkpoint(&self) -> Option<Held> {
        self.holds.hold()
    }

    /// Where the journal is needed from for the checkpoints that somebody holds.
    pub(crate) fn held_position(&self) -> Option<Position> {
        self.holds.lowest_position().map(Position)
    }

    /// The disk is full: files that are only held for a copy go.
    pub(crate) fn release_checkpoints(&self) -> bool {
        self.holds.release_all()
    }
}

/// What may be trimmed, and whether something goes that is not safe elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trim {
    Upto(u64),
    LetGo(u64),
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

    /// What opens its files, should they be encrypted.
    pub fn keys(&self) -> &EncryptionKeys {
        &self.node.config.keys
    }

    /// The newest entry that is durable.
    pub fn durable(&self) -> Durable {
        *self.node.keep.durable.lock()
    }

    /// Entries up to `seq` are safe elsewhere; those behind it stay.
    pub fn keep_behind(&self, seq: u64) {
        *self.node.keep.behind.lock() = Some(seq);
        // Segments may have become free.
        self.node.housekeeping.ring();
    }

    /// Whether the node had to let go of what it was to keep, since [`Archive::keep_behind`] was
    /// called last.
    pub fn was_let_go(&self) -> bool {
        self.node.keep.behind.lock().is_none()
    }

    /// The newest checkpoint, whose files stay until the answer is dropped. None: there is none
    /// yet.
    pub fn hold_checkpoint(&self) -> Option<Held> {
        self.node.keep.hold_checkpoint()
    }

    /// Where requests for a backup arrive from now on.
    pub fn requests(&self) -> Receiver<BackupRequest> {
        let (door, requests) = bounded(REQUESTS);
        *self.node.keep.door.lock() = Some(door);
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
    /// For the archiver. None if this node is not to be archived.
    pub fn archive(&self) -> Option<Archive> {
        self.state().keep.is_on().then(|| Archive { node: Arc::clone(self.state()) })
    }

    /// Asks for a backup and waits until it is where it belongs.
    pub async fn back_up(&self, full: bool) -> Result<BackedUp, BackupError> {
        let door = self.state().keep.door.lock().clone().ok_or(BackupError::NotConfigured)?;
        let (reply, answer) = oneshot::channel();
        door.try_send(BackupRequest { full, reply }).map_err(|error| match error {
            TrySendError::Full(_) => BackupError::Busy,
            TrySendError::Disconnected(_) => BackupError::Stopped,
        })?;
        answer.await.map_err(|_| BackupError::Stopped)?.map_err(BackupError::Failed)
    }
}

impl NodeState {
    /// Says that what was kept for a backup is gone, and counts it.
    pub(crate) fn tell_let_go(&self) {
        self.metrics.backup.let_go.add(1);
        let journal_bytes = self.disk.journal_bytes();
        tracing::error!(
            journal_bytes,
            "the journal that was kept for the backup is let go, because the limit is reached or the disk is full: \
             what was written since the last backup cannot be restored from it; the next backup begins with a full one"
        );
    }
}
