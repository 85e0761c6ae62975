//! Transfer: the newest checkpoint of one server becomes another's, file by file, unchanged.
//!
//! The sender pins the checkpoint, so that its files stay ([`CheckpointSender`]). The receiver
//! builds a directory under another name, reads all of it back, and renames it
//! ([`CheckpointReceiver`]): an interrupted transfer leaves a directory that is removed and never
//! taken for a checkpoint. The previous checkpoint is renamed first and removed last; a server that
//! loses power in between starts with nothing, and fetches a checkpoint again.
//!
//! Not here: which server sends to which, and the protocol.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use vetch_encryption::EncryptionKeys;
use vetch_journal::{DirLock, Disk, DiskFile, LockError, Position, RealDisk, Tip};

use super::directory::are_files_of;
use super::error::LoadError;
use super::pins::PinnedCheckpoint;
use super::recovery::audit;

/// Bytes of a piece.
const PIECE_BYTES: usize = 256 << 10;
/// Limit on the files of a checkpoint; far more than there are.
const FILES_MAX: usize = 4096;
/// The last user of the directory unlocks it within this time.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
const LOCK_RETRY_DELAY: Duration = Duration::from_millis(50);

const CURRENT: &str = "checkpoint";
const RECEIVING: &str = "checkpoint.receiving";
const REPLACED: &str = "checkpoint.replaced";

/// What a checkpoint consists of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransferManifest {
    /// The position and tip of the record in the shared journal that leads to it.
    pub position: Position,
    pub tip: Tip,
    pub revision: i64,
    /// The number in the name of its last file.
    pub number: u64,
    /// Names and lengths, in the order in which they are sent.
    pub files: Vec<(String, u64)>,
}

impl TransferManifest {
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
    #[error("what another server sent is not a checkpoint: {0}")]
    Refused(#[from] BadTransfer),
    #[error("the checkpoint from another server is damaged: {0}")]
    Damaged(#[from] LoadError),
    #[error("a checkpoint of {needed} bytes does not fit: the disk has {free} left")]
    NoSpace { needed: u64, free: u64 },
}

/// Why what was sent is not a checkpoint of the shared journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadTransfer {
    #[error("it has no files, or too many")]
    FileCount,
    #[error("it belongs to no shared journal")]
    NotShared,
    #[error("its files have other names")]
    FileNames,
    #[error("more bytes than were announced")]
    TooLong,
    #[error("fewer bytes than were announced")]
    TooShort,
    #[error("its files are of another position in the journal")]
    OtherPosition,
}

/// A checkpoint being sent to another server. Its files stay until this is dropped.
pub struct CheckpointSender {
    manifest: TransferManifest,
    dir: PathBuf,
    at: usize,
    offset: u64,
    open: Option<Box<dyn DiskFile>>,
    _pinned: PinnedCheckpoint,
}

impl CheckpointSender {
    /// Begins to send `pinned`, whose files are in the directory `member`.
    pub fn begin(member: &Path, pinned: PinnedCheckpoint) -> io::Result<CheckpointSender> {
        let dir = member.join(CURRENT);
        let sent = pinned.files();
        let names = sent.data.iter().chain([&sent.manifest]);
        let files = names.map(|name| Ok((name.clone(), RealDisk.open(&dir.join(name))?.len()?)));
        let manifest = TransferManifest {
            position: Position(sent.position),
            tip: sent.tip,
            revision: sent.mark.revision,
            number: sent.number,
            files: files.collect::<io::Result<_>>()?,
        };
        Ok(CheckpointSender { manifest, dir, at: 0, offset: 0, open: None, _pinned: pinned })
    }

    pub fn manifest(&self) -> &TransferManifest {
        &self.manifest
    }

