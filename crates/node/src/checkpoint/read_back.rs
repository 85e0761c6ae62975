//! Reading back: is every byte of a checkpoint what was written? In steps, so that it can be done
//! beside everything else.
//!
//! What a file system keeps in memory proves nothing about the medium, so it is asked to forget a
//! file before that is read.

use std::collections::VecDeque;
use std::path::Path;

use vetch_encryption::EncryptionKeys;
use vetch_journal::Disk;

use super::data_file::{DataReader, Written};
use super::directory::manifest_name;
use super::error::Damage;
use super::recovery::{ReadError, read_manifest};

/// A file of a checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CheckpointFile {
    Manifest { number: u64, size: u64 },
    Data(Written),
}

impl CheckpointFile {
    pub(super) fn size(&self) -> u64 {
        match self {
            CheckpointFile::Manifest { size, .. } => *size,
            CheckpointFile::Data(written) => written.size,
        }
    }
}

/// A row of files being read.
#[derive(Debug, Default)]
pub(super) struct ReadBack {
    waiting: VecDeque<CheckpointFile>,
    open: Option<Reading>,
    scratch: Vec<u8>,
}

#[derive(Debug)]
struct Reading {
    file: Written,
    reader: DataReader,
    next: usize,
}

/// What came of a step: the bytes that were read, and a file that is done with, good or not.
pub(super) struct Read {
    pub(super) bytes: u64,
    pub(super) ended: Option<(CheckpointFile, Result<(), Damage>)>,
}

impl ReadBack {
    pub(super) fn of(files: impl IntoIterator<Item = CheckpointFile>) -> ReadBack {
        ReadBack { waiting: files.into_iter().collect(), ..ReadBack::default() }
    }

    pub(super) fn is_done(&self) -> bool {
        self.open.is_none() && self.waiting.is_empty()
    }

    /// Leaves out files that are no longer needed: they may be gone.
    pub(super) fn retain(&mut self, is_needed: impl Fn(&CheckpointFile) -> bool) {
        self.waiting.retain(&is_needed);
        self.open.take_if(|open| !is_needed(&CheckpointFile::Data(open.file)));
    }

    /// Reads one block, or the head of the next file.
    pub(super) fn step(&mut self, disk: &dyn Disk, dir: &Path, keys: &EncryptionKeys) -> Read {
        match self.open.take() {
            Some(open) => self.read_block(open),
            None => self.begin(disk, dir, keys),
        }
    }

    fn begin(&mut self, disk: &dyn Disk, dir: &Path, keys: &EncryptionKeys) -> Read {
        let Some(file) = self.waiting.pop_front() else { return Read { bytes: 0, ended: None } };
        match file {
            CheckpointFile::Manifest { number, size } => {
                if let Ok(file) = disk.open(&dir.join(manifest_name(number))) {
                    file.forget();
                }
                let outcome = match read_manifest(disk, dir, number, keys) {
                    Err(ReadError::Damaged(damage)) => Err(damage),
                    // A key that is not there any more says nothing about the bytes.
                    Ok(_) | Err(ReadError::Refused(_)) => Ok(()),
                };
                Read { bytes: size, ended: Some((file, outcome)) }
            }
            CheckpointFile::Data(written) => match DataReader::open_afresh(disk, dir, written, keys) {
                Ok(reader) => {
                    self.open = Some(Reading { file: written, reader, next: 0 });
                    Read { bytes: 0, ended: None }
                }
                Err(damage) => Read { bytes: written.size, ended: Some((file, Err(damage))) },
            },
        }
    }

    fn read_block(&mut self, mut open: Reading) -> Read {
        if open.next == open.reader.blocks() {
            open.reader.forget();
            return Read { bytes: 0, ended: Some((CheckpointFile::Data(open.file), Ok(()))) };
        }
        let bytes = open.reader.block_bytes(open.next);
        match open.reader.read_block(open.next, &mut self.scratch) {
            Ok(_) => {
                open.next += 1;
                self.open = Some(open);
                Read { bytes, ended: None }
            }
            Err(damage) => Read { bytes, ended: Some((CheckpointFile::Data(open.file), Err(damage))) },
        }
    }
}
