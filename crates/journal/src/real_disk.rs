//! RealDisk: `Disk` on the operating system's files.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{Advice, FallocateFlags, FlockOperation, fadvise, fallocate, flock, statvfs};
use rustix::io::Errno;

use crate::disk::{DirLock, Disk, DiskFile, LockError};

const LOCK_FILE: &str = "LOCK";

/// The real file system.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

#[derive(Debug)]
struct RealFile(File);

/// How often, and how long in between, a directory is opened anew while the process has no
/// descriptor to spare. That is not a failed sync: nothing has been asked of the disk yet.
const OPEN_ATTEMPTS: u32 = 500;
const OPEN_PAUSE: Duration = Duration::from_millis(10);

#[expect(clippy::disallowed_methods, reason = "waits for a file descriptor")]
fn open_dir(dir: &Path) -> io::Result<File> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        match File::open(dir) {
            Err(error) if is_out_of_descriptors(&error) && attempts < OPEN_ATTEMPTS => {
                std::thread::sleep(OPEN_PAUSE)
            }
            outcome => return outcome,
        }
    }
}

fn is_out_of_descriptors(error: &io::Error) -> bool {
    [Errno::MFILE, Errno::NFILE].iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

impl Disk for RealDisk {
    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
        Ok(Box::new(RealFile(file)))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(RealFile(File::open(path)?)))
    }

    fn open_write(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(RealFile(OpenOptions::new().read(true).write(true).open(path)?)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            // A name that is not UTF-8 is none of ours.
            if let (true, Ok(name)) = (entry.file_type()?.is_file(), entry.file_name().into_string()) {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    fn create_dir_all(&self, dir: &Path) -> io::Result<()> {
        match DirBuilder::new().mode(0o700).create(dir) {
            Ok(()) => {}
            // The process that created it may have crashed before its name was durable.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && dir.is_dir() => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let parent = dir.parent().ok_or(error)?;
                self.create_dir_all(parent)?;
                DirBuilder::new().mode(0o700).create(dir)?;
            }
            Err(error) => return Err(error),
        }
        // The parent of a relative name of one component is the current directory.
        match dir.parent() {
            Some(parent) if parent != Path::new("") => self.sync_dir(parent),
            _ => self.sync_dir(Path::new(".")),
        }
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        open_dir(dir)?.sync_all()
    }

    fn free_space(&self, dir: &Path) -> io::Result<u64> {
        let stat = statvfs(dir)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn lock_dir(&self, dir: &Path) -> Result<DirLock, LockError> {
        let path = dir.join(LOCK_FILE);
        let io = |source| LockError::Io { path: path.clone(), source };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(&path).map_err(io)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(DirLock::new(file)),
            Err(Errno::WOULDBLOCK) => Err(LockError::Held(dir.to_path_buf())),
            Err(errno) => Err(io(errno.into())),
        }
    }
}

impl DiskFile for RealFile {
    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write_all_at(data, offset)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let mut done = 0;
        while done < buf.len() {
            match self.0.read_at(&mut buf[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        match fallocate(&self.0, FallocateFlags::empty(), 0, len) {
            // Some file systems cannot reserve; there the zeros written next find out about space.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => self.0.set_len(len),
            other => Ok(other?),
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn forget(&self) {
        // A file system that keeps everything in memory does not know how.
        let _ = fadvise(&self.0, 0, None, Advice::DontNeed);
    }
}