    /// The next piece, never of two files; none after the last.
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
            let left = usize::try_from(len - self.offset).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
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

/// A checkpoint being received from another server. The directory is locked meanwhile.
pub struct CheckpointReceiver {
    manifest: TransferManifest,
    member: PathBuf,
    at: usize,
    offset: u64,
    open: Option<Box<dyn DiskFile>>,
    _lock: DirLock,
}

impl CheckpointReceiver {
    /// Begins, and removes what an earlier attempt left.
    pub fn begin(data_dir: &Path, manifest: TransferManifest) -> Result<CheckpointReceiver, TransferError> {
        check(&manifest)?;
        let member = data_dir.join("member");
        RealDisk.create_dir_all(&member).map_err(failed("creating", &member))?;
        let lock = lock(&member)?;
        remove_unfinished(&member)?;
        let free = RealDisk.free_space(&member).map_err(failed("finding the free space of", &member))?;
        if free < manifest.bytes() {
            return Err(TransferError::NoSpace { needed: manifest.bytes(), free });
        }
        let dir = member.join(RECEIVING);
        RealDisk.create_dir_all(&dir).map_err(failed("creating", &dir))?;
        Ok(CheckpointReceiver { manifest, member, at: 0, offset: 0, open: None, _lock: lock })
    }

    /// Writes the next piece.
    pub fn write(&mut self, piece: &[u8]) -> Result<(), TransferError> {
        let mut piece = piece;
        while !piece.is_empty() {
            self.close_complete_files()?;
            let Some((name, len)) = self.manifest.files.get(self.at) else {
                return Err(BadTransfer::TooLong.into());
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

    /// Closes the current file if it is complete, and skips empty ones.
    fn close_complete_files(&mut self) -> Result<(), TransferError> {
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

    /// Everything was sent: reads it back, and replaces the previous checkpoint with it.
    pub fn finish(mut self) -> Result<(), TransferError> {
        self.close_complete_files()?;
        if self.at < self.manifest.files.len() {
            return Err(BadTransfer::TooShort.into());
        }
        let received = self.member.join(RECEIVING);
        RealDisk.sync_dir(&received).map_err(failed("syncing", &received))?;
        let found = audit(&RealDisk, &received, self.manifest.number, &EncryptionKeys::none())?;
        if found != (self.manifest.position, self.manifest.tip) {
            return Err(BadTransfer::OtherPosition.into());
        }
        let (current, replaced) = (self.member.join(CURRENT), self.member.join(REPLACED));
        if current.exists() {
            std::fs::rename(&current, &replaced).map_err(failed("renaming", &current))?;
        }
        std::fs::rename(&received, &current).map_err(failed("renaming", &received))?;
        RealDisk.sync_dir(&self.member).map_err(failed("syncing", &self.member))?;
        remove_unfinished(&self.member)
    }
}

/// The names become paths, so they must be those of a checkpoint's files.
fn check(manifest: &TransferManifest) -> Result<(), BadTransfer> {
    if manifest.files.is_empty() || manifest.files.len() > FILES_MAX {
        return Err(BadTransfer::FileCount);
    }
    if manifest.position.0 == 0 {
        return Err(BadTransfer::NotShared);
    }
    let names: Vec<&str> = manifest.files.iter().map(|(name, _)| name.as_str()).collect();
    if !are_files_of(manifest.number, &names) {
        return Err(BadTransfer::FileNames);
    }
    Ok(())
}

/// Removes what interrupted transfers left in the directory `member`.
pub fn remove_unfinished(member: &Path) -> Result<(), TransferError> {
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

/// A node that stops unlocks its directory a moment later.
fn lock(member: &Path) -> Result<DirLock, LockError> {
    let began = Instant::now();
    loop {
        match RealDisk.lock_dir(member) {
            Err(LockError::Held(_)) if began.elapsed() < LOCK_TIMEOUT => std::thread::sleep(LOCK_RETRY_DELAY),
            outcome => return outcome,
        }
    }
}

fn failed(op: &'static str, path: &Path) -> impl FnOnce(io::Error) -> TransferError {
    let path = path.to_path_buf();
    move |source| TransferError::Io { op, path, source }
}
