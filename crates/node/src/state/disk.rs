//! Disk gauges: how much room the journal has, how many bytes the files take, and what is damaged.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use vetch_journal::JournalError;
use vetch_sync::Mutex;

use crate::admission::DiskState;

/// All of them are advisory numbers, each with one writer; none orders other memory.
pub(crate) struct DiskGauges {
    /// No further segment can be prepared: for lack of space, or for another reason.
    is_full: AtomicBool,
    is_failing: AtomicBool,
    /// Bytes left in the journal's active segment, and in the segments prepared behind it.
    active_room: AtomicU64,
    spare_room: AtomicU64,
    checkpoint_bytes: AtomicU64,
    journal_bytes: AtomicU64,
    /// Bytes that the next checkpoint would take over from the journal.
    fresh_bytes: AtomicU64,
    /// How many fresh bytes make a checkpoint due.
    checkpoint_stride: AtomicU64,
    /// Files that are needed and known to be damaged, and what is wrong with each.
    damage: Mutex<BTreeMap<PathBuf, String>>,
}

impl DiskGauges {
    pub(crate) fn new(checkpoint_stride: u64) -> DiskGauges {
        DiskGauges {
            is_full: AtomicBool::new(false),
            is_failing: AtomicBool::new(false),
            active_room: AtomicU64::new(0),
            spare_room: AtomicU64::new(0),
            checkpoint_bytes: AtomicU64::new(0),
            journal_bytes: AtomicU64::new(0),
            fresh_bytes: AtomicU64::new(0),
            checkpoint_stride: AtomicU64::new(checkpoint_stride),
            damage: Mutex::default(),
        }
    }

    /// Whether further journal segments can be prepared.
    pub(crate) fn state(&self) -> DiskState {
        match (self.is_full(), self.is_failing()) {
            (true, _) => DiskState::Full,
            (false, true) => DiskState::Failing,
            (false, false) => DiskState::Fine,
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    pub(crate) fn is_failing(&self) -> bool {
        self.is_failing.load(Ordering::Relaxed)
    }

    pub(crate) fn set_full(&self, is_full: bool) {
        self.is_full.store(is_full, Ordering::Relaxed);
    }

    /// A segment was prepared, or none was needed.
    pub(crate) fn segment_prepared(&self) {
        self.is_full.store(false, Ordering::Relaxed);
        self.is_failing.store(false, Ordering::Relaxed);
    }

    /// A segment could not be prepared.
    pub(crate) fn segment_failed(&self, error: &JournalError) {
        self.is_full.store(error.is_no_space(), Ordering::Relaxed);
        self.is_failing.store(!error.is_no_space(), Ordering::Relaxed);
    }

    /// Journal bytes that are certain to be there.
    pub(crate) fn room(&self) -> u64 {
        self.active_room.load(Ordering::Relaxed) + self.spare_room.load(Ordering::Relaxed)
    }

    pub(crate) fn set_active_room(&self, bytes: u64) {
        self.active_room.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn set_spare_room(&self, bytes: u64) {
        self.spare_room.store(bytes, Ordering::Relaxed);
    }

    /// Bytes of all files of this node.
    pub(crate) fn bytes(&self) -> u64 {
        self.checkpoint_bytes() + self.journal_bytes()
    }

    pub(crate) fn checkpoint_bytes(&self) -> u64 {
        self.checkpoint_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn set_checkpoint_bytes(&self, bytes: u64) {
        self.checkpoint_bytes.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn journal_bytes(&self) -> u64 {
        self.journal_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn set_journal_bytes(&self, bytes: u64) {
        self.journal_bytes.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn fresh_bytes(&self) -> u64 {
        self.fresh_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn set_fresh_bytes(&self, bytes: u64) {
        self.fresh_bytes.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn checkpoint_stride(&self) -> u64 {
        self.checkpoint_stride.load(Ordering::Relaxed)
    }

    pub(crate) fn set_checkpoint_stride(&self, bytes: u64) {
        self.checkpoint_stride.store(bytes, Ordering::Relaxed);
    }

    /// Whether a checkpoint is due for all that was written since the last one was captured.
    pub(crate) fn is_stride_done(&self) -> bool {
        self.fresh_bytes() >= self.checkpoint_stride()
    }

    pub(crate) fn report_damage(&self, file: PathBuf, what: String) {
        self.damage.lock().insert(file, what);
    }

    /// A damaged file was replaced, or is not needed any more.
    pub(crate) fn forget_damage(&self, file: &Path) {
        self.damage.lock().remove(file);
    }

    pub(crate) fn damaged_files(&self) -> Vec<PathBuf> {
        self.damage.lock().keys().cloned().collect()
    }

    /// What is wrong with each damaged file.
    pub(crate) fn damage(&self) -> Vec<String> {
        self.damage.lock().values().cloned().collect()
    }
}
