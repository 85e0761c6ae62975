//! Catalog: what a backup holds, which points it can restore, and what a restore of one needs.
//!
//! A journal's chunks make runs without gaps. A full backup that lies in a run leads, with the
//! chunks behind it, to every later entry of the run; one that lies in none leads to itself alone.
//! What lies in a gap, or before the first full backup of a run, cannot be restored. An object that
//! is damaged counts as not there, and is named: what does without it can still be restored.

mod plan;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::depot::{Depot, Listed};
use crate::error::BackupError;
use crate::format::{self, Chunk, ChunkHeader, ChunkInfo, Full, Name, Owner, chunk_name, decode};
use crate::times;
use vetch_base::Seq;

pub use plan::{Plan, Stop, Target};

/// Of a chunk this much is read for its header; marks seldom make it longer.
const PEEK: u64 = 8 << 10;

/// All there is at a location.
#[derive(Debug, Clone)]
pub struct Catalog {
    pub owner: Owner,
    pub timelines: Vec<Timeline>,
}

/// The archive of one journal.
#[derive(Debug, Clone, Default)]
pub struct Timeline {
    pub journal: String,
    /// In order of their entries.
    pub fulls: Vec<Full>,
    /// In order of their entries.
    pub chunks: Vec<ChunkInfo>,
    /// What cannot be used, and why.
    pub damage: Vec<String>,
    /// First entries of damaged chunks.
    pub damaged_chunks: Vec<Seq>,
}

/// A stretch in which every revision can be restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restorable {
    pub journal: String,
    pub first: i64,
    pub last: i64,
    /// The first and the last time that a mark records. `None`: only revisions can be named.
    pub times: Option<(u64, u64)>,
}

impl std::fmt::Display for Restorable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "journal {}: revisions {} to {}", self.journal, self.first, self.last)?;
        match self.times {
            Some((from, to)) => write!(f, ", {} to {}", times::shown(from), times::shown(to)),
            None => Ok(()),
        }
    }
}

impl Catalog {
    /// Reads what is at the location, but for the contents of files and chunks.
    pub fn read(depot: &Depot) -> Result<Catalog, BackupError> {
        let owner = match depot.get(format::OWNER) {
            Ok(bytes) => decode(format::OWNER, &bytes)?,
            Err(BackupError::Missing(_)) => {
                let reason = format!("there is no backup here: {} is missing", format::OWNER);
                return Err(BackupError::Location { location: depot.location().to_owned(), reason });
            }
            Err(error) => return Err(error),
        };
        let mut by_journal: BTreeMap<String, Vec<Listed>> = BTreeMap::new();
        for listed in depot.list(None)? {
            match Name::parse(&listed.name) {
                Some(Name::Full { journal, .. } | Name::Chunk { journal, .. }) => {
                    by_journal.entry(journal).or_default().push(listed);
                }
                Some(Name::Owner | Name::File { .. }) | None => {}
            }
        }
        let timelines = by_journal.into_iter().map(|(journal, listed)| Timeline::of(depot, journal, &listed));
        Ok(Catalog { owner, timelines: timelines.collect::<Result<_, _>>()? })
    }

    /// What was found that cannot be used, and why.
    pub fn damage(&self) -> impl Iterator<Item = &str> {
        self.timelines.iter().flat_map(|timeline| &timeline.damage).map(String::as_str)
    }

    /// Everything that can be restored.
    pub fn restorable(&self) -> Vec<Restorable> {
        self.timelines.iter().flat_map(Timeline::restorable).collect()
    }
}

fn read_full(depot: &Depot, name: &str, journal: &str, seq: Seq) -> Result<Full, BackupError> {
    let full: Full = decode(name, &depot.get(name)?)?;
    if full.seq != seq || full.journal != journal {
        return Err(BackupError::damaged(name, "it is not what its name says"));
    }
    Ok(full)
}

/// The header of a chunk, most often found in its beginning.
fn read_header(depot: &Depot, name: &str, beginning: &[u8]) -> Result<ChunkHeader, BackupError> {
    match Chunk::peek(name, beginning)? {
        Some(header) => Ok(header),
        None => Ok(Chunk::decode(name, &depot.get(name)?)?.header),
    }
}

impl Timeline {
    /// Reads what there is of one journal.
    pub fn read(depot: &Depot, journal: &str) -> Result<Timeline, BackupError> {
        let mut listed = depot.list(Some(&format!("{journal}/full")))?;
        listed.extend(depot.list(Some(&format!("{journal}/journal")))?);
        Timeline::of(depot, journal.to_owned(), &listed)
    }

