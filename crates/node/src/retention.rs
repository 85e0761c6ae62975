//! Retention: what an archiver still needs of journal and checkpoints, and its requests.
//!
//! [`crate::archive::Archive`] is what the archiver sees of it.

use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, bounded};
use tokio::sync::oneshot;
use vetch_base::Seq;
use vetch_checkpoint::{CheckpointPins, PinnedCheckpoint};
use vetch_journal::{Position, Tip};
use vetch_sync::Mutex;

/// Limit on queued requests for a backup.
const REQUESTS_MAX: usize = 16;

/// The newest durable entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Durable {
    /// Its sequence number.
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
    pub reply: oneshot::Sender<Result<BackedUp, BackupFailed>>,
}

/// The archiver's reason why there is no backup.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the backup failed: {0}")]
pub struct BackupFailed(pub String);

/// What a backup covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackedUp {
    pub location: String,
    /// It has everything up to this revision.
    pub revision: i64,
    /// Of the newest full backup.
    pub full_revision: i64,
}

/// What is retained for the archiver, and its requests.
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

    pub(crate) fn durable(&self) -> Durable {
        *self.durable.lock()
    }

    /// The archiver has stored entries up to `seq`.
    pub(crate) fn retain_after(&self, seq: Seq) {
        *self.retain_after.lock() = Some(seq);
    }

    /// Whether retained entries were dropped since the archiver last stored some.
    pub(crate) fn is_dropped(&self) -> bool {
        self.retain_after.lock().is_none()
    }

    /// Requests for a backup are sent here from now on.
    pub(crate) fn open_requests(&self) -> Receiver<BackupRequest> {
        let (sender, requests) = bounded(REQUESTS_MAX);
        *self.requests.lock() = Some(sender);
        requests
    }

    /// Where requests for a backup are sent; none without an archiver.
    pub(crate) fn requests(&self) -> Option<Sender<BackupRequest>> {
        self.requests.lock().clone()
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
