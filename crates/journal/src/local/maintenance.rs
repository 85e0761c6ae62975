//! Maintenance: making segments ahead of need and removing those no longer needed, beside the
//! writer.
//!
//! A handle is cheap to clone and is meant for a background thread: `run` it at the start, after
//! every append that rolled and after every `retire`. It shares only two short lists with the
//! writer; no lock is held across file operations that the writer could wait for. A spare has no
//! meaning until the writer renames it, so a crash in here costs nothing.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use vetch_encryption::KeyId;

use super::LocalConfig;
use super::segment::{spare_name, whole_sectors};
use crate::contract::JournalError;
use crate::disk::{DirLock, Disk, DiskFile};

/// Zeroing syncs in steps of this size, so that no append waits behind one huge flush.
const SYNC_STEP: u64 = 8 << 20;

/// The handle of the background half of the engine.
#[derive(Clone, Debug)]
pub struct Maintenance {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    segment_len: u64,
    spares_wanted: usize,
    no_fsync: bool,
    lists: Mutex<Lists>,
    /// Serialises `run` with itself; the writer never takes it.
    running: Mutex<()>,
    next_number: AtomicU64,
    // The directory stays taken as long as anyone may still change files in it.
    _lock: DirLock,
}

#[derive(Debug, Default)]
struct Lists {
    spares: Vec<Spare>,
    retired: Vec<Retired>,
}

/// A segment that is to be removed, and the key of its records as `Segment` has it.
#[derive(Debug)]
pub(super) struct Retired {
    pub(super) path: PathBuf,
    pub(super) key: Option<Option<KeyId>>,
}

/// A segment full of durable zeros, not yet named.
#[derive(Debug)]
pub(super) struct Spare {
    pub(super) path: PathBuf,
    pub(super) file: Box<dyn DiskFile>,
    pub(super) len: u64,
}

/// What a run of maintenance did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Maintained {
    /// Segments made ready.
    pub prepared: usize,
    /// Retired segments removed.
    pub removed: usize,
}

impl Maintenance {
    pub(super) fn new(disk: Arc<dyn Disk>, dir: &Path, config: &LocalConfig, lock: DirLock) -> Maintenance {
        let shared = Shared {
            disk,
            dir: dir.to_path_buf(),
            segment_len: whole_sectors(config.segment_len),
            spares_wanted: config.spares,
            no_fsync: config.unsafe_no_fsync,
            lists: Mutex::default(),
            running: Mutex::default(),
            next_number: AtomicU64::new(1),
            _lock: lock,
        };
        Maintenance { shared: Arc::new(shared) }
    }

    /// Removes retired segments and makes spares until there are as many as wanted. `NoSpace` is
    /// the early warning that appends will fail once the active segment is full; calling again
    /// later is all that is needed to recover.
    pub fn run(&self) -> Result<Maintained, JournalError> {
        let _running = self.shared.running.lock().expect("nothing panics under this lock");
        // Removal comes first: it may free the very space that a spare needs.
        let removed = self.remove_retired()?;
        let mut prepared = 0;
        while self.spares() < self.shared.spares_wanted {
            let spare = self.make(self.shared.segment_len)?;
            self.lists().spares.push(spare);
            prepared += 1;
        }
        Ok(Maintained { prepared, removed })
    }

    /// Spares ready now. With one, the next append cannot fail for want of space.
    pub fn spares(&self) -> usize {
        self.lists().spares.len()
    }

    /// A spare of at least `len` bytes: a ready one, or one made while the caller waits.
    pub(super) fn take(&self, len: u64) -> Result<Spare, JournalError> {
        let mut lists = self.lists();
        if let Some(found) = lists.spares.iter().position(|spare| spare.len >= len) {
            return Ok(lists.spares.swap_remove(found));
        }
        drop(lists);
        self.make(whole_sectors(len).max(self.shared.segment_len))
    }

    /// Puts back a spare that was taken but not used.
    pub(super) fn put_back(&self, spare: Spare) {
        self.lists().spares.push(spare);
    }

    pub(super) fn retire(&self, segments: impl Iterator<Item = Retired>) {
        self.lists().retired.extend(segments);
    }

    /// Retired segments whose files are still there.
    pub(super) fn retired(&self) -> usize {
        self.lists().retired.len()
    }

    /// The keys of retired segments whose files are still there.
    pub(super) fn retired_keys(&self) -> Vec<Option<Option<KeyId>>> {
        self.lists().retired.iter().map(|segment| segment.key).collect()
    }

    /// Removes every retired segment; what could not be removed stays on the list for the next
    /// time.
    pub(super) fn remove_retired(&self) -> Result<usize, JournalError> {
        let mut removed = 0;
        loop {
            // It stays on the list, and counts as needing its key, until it is gone.
            let Some(path) = self.lists().retired.last().map(|segment| segment.path.clone()) else { break };
            match self.shared.disk.remove(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(JournalError::io("removing a trimmed journal segment", path)(error));
                }
                _ => removed += 1,
            }
            self.lists().retired.retain(|segment| segment.path != path);
        }
        if removed > 0 {
            let dir = &self.shared.dir;
            self.shared.disk.sync_dir(dir).map_err(JournalError::io("syncing", dir))?;
        }
        Ok(removed)
    }

    fn make(&self, len: u64) -> Result<Spare, JournalError> {
        let number = self.shared.next_number.fetch_add(1, Ordering::Relaxed);
        let path = self.shared.dir.join(spare_name(number));
        match self.zeroed_file(&path, len) {
            Ok(file) => Ok(Spare { path, file, len }),
            Err(error) => {
                // Half a spare is worth nothing; if removing fails too, the next start removes it.
                self.shared.disk.remove(&path).ok();
                Err(self.make_error(path, len, error))
            }
        }
    }

    fn make_error(&self, path: PathBuf, len: u64, error: io::Error) -> JournalError {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                JournalError::NoSpace { dir: self.shared.dir.clone(), needed: len, source: Arc::new(error) }
            }
            _ => JournalError::io("preparing a journal segment", path)(error),
        }
    }

    fn zeroed_file(&self, path: &Path, len: u64) -> io::Result<Box<dyn DiskFile>> {
        let file = self.shared.disk.create(path)?;
        file.allocate(len)?;
        let mut at = 0;
        while at < len {
            let to = (at + SYNC_STEP).min(len);
            file.zero_fill(at, to)?;
            if !self.shared.no_fsync {
                file.sync_data()?;
            }
            at = to;
        }
        Ok(file)
    }

    fn lists(&self) -> MutexGuard<'_, Lists> {
        self.shared.lists.lock().expect("nothing panics under this lock")
    }
}
