//! Disk: the few file operations that durable code needs, and nothing else.
//!
//! Everything in this project that must survive power loss goes through this trait, so that the
//! same code runs on real files (`RealDisk`) and on a disk that loses power at a chosen operation
//! (`MemDisk`).
//!
//! The rules an implementation keeps, and callers may rely on:
//! * `write_at` is durable only after `sync_data` of that file returned `Ok`. Until then any subset
//!   of its 512-byte sectors may survive a power loss; each sector entirely or not at all.
//! * `create`, `rename` and `remove` are durable only after `sync_dir` of the directory returned
//!   `Ok`.
//! * `create_dir_all` is durable when it returns.
//! * After a failed `sync_data` or `sync_dir` nothing is known about what it covered; syncing again
//!   proves nothing.
//! * Files are created with mode 0600 and directories with mode 0700.

use std::any::Any;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// A file system, or something that behaves like one.
pub trait Disk: Send + Sync + fmt::Debug + 'static {
    /// Makes a new file for reading and writing; it is an error if the name exists.
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Opens an existing file for reading.
    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Opens an existing file for reading and writing.
    fn open_write(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Moves a file within a directory, replacing what had the new name.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Names of the files directly in a directory, sorted.
    fn list(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Makes a directory and the missing ones above it, durably.
    fn create_dir_all(&self, dir: &Path) -> io::Result<()>;
    /// Makes creations, renames and removals in a directory durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
    /// Bytes an unprivileged process can still write to the volume that holds `dir`.
    fn free_space(&self, dir: &Path) -> io::Result<u64>;
    /// Takes the directory for this process alone until the guard is dropped.
    fn lock_dir(&self, dir: &Path) -> Result<DirLock, LockError>;
}

/// An open file. Offsets are explicit, so one handle may be shared between threads.
pub trait DiskFile: Send + Sync + fmt::Debug {
    /// Writes all of `data`, growing the file where needed.
    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()>;
    /// Fills `buf` from `offset`; returns fewer bytes only at the end of the file.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize>;
    fn len(&self) -> io::Result<u64>;
    /// Grows the file to `len` with its blocks reserved, or fails with `StorageFull` before it used
    /// any.
    fn allocate(&self, len: u64) -> io::Result<()>;
    /// Makes the contents and the length durable.
    fn sync_data(&self) -> io::Result<()>;

    /// Asks for what is durable not to be kept in memory, so that reading it again asks the medium.
    /// Only a hint.
    fn forget(&self) {}

    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Writes zeros over `from..to` in bounded pieces.
    fn zero_fill(&self, from: u64, to: u64) -> io::Result<()> {
        let zeros = vec![0; usize::try_from(to.saturating_sub(from)).unwrap_or(usize::MAX).min(ZERO_CHUNK)];
        let mut at = from;
        while at < to {
            let n = (to - at).min(zeros.len() as u64);
            self.write_at(at, &zeros[..n as usize])?;
            at += n;
        }
        Ok(())
    }
}

const ZERO_CHUNK: usize = 1 << 20;

/// Holds a directory until it is dropped.
#[derive(Debug)]
pub struct DirLock {
    _held: Box<dyn Held>,
}

trait Held: Any + Send + Sync + fmt::Debug {}
impl<T: Any + Send + Sync + fmt::Debug> Held for T {}

impl DirLock {
    /// A lock that is released when `held` is dropped.
    pub fn new(held: impl Any + Send + Sync + fmt::Debug) -> DirLock {
        DirLock { _held: Box::new(held) }
    }
}

/// Why a directory could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("another process holds {}; stop it or use another directory", .0.display())]
    Held(PathBuf),
    #[error("locking {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// The whole content of a small file.
pub fn read_file(disk: &dyn Disk, path: &Path) -> io::Result<Vec<u8>> {
    let file = disk.open(path)?;
    let len = usize::try_from(file.len()?).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
    let mut content = vec![0; len];
    let n = file.read_at(0, &mut content)?;
    content.truncate(n);
    Ok(content)
}

/// Replaces `dir/name` by `content` so that, whatever happens, the name holds the old or the new
/// content, entirely.
pub fn write_atomically(disk: &dyn Disk, dir: &Path, name: &str, content: &[u8]) -> io::Result<()> {
    let new = dir.join(format!("{name}.tmp"));
    match disk.remove(&new) {
        // What an interrupted write left must be gone for good, or a power loss could bring it back
        // and rename it instead.
        Ok(()) => disk.sync_dir(dir)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let file = disk.create(&new)?;
    file.write_at(0, content)?;
    file.sync_data()?;
    disk.rename(&new, &dir.join(name))?;
    disk.sync_dir(dir)
}
