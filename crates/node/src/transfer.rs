//! Transfer: the newest checkpoint of one server becomes another's, file by file as it lies there.
//!
//! Whoever sends holds the checkpoint, so that its files stay ([`Offer`]). Whoever receives builds
//! a directory under another name, reads all of it back, and renames it ([`Receiving`]): an
//! interrupted transfer leaves a directory that is removed and never taken for a checkpoint. What
//! was there before is put aside first and removed last; a server that loses power in between
//! begins with nothing, and takes a checkpoint again.
//!
//! Not here: who sends to whom, and over what.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use vetch_cluster::LogIndex;
use vetch_encryption::EncryptionKeys;
use vetch_journal::{DirLock, Disk, DiskFile, LockError, Position, RealDisk};

use crate::checkpoint::{self, Held, LoadError};
use crate::handle::Node;

/// Bytes that are sent at once.
const PIECE: usize = 256 << 10;
/// Files of a checkpoint; far more than there are.
const MOST_FILES: usize = 4096;
/// How long the directory's last user may take to let go of it.
const ENQUEUE_TIMEOUT: Duration = Duration::from_secs(10);

const CURRENT: &str = "checkpoint";
const RECEIVING: &str = "checkpoint.receiving";
const REPLACED: &str = "checkpoint.replaced";

/// What a checkpoint consists of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// The place in the journal that leads to it.
    pub index: LogIndex,
    pub revision: i64,
    /// The number in the name of its last file.
    pub number: u64,
    /// Names and lengths, in the order in which they are sent.
    pub files: Vec<(String, u64)>,
}