    fn of(depot: &Depot, journal: String, listed: &[Listed]) -> Result<Timeline, BackupError> {
        let mut timeline = Timeline { journal, ..Timeline::default() };
        let mut chunks = Vec::new();
        for object in listed {
            match Name::parse(&object.name) {
                Some(Name::Full { seq, .. }) => {
                    let full = read_full(depot, &object.name, &timeline.journal, seq);
                    let full = timeline.note(full)?;
                    timeline.fulls.extend(full);
                }
                Some(Name::Chunk { first_seq, .. }) => chunks.push((first_seq, object.size)),
                _ => {}
            }
        }
        timeline.fulls.sort_by_key(|full| full.seq);
        timeline.chunks = timeline.look_up(depot, chunks)?;
        timeline.chunks.sort_by_key(|chunk| chunk.first_seq);
        Ok(timeline)
    }

    /// Damage is written down; whatever was removed since it was listed is not there, which is no
    /// damage.
    fn note<T>(&mut self, read: Result<T, BackupError>) -> Result<Option<T>, BackupError> {
        match read {
            Ok(value) => Ok(Some(value)),
            Err(BackupError::Missing(_)) => Ok(None),
            Err(error @ BackupError::Damaged { .. }) => {
                self.damage.push(error.to_string());
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// What is known of chunks: from the full backups that came after them, else from themselves.
    fn look_up(&mut self, depot: &Depot, chunks: Vec<(Seq, u64)>) -> Result<Vec<ChunkInfo>, BackupError> {
        let known: BTreeMap<(Seq, u64), ChunkInfo> = (self.fulls.iter())
            .flat_map(|full| &full.chunks)
            .map(|chunk| ((chunk.first_seq, chunk.size), chunk.clone()))
            .collect();
        let (found, unknown): (Vec<_>, Vec<_>) = chunks.into_iter().partition(|key| known.contains_key(key));
        let mut infos: Vec<ChunkInfo> = found.iter().map(|key| known[key].clone()).collect();
        let names: Vec<String> = unknown.iter().map(|&(seq, _)| chunk_name(&self.journal, seq)).collect();
        let beginnings = depot.peek(&names, PEEK);
        for ((name, beginning), (first_seq, size)) in names.iter().zip(beginnings).zip(unknown) {
            let header = beginning.and_then(|beginning| read_header(depot, name, &beginning));
            let header = header.and_then(|header| match header {
                header if header.first_seq == first_seq && header.journal == self.journal => Ok(header),
                _ => Err(BackupError::damaged(name, "it is not what its name says")),
            });
            if matches!(header, Err(BackupError::Damaged { .. })) {
                self.damaged_chunks.push(first_seq);
            }
            infos.extend(self.note(header)?.map(|header| ChunkInfo::new(&header, size)));
        }
        Ok(infos)
    }

    /// Chunks without gaps between them.
    pub fn runs(&self) -> Vec<&[ChunkInfo]> {
        self.chunks.chunk_by(|a, b| a.last_seq.next() == b.first_seq).collect()
    }

    /// Full backups that lie in this run.
    pub fn fulls_in<'a>(&'a self, run: &'a [ChunkInfo]) -> impl DoubleEndedIterator<Item = &'a Full> {
        let (first, last) = (run[0].first_seq, run[run.len() - 1].last_seq);
        self.fulls.iter().filter(move |full| (first.prev_or_zero()..=last).contains(&full.seq))
    }

    fn restorable(&self) -> Vec<Restorable> {
        let runs = self.runs();
        let mut found: Vec<Restorable> = Vec::new();
        for run in &runs {
            let Some(base) = self.fulls_in(run).next() else { continue };
            let behind = run.iter().filter(|chunk| chunk.last_seq > base.seq);
            let last = behind.clone().rev().find_map(|chunk| chunk.revision).unwrap_or(base.revision);
            let from = behind.clone().find_map(|chunk| chunk.times).map(|(from, _)| from);
            let to = behind.rev().find_map(|chunk| chunk.times).map(|(_, to)| to);
            let journal = self.journal.clone();
            found.push(Restorable { journal, first: base.revision, last, times: from.zip(to) });
        }
        let alone =
            |full: &&Full| runs.iter().all(|run| self.fulls_in(run).all(|other| other.seq != full.seq));
        for full in self.fulls.iter().filter(alone) {
            let times = Some((full.time, full.time));
            found.push(Restorable {
                journal: self.journal.clone(),
                first: full.revision,
                last: full.revision,
                times,
            });
        }
        found.sort_by_key(|range| (range.first, range.last));
        found
    }
}
