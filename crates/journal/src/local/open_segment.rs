//! A segment being read: a window of bytes over its file, and how to blame a place in it.

use std::path::Path;

use bytes::{Buf, Bytes};

use super::header::SECTOR;
use super::segment::Segment;
use crate::contract::JournalError;
use crate::disk::{Disk, DiskFile};

/// Bytes per read.
const CHUNK: u64 = 1 << 20;

/// The segment and how far its records were read.
pub(super) struct OpenSegment {
    pub(super) segment: Segment,
    /// Whole sectors.
    pub(super) len: u64,
    file_len: u64,
    pub(super) offset: u64,
    file: Box<dyn DiskFile>,
    window: (u64, Bytes),
}

impl OpenSegment {
    pub(super) fn open(disk: &dyn Disk, dir: &Path, segment: Segment) -> Result<OpenSegment, JournalError> {
        let path = dir.join(&segment.name);
        let opened = disk.open(&path).and_then(|file| Ok((file.len()?, file)));
        let (len, file) = opened.map_err(JournalError::io("opening", path))?;
        let open = OpenSegment { segment, len, file_len: len, offset: 0, file, window: (0, Bytes::new()) };
        if len == 0 || len % SECTOR as u64 != 0 {
            return Err(
                open.corrupt(len, "the file was cut short: its length is not a whole number of sectors")
            );
        }
        Ok(open)
    }

    /// Opens a file of any length; what is behind the last whole sector is left out.
    pub(super) fn open_as_is(
        disk: &dyn Disk,
        dir: &Path,
        segment: Segment,
    ) -> Result<OpenSegment, JournalError> {
        let path = dir.join(&segment.name);
        let opened = disk.open(&path).and_then(|file| Ok((file.len()?, file)));
        let (file_len, file) = opened.map_err(JournalError::io("opening", path))?;
        let len = file_len - file_len % SECTOR as u64;
        Ok(OpenSegment { segment, len, file_len, offset: 0, file, window: (0, Bytes::new()) })
    }

    /// Of the file as it is.
    pub(super) fn file_len(&self) -> u64 {
        self.file_len
    }

    /// `len` bytes at `at`, which must lie within the file.
    pub(super) fn bytes(&mut self, at: u64, len: u64) -> Result<Bytes, JournalError> {
        assert!(at + len <= self.len, "reads stay within the segment");
        let (start, window) = &self.window;
        if at < *start || at + len > start + window.len() as u64 {
            let want = len.max(CHUNK).min(self.len - at);
            // Where reading ahead fails, the bytes that are needed may still be readable.
            let loaded = self.load(at, want).or_else(|_| self.load(at, len))?;
            self.window = (at, loaded);
        }
        let mut found = self.window.1.clone();
        found.advance(usize::try_from(at - self.window.0).expect("within the window"));
        found.truncate(usize::try_from(len).expect("within the window"));
        Ok(found)
    }

    fn load(&self, at: u64, len: u64) -> Result<Bytes, JournalError> {
        let mut buf = vec![0; usize::try_from(len).expect("bounded by the segment")];
        let n = self
            .file
            .read_at(at, &mut buf)
            .map_err(|error| self.corrupt(at, format!("cannot be read: {error}")))?;
        if n < buf.len() {
            return Err(self.corrupt(at + n as u64, "the file became shorter while it was read"));
        }
        Ok(Bytes::from(buf))
    }

    pub(super) fn corrupt(&self, offset: u64, reason: impl Into<String>) -> JournalError {
        JournalError::corrupt(&self.segment.name, offset, reason)
    }

    pub(super) fn unsupported(&self, offset: u64, version: u16) -> JournalError {
        let what = format!("record version {version}");
        JournalError::NotSupported { file: self.segment.name.clone(), offset, what }
    }
}