impl Manifest {
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|(_, len)| *len).fold(0, u64::saturating_add)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    #[error("{op} {}: {source}", path.display())]
    Io { op: &'static str, path: PathBuf, source: io::Error },
    #[error(transparent)]
    Locked(#[from] LockError),
    #[error("what another server sent is no checkpoint: {0}")]
    Refused(String),
    #[error("what another server sent is damaged: {0}")]
    Damaged(#[from] LoadError),
    #[error("a checkpoint of {needed} bytes does not fit: the disk has {free} left")]
    NoSpace { needed: u64, free: u64 },
}

/// A checkpoint on its way to another server. Its files stay until this is dropped.
pub struct Offer {
    manifest: Manifest,
    dir: PathBuf,
    at: usize,
    offset: u64,
    open: Option<Box<dyn DiskFile>>,
    _held: Held,
}

impl Node {
    /// The newest checkpoint of a server on a shared journal. None: there is none yet.
    pub fn offer_checkpoint(&self) -> io::Result<Option<Offer>> {
        let dir = self.state().config.data_dir.join("member").join(CURRENT);
        let is_shared = self.state().cluster.is_some();
        let Some(held) = self.state().keep.hold_checkpoint().filter(|_| is_shared) else { return Ok(None) };
        let names = held.files.data.iter().chain([&held.files.manifest]);
        let files = names.map(|name| Ok((name.clone(), RealDisk.open(&dir.join(name))?.len()?)));
        let manifest = Manifest {
            index: LogIndex { position: Position(held.files.position), tip: held.files.tip },
            revision: held.files.mark.revision,
            number: held.files.number,
            files: files.collect::<io::Result<_>>()?,
        };
        Ok(Some(Offer { manifest, dir, at: 0, offset: 0, open: None, _held: held }))
    }
}

impl Offer {
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The next piece, never of two files; None behind the last.
    pub fn next_piece(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            let Some((name, len)) = self.manifest.files.get(self.at) else { return Ok(None) };
            if self.offset == *len {
                (self.at, self.offset, self.open) = (self.at + 1, 0, None);
                continue;
            }
            if self.open.is_none() {
                self.open = Some(RealDisk.open(&self.dir.join(name))?);
            }
            let left = usize::try_from(len - self.offset).unwrap_or(PIECE).min(PIECE);
            let mut piece = vec![0; left];
            let file = self.open.as_ref().expect("it was opened");
            if file.read_at(self.offset, &mut piece)? != left {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.offset += left as u64;
            return Ok(Some(piece.into()));
        }
    }
}

/// A checkpoint that arrives from another server. Nothing else uses the directory meanwhile.
pub struct Receiving {
    manifest: Manifest,
    member: PathBuf,
    at: usize,
    offset: u64,
    open: Option<Box<dyn DiskFile>>,
    _lock: DirLock,
}

impl Receiving {
    /// Begins anew, whatever an earlier attempt left.
    pub fn begin(data_dir: &Path, manifest: Manifest) -> Result<Receiving, TransferError> {
        check(&manifest)?;
        let member = data_dir.join("member");
        RealDisk.create_dir_all(&member).map_err(failed("creating", &member))?;
        let lock = lock(&member)?;
        clean(&member)?;
        let free = RealDisk.free_space(&member).map_err(failed("looking at", &member))?;
        if free < manifest.bytes() {
            return Err(TransferError::NoSpace { needed: manifest.bytes(), free });
        }
        let dir = member.join(RECEIVING);
        RealDisk.create_dir_all(&dir).map_err(failed("creating", &dir))?;
        Ok(Receiving { manifest, member, at: 0, offset: 0, open: None, _lock: lock })
    }

    /// Takes the next piece.
    pub fn take(&mut self, piece: &[u8]) -> Result<(), TransferError> {
        let mut piece = piece;
        while !piece.is_empty() {
            self.complete()?;
            let Some((name, len)) = self.manifest.files.get(self.at) else {
                return Err(TransferError::Refused("more bytes than were announced".into()));
            };
            let path = self.member.join(RECEIVING).join(name);
            if self.open.is_none() {
                self.open = Some(RealDisk.create(&path).map_err(failed("creating", &path))?);
            }
            let file = self.open.as_ref().expect("it was opened");
            let part = usize::try_from(len - self.offset).unwrap_or(usize::MAX).min(piece.len());
            file.write_at(self.offset, &piece[..part]).map_err(failed("writing", &path))?;
            self.offset += part as u64;
            piece = &piece[part..];
        }
        Ok(())
    }

    /// Closes the current file if all of it is there.
    fn complete(&mut self) -> Result<(), TransferError> {
        while let Some((name, len)) = self.manifest.files.get(self.at)
            && self.offset == *len
        {
            let path = self.member.join(RECEIVING).join(name);
            if let Some(file) = self.open.take() {
                file.sync_data().map_err(failed("syncing", &path))?;
            }
            (self.at, self.offset) = (self.at + 1, 0);
        }
        Ok(())
    }

    /// Everything has been sent: it is read back, and takes the place of what was there.
    pub fn finish(mut self) -> Result<(), TransferError> {
        self.complete()?;
        if self.at < self.manifest.files.len() {
            return Err(TransferError::Refused("fewer bytes than were announced".into()));
        }
        let received = self.member.join(RECEIVING);
        RealDisk.sync_dir(&received).map_err(failed("syncing", &received))?;
        let index = checkpoint::audit(&RealDisk, &received, self.manifest.number, &EncryptionKeys::none())?;
        if index != self.manifest.index {
            return Err(TransferError::Refused("its files are of another place in the journal".into()));
        }
        let (current, replaced) = (self.member.join(CURRENT), self.member.join(REPLACED));
        if current.exists() {
            std::fs::rename(&current, &replaced).map_err(failed("renaming", &current))?;
        }
        std::fs::rename(&received, &current).map_err(failed("renaming", &received))?;
        RealDisk.sync_dir(&self.member).map_err(failed("syncing", &self.member))?;
        clean(&self.member)
    }
}

/// Names are used as they are, so they have to be those of a checkpoint.
fn check(manifest: &Manifest) -> Result<(), TransferError> {
    let refused = |why: &str| Err(TransferError::Refused(why.into()));
    if manifest.files.is_empty() || manifest.files.len() > MOST_FILES {
        return refused("it has no files, or too many");
    }
    if manifest.index.position.0 == 0 {
        return refused("it belongs to no shared journal");
    }
    let names: Vec<&str> = manifest.files.iter().map(|(name, _)| name.as_str()).collect();
    if !checkpoint::are_files_of(manifest.number, &names) {
        return refused("its files have other names");
    }
    Ok(())
}

/// Removes what interrupted transfers left in the directory `member`.
pub(crate) fn clean(member: &Path) -> Result<(), TransferError> {
    for name in [RECEIVING, REPLACED] {
        let dir = member.join(name);
        match std::fs::remove_dir_all(&dir) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(failed("removing", &dir)(error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// A node that ends lets go of its directory a moment later.
fn lock(member: &Path) -> Result<DirLock, LockError> {
    let began = Instant::now();
    loop {
        match RealDisk.lock_dir(member) {
            Err(LockError::Held(_)) if began.elapsed() < ENQUEUE_TIMEOUT => {
                std::thread::sleep(ENQUEUE_TIMEOUT / 200)
            }
            outcome => return outcome,
        }
    }
}

fn failed(op: &'static str, path: &Path) -> impl FnOnce(io::Error) -> TransferError {
    let path = path.to_path_buf();
    move |source| TransferError::Io { op, path, source }
}
