//! MemDisk: a disk in memory that forgets what was not synced, and fails on request. For tests and
//! simulation.
//!
//! It models what `Disk` promises and no more. Every file keeps what readers see and what is on the
//! medium; a write dirties 512-byte sectors, `sync_data` moves them to the medium. Names are kept
//! twice as well: `create`, `rename` and `remove` wait for `sync_dir`. `power_loss` makes the disk
//! that the next boot finds, asking the caller about each thing that was still pending; every
//! answer is a legal outcome.
//!
//! After a failed `sync_data` the dirty sectors are clean in memory and absent from the medium, for
//! ever. Real kernels behave so, and code that syncs again and believes the result loses data.
//!
//! Deterministic: no clock, no randomness of its own. Clones share the same disk.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::disk::{DirLock, Disk, DiskFile, LockError};

mod state;

use state::State;

#[cfg(test)]
mod tests;

/// The disk; clones are handles to the same one.
#[derive(Clone, Debug, Default)]
pub struct MemDisk {
    state: Arc<Mutex<State>>,
}

/// The operations that a crash point or a fault can hit. Reads are only hit by read faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    Create,
    Write,
    Allocate,
    SyncData,
    Rename,
    Remove,
    SyncDir,
}

/// Something a power loss may or may not undo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pending {
    /// A sector written but not synced; `file` is the path it was created under.
    Sector {
        file: PathBuf,
        sector: u64,
    },
    /// A new length not synced.
    Length {
        file: PathBuf,
        len: u64,
    },
    /// A directory operation not synced.
    Create {
        path: PathBuf,
    },
    Rename {
        from: PathBuf,
        to: PathBuf,
    },
    Remove {
        path: PathBuf,
    },
}

/// A failure to inject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Power goes at the n-th counted operation from now (0 is the next one); it and all later ones
    /// fail.
    CrashAt(u64),
    /// The next operation of this kind fails once with this error.
    FailNext(Op, io::ErrorKind),
    /// Reads that touch this range of this file fail.
    UnreadableRange(PathBuf, Range<u64>),
    /// The volume holds this many bytes; allocations and growing writes beyond fail with
    /// `StorageFull`.
    Capacity(u64),
}

impl MemDisk {
    pub fn new() -> MemDisk {
        MemDisk::default()
    }

    pub fn inject(&self, fault: Fault) {
        let mut state = self.lock();
        match fault {
            Fault::CrashAt(n) => state.crash_at = Some(state.ops + n),
            Fault::FailNext(op, kind) => state.fail_next.push((op, kind)),
            Fault::UnreadableRange(path, range) => state.unreadable.push((path, range)),
            Fault::Capacity(bytes) => state.capacity = Some(bytes),
        }
    }

    /// Counted operations so far; the space in which crash points are chosen.
    pub fn ops(&self) -> u64 {
        self.lock().ops
    }

    /// Whether the crash point was reached.
    pub fn has_crashed(&self) -> bool {
        self.lock().has_crashed()
    }

    /// Everything that is not durable now, in the order in which `power_loss` asks.
    pub fn pending(&self) -> Vec<Pending> {
        self.lock().pending()
    }

    /// The disk as the next boot finds it: what was durable, plus each pending change for which
    /// `survives` says so. Faults and locks are gone; this disk is left as it is.
    pub fn power_loss(&self, survives: &mut dyn FnMut(&Pending) -> bool) -> MemDisk {
        MemDisk { state: Arc::new(Mutex::new(self.lock().after_power_loss(survives))) }
    }

    /// The disk as the next process finds it: the last one was killed, the machine went on. Readers
    /// see what it wrote, and what it had not synced is still not durable. Faults and locks are
    /// gone; this disk is left as it is.
    pub fn process_killed(&self) -> MemDisk {
        MemDisk { state: Arc::new(Mutex::new(self.lock().after_kill())) }
    }

    /// A copy of the disk as seen by readers now, with everything durable: the process ended, the
    /// machine went on.
    pub fn process_exit(&self) -> MemDisk {
        self.power_loss(&mut |_| true)
    }

    /// Flips one bit of a file, in memory and, if the byte has got that far, on the medium.
    pub fn flip_bit(&self, path: &Path, byte: u64, bit: u8) {
        self.lock().edit(path, &mut |content| {
            if let Some(byte) = content.get_mut(byte as usize) {
                *byte ^= 1 << bit;
            }
        });
    }

    /// Replaces the content of a file, on the medium and in memory.
    pub fn overwrite(&self, path: &Path, new: &[u8]) {
        self.lock().edit(path, &mut |content| *content = new.to_vec());
    }

    /// The content readers see.
    pub fn content(&self, path: &Path) -> Option<Vec<u8>> {
        self.lock().content(path)
    }

    /// Every file with the content readers see.
    pub fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        self.lock().files()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics under this lock")
    }

    fn handle(&self, id: usize) -> Box<dyn DiskFile> {
        Box::new(MemFile { disk: self.clone(), id })
    }
}

impl Disk for MemDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let id = self.lock().create(path)?;
        Ok(self.handle(id))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let id = self.lock().find(path)?;
        Ok(self.handle(id))
    }

    fn open_write(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.open(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.lock().rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.lock().remove(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.lock().list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.lock().create_dir_all(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.lock().sync_dir(dir)
    }

    fn free_space(&self, _dir: &Path) -> io::Result<u64> {
        Ok(self.lock().free_space())
    }

    fn lock_dir(&self, dir: &Path) -> Result<DirLock, LockError> {
        if !self.lock().locked.insert(dir.to_path_buf()) {
            return Err(LockError::Held(dir.to_path_buf()));
        }
        Ok(DirLock::new(MemLock { disk: self.clone(), dir: dir.to_path_buf() }))
    }
}

#[derive(Debug)]
struct MemLock {
    disk: MemDisk,
    dir: PathBuf,
}

impl Drop for MemLock {
    fn drop(&mut self) {
        self.disk.lock().locked.remove(&self.dir);
    }
}

struct MemFile {
    disk: MemDisk,
    id: usize,
}

impl std::fmt::Debug for MemFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MemFile({})", self.id)
    }
}

impl DiskFile for MemFile {
    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.disk.lock().write_at(self.id, offset, data)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.disk.lock().read_at(self.id, offset, buf)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.lock().len(self.id))
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.disk.lock().allocate(self.id, len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.lock().sync_data(self.id)
    }
}
