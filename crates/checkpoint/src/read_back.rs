//! Read-back: checks that every byte of a checkpoint is what was written, in small steps.
//!
//! The page cache proves nothing about the medium, so a file is dropped from it before it is read.

use std::collections::VecDeque;
use std::path::Path;

use vetch_encryption::EncryptionKeys;
use vetch_journal::Disk;

use super::data_file::{DataReader, WrittenFile};
use super::directory::manifest_name;
use super::error::Damage;
use super::manifest_file::{ReadError, read_manifest};

/// A file of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CheckpointFile {
    Manifest { number: u64, size: u64 },
    Data(WrittenFile),
}

impl CheckpointFile {
    pub(super) fn size(&self) -> u64 {
        match self {
            CheckpointFile::Manifest { size, .. } => *size,
            CheckpointFile::Data(written) => written.size,
        }
    }
}

/// A queue of files being read.
#[derive(Debug, Default)]
pub(super) struct ReadBack {
    queue: VecDeque<CheckpointFile>,
    open: Option<OpenFile>,
    scratch: Vec<u8>,
}

#[derive(Debug)]
struct OpenFile {
    file: WrittenFile,
    reader: DataReader,
    next: usize,
}

/// The outcome of a step: the bytes that were read, and the file that was completed, if any.
pub(super) struct ReadStep {
    pub(super) bytes: u64,
    pub(super) ended: Option<(CheckpointFile, Result<(), Damage>)>,
}

impl ReadBack {
    pub(super) fn new(files: impl IntoIterator<Item = CheckpointFile>) -> ReadBack {
        ReadBack { queue: files.into_iter().collect(), ..ReadBack::default() }
    }

    pub(super) fn is_done(&self) -> bool {
        self.open.is_none() && self.queue.is_empty()
    }

    /// Drops files that are no longer needed and may be removed.
    pub(super) fn retain(&mut self, is_needed: impl Fn(&CheckpointFile) -> bool) {
        self.queue.retain(&is_needed);
        self.open.take_if(|open| !is_needed(&CheckpointFile::Data(open.file)));
    }

    /// Reads one block, or opens the next file.
    pub(super) fn step(&mut self, disk: &dyn Disk, dir: &Path, keys: &EncryptionKeys) -> ReadStep {
        match self.open.take() {
            Some(open) => self.read_block(open),
            None => self.begin(disk, dir, keys),
        }
    }

    fn begin(&mut self, disk: &dyn Disk, dir: &Path, keys: &EncryptionKeys) -> ReadStep {
        let Some(file) = self.queue.pop_front() else { return ReadStep { bytes: 0, ended: None } };
        match file {
            CheckpointFile::Manifest { number, size } => {
                if let Ok(file) = disk.open(&dir.join(manifest_name(number))) {
                    file.forget();
                }
                let outcome = match read_manifest(disk, dir, number, keys) {
                    Err(ReadError::Damaged(damage)) => Err(damage),
                    // A missing key says nothing about the bytes.
                    Ok(_) | Err(ReadError::Refused(_)) => Ok(()),
                };
                ReadStep { bytes: size, ended: Some((file, outcome)) }
            }
            CheckpointFile::Data(written) => match DataReader::open_uncached(disk, dir, written, keys) {
                Ok(reader) => {
                    self.open = Some(OpenFile { file: written, reader, next: 0 });
                    ReadStep { bytes: 0, ended: None }
                }
                Err(damage) => ReadStep { bytes: written.size, ended: Some((file, Err(damage))) },
            },
        }
    }

    fn read_block(&mut self, mut open: OpenFile) -> ReadStep {
        if open.next == open.reader.blocks() {
            open.reader.forget();
            return ReadStep { bytes: 0, ended: Some((CheckpointFile::Data(open.file), Ok(()))) };
        }
        let bytes = open.reader.block_bytes(open.next);
        match open.reader.read_block(open.next, &mut self.scratch) {
            Ok(_) => {
                open.next += 1;
                self.open = Some(open);
                ReadStep { bytes, ended: None }
            }
            Err(damage) => ReadStep { bytes, ended: Some((CheckpointFile::Data(open.file), Err(damage))) },
        }
    }
}
