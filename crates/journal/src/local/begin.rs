//! Begin: how a journal begins anew behind a checkpoint that came from another member.
//!
//! ```text
//! <dir>/begin   8 "VETCHBG1" | 8 u32 state: 1 announced, 2 decided | 12 u32 zero | 16 u64 epoch | 24 u64 seq
//!               32 i64 next revision | 40 [32] hash | 72 u32 crc32c of bytes 0..72
//! ```
//!
//! A checkpoint that this journal does not lead up to looks like a journal that has lost entries,
//! and is refused as that. So it is announced to the journal before the checkpoint is installed
//! (`announce_begin`), and gives up what it has after that (`begin_at`). In between the start of
//! the next recovery shows which checkpoint counts:
//!
//! | found at a start | from that checkpoint | from another one |
//! |---|---|---|
//! | announced | it was installed: carried out now | it was not installed: forgotten, nothing has changed |
//! | decided | carried out once more | refused: a part of what it would need may be gone |
//!
//! Carried out: every segment goes, an empty one gets the name of the entry behind the tip, and
//! the file goes. All of that can be done again at any point. The file is gone for good before
//! anything is appended, so entries behind the tip are never taken for old ones.

use std::io;
use std::path::Path;

use vetch_base::{Epoch, Seq};

use super::maintenance::Maintenance;
use super::segment::Segment;
use crate::contract::JournalError;
use crate::disk::{Disk, read_file, write_atomically};
use crate::entry::Tip;

const NAME: &str = "begin";
const MAGIC: [u8; 8] = *b"VETCHBG1";
const CRC_AT: usize = 72;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum State {
    Announced = 1,
    Decided = 2,
}

/// What the file says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Begin {
    state: State,
    tip: Tip,
}

impl Begin {
    pub(super) const LEN: usize = 76;

    pub(super) fn new(state: State, tip: Tip) -> Begin {
        Begin { state, tip }
    }

    pub(super) fn tip(&self) -> Tip {
        self.tip
    }

    pub(super) fn read(disk: &dyn Disk, dir: &Path) -> Result<Option<Begin>, JournalError> {
        match read_file(disk, &dir.join(NAME)) {
            Ok(content) => Begin::parse(&content).map(Some).ok_or_else(|| {
                JournalError::corrupt(
                    NAME,
                    0,
                    "it is not what was written when the journal was to begin anew",
                )
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(JournalError::io("reading", dir.join(NAME))(error)),
        }
    }

    pub(super) fn write(&self, disk: &dyn Disk, dir: &Path) -> io::Result<()> {
        write_atomically(disk, dir, NAME, &self.encode())
    }

    /// The file goes for good, if there is one.
    pub(super) fn forget(disk: &dyn Disk, dir: &Path) -> Result<(), JournalError> {
        let removed = match disk.remove(&dir.join(NAME)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => disk.sync_dir(dir),
        };
        removed.map_err(JournalError::io("removing", dir.join(NAME)))
    }

    /// A start from another checkpoint: nothing has happened yet, or it is refused.
    pub(super) fn check_void(&self, start: Tip, dir: &Path) -> Result<(), JournalError> {
        match self.state {
            State::Announced => Ok(()),
            State::Decided => {
                let (tip, start) = (self.tip.seq, start.seq);
                let reason = format!(
                    "the journal was given up for a checkpoint at entry {tip}, but the start is at {start}"
                );
                Err(JournalError::corrupt(dir.join(NAME).display().to_string(), 0, reason))
            }
        }
    }

    /// At a start: leaves an empty journal, and no file.
    pub(super) fn carry_out(
        self,
        disk: &dyn Disk,
        dir: &Path,
        maintenance: &Maintenance,
    ) -> Result<(), JournalError> {
        if self.state == State::Announced {
            let decided = Begin { state: State::Decided, ..self };
            decided.write(disk, dir).map_err(JournalError::io("writing", dir.join(NAME)))?;
        }
        remove_segments(disk, dir).map_err(JournalError::io("removing the segments in", dir))?;
        let spare = maintenance.take(0)?;
        let name = dir.join(Segment::behind(self.tip).name);
        let named = disk.rename(&spare.path, &name).and_then(|()| disk.sync_dir(dir));
        named.map_err(JournalError::io("naming a segment in", dir))?;
        Begin::forget(disk, dir)
    }

    fn encode(&self) -> [u8; Begin::LEN] {
        let mut out = [0; Begin::LEN];
        out[0..8].copy_from_slice(&MAGIC);
        out[8..12].copy_from_slice(&(self.state as u32).to_le_bytes());
        out[16..24].copy_from_slice(&self.tip.epoch.get().to_le_bytes());
        out[24..32].copy_from_slice(&self.tip.seq.get().to_le_bytes());
        out[32..40].copy_from_slice(&self.tip.next_rev.to_le_bytes());
        out[40..72].copy_from_slice(&self.tip.hash);
        let crc = crc32c::crc32c(&out[..CRC_AT]);
        out[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    fn parse(content: &[u8]) -> Option<Begin> {
        let content: &[u8; Begin::LEN] = content.try_into().ok()?;
        let u32_at = |at: usize| u32::from_le_bytes(content[at..at + 4].try_into().expect("four bytes"));
        let u64_at = |at: usize| u64::from_le_bytes(content[at..at + 8].try_into().expect("eight bytes"));
        if content[0..8] != MAGIC || u32_at(CRC_AT) != crc32c::crc32c(&content[..CRC_AT]) {
            return None;
        }
        let state = match u32_at(8) {
            1 => State::Announced,
            2 => State::Decided,
            _ => return None,
        };
        let tip = Tip {
            epoch: Epoch::new(u64_at(16)),
            seq: Seq::new(u64_at(24)),
            next_rev: i64::from_le_bytes(content[32..40].try_into().expect("eight bytes")),
            hash: content[40..72].try_into().expect("32 bytes"),
        };
        Some(Begin { state, tip })
    }
}

/// In any order, because the file says that all go.
pub(super) fn remove_segments(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    for segment in Segment::among(&disk.list(dir)?) {
        disk.remove(&dir.join(&segment.name))?;
    }
    disk.sync_dir(dir)
}
