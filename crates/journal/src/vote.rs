//! Vote: what a member must not forget about elections, in a small file beside the journal.
//!
//! ```text
//! <member>/vote    two sectors of 512 bytes with the same content
//! 0 "VETCHVT1" | 8 u64 counter | 16 u64 cluster | 24 u64 member | 32 u64 term | 40 u64 vote, 0: none
//! 48 u32 crc32c of bytes 0..48 | zeros
//! ```
//!
//! A member that votes twice in a term, or forgets a term that it has told others of, lets two
//! leaders be elected. So `save` returns when the new content is durable in both slots: the first
//! is written and synced, then the second. What is committed needs no place here: a leader tells.
//!
//! At every moment at least one slot is whole. The one that is being written may be torn, and then
//! its content was not acknowledged and the other counts; if both are whole the higher counter
//! counts. Later, a single slot that rots takes nothing with it. Two damaged slots are refused, and
//! so is the file of another member. `open` makes both slots durable with what it found before
//! anything is built upon it: the one with the older content first, so that the newer one is never
//! the only one to be lost.
//!
//! The vote is saved before entries of its term are: a member that starts never has entries of a
//! term that it does not know.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use vetch_base::{Epoch, MemberId};
use vetch_seeded_bugs::Bug;

use crate::disk::{Disk, DiskFile, read_file, write_atomically};

const MAGIC: [u8; 8] = *b"VETCHVT1";
const SECTOR: usize = 512;
const CRC_AT: usize = 48;

/// The highest term that this member knows of, and whom it has voted for in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vote {
    pub term: Epoch,
    pub vote: Option<MemberId>,
}

/// Whose vote a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Voter {
    pub cluster: u64,
    pub member: MemberId,
}

/// The file with the vote of this member.
#[derive(Debug)]
pub struct VoteFile {
    file: Box<dyn DiskFile>,
    path: PathBuf,
    voter: Voter,
    counter: u64,
    vote: Vote,
    poison: Option<Arc<str>>,
}

