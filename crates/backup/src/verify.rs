//! Verify: is every byte of a backup what was written, and is what it promises there? Needs no
//! server and no key.
//!
//! Everything is read once and nothing is kept: hashes of all objects, then of the journal the
//! checksums and the order of all records, and the chain of their entries as far as it can be read.

use std::collections::BTreeSet;

use vetch_base::Seq;
use vetch_journal::RecordCheck;

use crate::catalog::{Catalog, Restorable, Timeline};
use crate::depot::{Depot, Listed};
use crate::error::BackupError;
use crate::format::{self, Chunk, ChunkInfo, Full, Name, Owner, chunk_name, decode, file_name};

/// What was found.
#[derive(Debug, Clone, Default)]
pub struct Report {
    pub owner: Option<Owner>,
    pub fulls: usize,
    pub files: usize,
    pub chunks: usize,
    pub bytes: u64,
    /// What is wrong, each with the object's name.
    pub damage: Vec<String>,
    /// What can be restored, if nothing is wrong.
    pub restorable: Vec<Restorable>,
    /// Objects that nothing needs: of an interrupted backup or removal. No harm.
    pub unneeded: usize,
}

/// Reads all of a backup. An error means that it could not be read; damage is in the report.
pub fn verify(depot: &Depot, progress: &mut dyn FnMut(u64, u64)) -> Result<Report, BackupError> {
    let listed = depot.list(None)?;
    let mut check = Check {
        depot,
        report: Report::default(),
        needed: BTreeSet::from([format::OWNER.to_owned()]),
        total: listed.iter().map(|object| object.size).sum(),
        progress,
    };
    check.owner()?;
    let journals: BTreeSet<String> = listed.iter().filter_map(|object| journal_of(&object.name)).collect();
    for journal in journals {
        check.journal(&journal, &listed)?;
    }
    let mut report = check.report;
    report.unneeded = listed.iter().filter(|object| !check.needed.contains(&object.name)).count();
    if report.damage.is_empty() {
        report.restorable = Catalog::read(depot)?.restorable();
    }
    Ok(report)
}

fn journal_of(name: &str) -> Option<String> {
    match Name::parse(name)? {
        Name::Full { journal, .. } | Name::Chunk { journal, .. } | Name::File { journal } => Some(journal),
        Name::Owner => None,
    }
}

struct Check<'a> {
    depot: &'a Depot,
    report: Report,
    needed: BTreeSet<String>,
    total: u64,
    progress: &'a mut dyn FnMut(u64, u64),
}

impl Check<'_> {
    /// Damage is written down and gone on from; whatever else fails ends it.
    fn note<T>(&mut self, outcome: Result<T, BackupError>) -> Result<Option<T>, BackupError> {
        match outcome {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.is_damage() => {
                self.report.damage.push(error.to_string());
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn count(&mut self, bytes: u64) {
        self.report.bytes += bytes;
        (self.progress)(self.report.bytes, self.total);
    }

    fn owner(&mut self) -> Result<(), BackupError> {
        let read = self.depot.get(format::OWNER).and_then(|bytes| decode::<Owner>(format::OWNER, &bytes));
        self.report.owner = self.note(read)?;
        Ok(())
    }

    fn journal(&mut self, journal: &str, listed: &[Listed]) -> Result<(), BackupError> {
        let mut timeline = Timeline { journal: journal.to_owned(), ..Timeline::default() };
        for object in listed {
            match Name::parse(&object.name) {
                Some(Name::Full { journal: of, seq }) if of == journal => {
                    let full = self.full(&object.name, seq, journal);
                    timeline.fulls.extend(self.note(full)?);
                }
                Some(Name::Chunk { journal: of, first_seq }) if of == journal => {
                    timeline.chunks.push(ChunkInfo {
                        first_seq,
                        last_seq: first_seq,
                        segment: first_seq,
                        revision: None,
                        times: None,
                        size: object.size,
                    });
                }
                _ => {}
            }
        }
        for full in &timeline.fulls {
            self.files(full)?;
        }
        self.records(&timeline)
    }

    fn full(&mut self, name: &str, seq: Seq, journal: &str) -> Result<Full, BackupError> {
        let bytes = self.depot.get(name)?;
        self.count(bytes.len() as u64);
        let full: Full = decode(name, &bytes)?;
        if full.seq != seq || full.journal != journal {
            return Err(BackupError::damaged(name, "it is not what its name says"));
        }
        self.needed.insert(name.to_owned());
        self.report.fulls += 1;
        Ok(full)
    }

    /// Each file once, however many full backups share it.
    fn files(&mut self, full: &Full) -> Result<(), BackupError> {
        for file in &full.files {
            let name = file_name(&full.journal, &file.hash, &file.name);
            if !self.needed.insert(name.clone()) {
                continue;
            }
            let read = self.depot.read(&name, |_| Ok(())).and_then(|(size, hash)| {
                let is_same = size == file.size && hash.to_hex().as_str() == file.hash;
                if is_same { Ok(size) } else { Err(BackupError::damaged(&name, "its hash does not match")) }
            });
            if let Some(size) = self.note(read)? {
                self.count(size);
                self.report.files += 1;
            }
        }
        Ok(())
    }

    /// All chunks in order. A gap is no damage: what lies in it was never promised.
    fn records(&mut self, timeline: &Timeline) -> Result<(), BackupError> {
        let mut records = RecordCheck::default();
        for chunk in &timeline.chunks {
            let name = chunk_name(&timeline.journal, chunk.first_seq);
            self.needed.insert(name.clone());
            let checked = self.chunk(&name, timeline, chunk, &mut records);
            if self.note(checked)?.is_none() {
                records = RecordCheck::default();
            }
        }
        Ok(())
    }

    fn chunk(
        &mut self,
        name: &str,
        timeline: &Timeline,
        chunk: &ChunkInfo,
        records: &mut RecordCheck,
    ) -> Result<(), BackupError> {
        let bytes = self.depot.get(name)?;
        self.count(bytes.len() as u64);
        let found = Chunk::decode(name, &bytes)?;
        if found.header.first_seq != chunk.first_seq || found.header.journal != timeline.journal {
            return Err(BackupError::damaged(name, "it is not what its name says"));
        }
        if records.next_seq().is_some_and(|next| next < chunk.first_seq) {
            *records = RecordCheck::default();
        }
        let checked = records.take(&found.records);
        checked
            .map_err(|(at, reason)| BackupError::damaged(name, format!("record at byte {at}: {reason}")))?;
        if records.next_seq() != Some(found.header.last_seq.next()) {
            return Err(BackupError::damaged(name, "it holds other entries than it says"));
        }
        self.report.chunks += 1;
        Ok(())
    }
}
