//! A disk that fails a chosen call: the n-th sync, the n-th read, the n-th call that needs space.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use vetch_journal::{DirLock, Disk, DiskFile, Fault, LockError, MemDisk, Op};

/// Which calls are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calls {
    /// Syncs of files and of directories; what a failed one covered is lost for good.
    Syncs,
    /// Reads, which fail with an I/O error.
    Reads,
    /// Reads, which return less than was asked for.
    ShortReads,
    /// Everything that takes space: creations, allocations, renames, and writes that make a file
    /// longer.
    Space,
}

#[derive(Debug)]
struct Plan {
    calls: Calls,
    fails_at: u64,
    /// Whether every later call fails as well.
    stays: bool,
    seen: AtomicU64,
}

impl Plan {
    fn hits(&self, calls: Calls) -> bool {
        if self.calls != calls {
            return false;
        }
        let n = self.seen.fetch_add(1, Ordering::Relaxed);
        n == self.fails_at || (self.stays && n > self.fails_at)
    }
}

/// A `MemDisk` of which one counted call fails, or that call and all behind it.
#[derive(Clone, Debug)]
pub struct FaultyDisk {
    disk: MemDisk,
    plan: Arc<Plan>,
}

impl FaultyDisk {
    pub fn new(disk: &MemDisk, calls: Calls, fails_at: u64, stays: bool) -> FaultyDisk {
        let plan = Plan { calls, fails_at, stays, seen: AtomicU64::new(0) };
        FaultyDisk { disk: disk.clone(), plan: Arc::new(plan) }
    }

    /// Whether the call that fails was made.
    pub fn was_hit(&self) -> bool {
        self.plan.seen.load(Ordering::Relaxed) > self.plan.fails_at
    }

    fn take_space(&self) -> io::Result<()> {
        if self.plan.hits(Calls::Space) { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn wrap(&self, file: Box<dyn DiskFile>) -> Box<dyn DiskFile> {
        Box::new(FaultyFile { disk: self.clone(), file })
    }
}

impl Disk for FaultyDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.take_space()?;
        Ok(self.wrap(self.disk.create(path)?))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(self.wrap(self.disk.open(path)?))
    }

    fn open_write(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(self.wrap(self.disk.open_write(path)?))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.take_space()?;
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.disk.list(dir)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        self.disk.create_dir_all(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        if self.plan.hits(Calls::Syncs) {
            self.disk.inject(Fault::FailNext(Op::SyncDir, io::ErrorKind::Other));
        }
        self.disk.sync_dir(dir)
    }

    fn free_space(&self, dir: &Path) -> io::Result<u64> {
        self.disk.free_space(dir)
    }

    fn lock_dir(&self, dir: &Path) -> Result<DirLock, LockError> {
        self.disk.lock_dir(dir)
    }
}

#[derive(Debug)]
struct FaultyFile {
    disk: FaultyDisk,
    file: Box<dyn DiskFile>,
}

impl DiskFile for FaultyFile {
    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if offset + data.len() as u64 > self.file.len()? {
            self.disk.take_space()?;
        }
        self.file.write_at(offset, data)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        if self.disk.plan.hits(Calls::Reads) {
            return Err(io::Error::other("injected"));
        }
        let n = self.file.read_at(offset, buf)?;
        Ok(if self.disk.plan.hits(Calls::ShortReads) { n / 2 } else { n })
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.disk.take_space()?;
        self.file.allocate(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        if self.disk.plan.hits(Calls::Syncs) {
            self.disk.disk.inject(Fault::FailNext(Op::SyncData, io::ErrorKind::Other));
        }
        self.file.sync_data()
    }
}