/// Why a vote cannot be read or saved.
#[derive(Clone, Debug, thiserror::Error)]
pub enum VoteError {
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: Arc<io::Error> },
    #[error(
        "{0}: both copies of the vote are damaged. Nothing was changed. A member that forgets its vote can elect two \
         leaders: remove it from its cluster and add it anew"
    )]
    Damaged(PathBuf),
    #[error("{path}: this is the vote of member {:x} of cluster {:x}, not of this one", .found.member, .found.cluster)]
    Foreign { path: PathBuf, found: Voter },
    /// An earlier write or sync failed: what the file holds is unknown until the next start.
    #[error("the vote could not be saved and the member must be started anew: {0}")]
    Poisoned(Arc<str>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot {
    counter: u64,
    voter: Voter,
    vote: Vote,
}

impl VoteFile {
    /// Makes the file of a member that has not voted yet, in a directory that has none.
    pub fn create(disk: &dyn Disk, dir: &Path, voter: Voter) -> Result<VoteFile, VoteError> {
        let slot = Slot { counter: 0, voter, vote: Vote::default() }.encode();
        let path = dir.join(Self::NAME);
        let made = match disk.open(&path) {
            Ok(_) => Err(io::ErrorKind::AlreadyExists.into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                write_atomically(disk, dir, Self::NAME, &[slot, slot].concat())
            }
            Err(error) => Err(error),
        };
        made.map_err(|error| io_error(&path, error))?;
        VoteFile::open(disk, dir, voter)
    }

    /// Opens the file and makes sure that what it says is durable.
    pub fn open(disk: &dyn Disk, dir: &Path, voter: Voter) -> Result<VoteFile, VoteError> {
        let path = dir.join(Self::NAME);
        // A process before this one may have been killed before the name was durable.
        let content = disk.sync_dir(dir).and_then(|()| read_file(disk, &path));
        let content = content.map_err(|error| io_error(&path, error))?;
        let slots = [0, 1].map(|n| Slot::parse(content.get(n * SECTOR..(n + 1) * SECTOR)?));
        let newest = slots.into_iter().flatten().max_by_key(|slot| slot.counter);
        let newest = newest.ok_or_else(|| VoteError::Damaged(path.clone()))?;
        if newest.voter != voter {
            return Err(VoteError::Foreign { path, found: newest.voter });
        }
        let file = disk.open_write(&path).map_err(|error| io_error(&path, error))?;
        let Slot { counter, vote, .. } = newest;
        let mut opened = VoteFile { file, path, voter, counter, vote, poison: None };
        let first = usize::from(slots[0] == Some(newest));
        opened.write([first, 1 - first], counter, vote)?;
        Ok(opened)
    }

    pub fn vote(&self) -> Vote {
        self.vote
    }

    /// Saves a new term, or the vote of this one. Durable when it returns.
    pub fn save(&mut self, vote: Vote) -> Result<(), VoteError> {
        if let Some(cause) = &self.poison {
            return Err(VoteError::Poisoned(cause.clone()));
        }
        assert!(vote.vote != Some(MemberId::ZERO), "no member has this id");
        assert!(vote.term >= self.vote.term, "terms never go back");
        let is_new = vote.term > self.vote.term || self.vote.vote.is_none();
        assert!(is_new || vote.vote == self.vote.vote, "a member votes once in a term");
        if vote == self.vote {
            return Ok(());
        }
        let counter = self.counter + 1;
        self.write([0, 1], counter, vote)?;
        (self.counter, self.vote) = (counter, vote);
        Ok(())
    }

    /// Writes the slots, each durable before the other is touched.
    fn write(&mut self, order: [usize; 2], counter: u64, vote: Vote) -> Result<(), VoteError> {
        let slot = Slot { counter, voter: self.voter, vote }.encode();
        for n in order {
            let written = self.file.write_at((n * SECTOR) as u64, &slot);
            let synced = written.and_then(|()| {
                if vetch_seeded_bugs::on(Bug::VoteNotSynced) { Ok(()) } else { self.file.sync_data() }
            });
            if let Err(error) = synced {
                let cause: Arc<str> = format!("{}: {error}", self.path.display()).into();
                self.poison = Some(cause.clone());
                return Err(VoteError::Poisoned(cause));
            }
        }
        Ok(())
    }

    const NAME: &str = "vote";
}

impl Slot {
    fn encode(&self) -> [u8; SECTOR] {
        let mut out = [0; SECTOR];
        out[0..8].copy_from_slice(&MAGIC);
        out[8..16].copy_from_slice(&self.counter.to_le_bytes());
        out[16..24].copy_from_slice(&self.voter.cluster.to_le_bytes());
        out[24..32].copy_from_slice(&self.voter.member.get().to_le_bytes());
        out[32..40].copy_from_slice(&self.vote.term.get().to_le_bytes());
        out[40..48].copy_from_slice(&self.vote.vote.unwrap_or(MemberId::ZERO).get().to_le_bytes());
        let crc = crc32c::crc32c(&out[..CRC_AT]);
        out[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
        out
    }

    fn parse(sector: &[u8]) -> Option<Slot> {
        let u64_at = |at: usize| u64::from_le_bytes(sector[at..at + 8].try_into().expect("eight bytes"));
        let crc = u32::from_le_bytes(sector[CRC_AT..CRC_AT + 4].try_into().expect("four bytes"));
        if sector[0..8] != MAGIC || crc != crc32c::crc32c(&sector[..CRC_AT]) {
            return None;
        }
        let vote = Some(MemberId::new(u64_at(40))).filter(|&vote| vote != MemberId::ZERO);
        Some(Slot {
            counter: u64_at(8),
            voter: Voter { cluster: u64_at(16), member: MemberId::new(u64_at(24)) },
            vote: Vote { term: Epoch::new(u64_at(32)), vote },
        })
    }
}

fn io_error(path: &Path, error: io::Error) -> VoteError {
    VoteError::Io { path: path.to_path_buf(), source: Arc::new(error) }
}
