//! The checkpointer: what the directory holds, kept in memory between runs.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use vetch_cluster::LogIndex;
use vetch_encryption::{EncryptionKeys, KeyId};
use vetch_journal::{Disk, Position, Tip};
use vetch_store::{Freed, Mark, Record};

use super::directory::{Needed, data_name, manifest_name};
use super::error::Damage;
use super::holds::Holds;
use super::manifest::{DataFile, Manifest};
use super::read_back::{CheckpointFile, ReadBack};
use super::{CheckpointConfig, Late};

/// A checkpoint that is on disk.
#[derive(Debug, Clone)]
pub(super) struct Published {
    /// None: there is no checkpoint yet, and this describes the empty state.
    pub(super) number: Option<u64>,
    pub(super) tip: Tip,
    /// Where the record lies that made the tip, in a shared journal; 0 for a local one.
    pub(super) position: u64,
    pub(super) mark: Mark,
    pub(super) files: Vec<DataFile>,
    pub(super) manifest_bytes: u64,
    /// The key of the manifest, if it is encrypted.
    pub(super) key: Option<KeyId>,
}

impl Published {
    pub(super) fn new(manifest: &Manifest, manifest_bytes: u64, key: Option<KeyId>) -> Published {
        Published {
            number: Some(manifest.number),
            tip: manifest.tip,
            position: manifest.position,
            mark: manifest.mark,
            files: manifest.files.clone(),
            manifest_bytes,
            key,
        }
    }

    /// The empty state, before the first checkpoint.
    pub(super) fn nothing() -> Published {
        let mark = Mark::START;
        let tip = Tip::genesis(mark.revision + 1);
        Published { number: None, tip, position: 0, mark, files: Vec::new(), manifest_bytes: 0, key: None }
    }
}

/// Writes checkpoints into one directory. See [`Checkpointer::run`].
pub struct Checkpointer {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) dir: PathBuf,
    pub(super) config: CheckpointConfig,
    pub(super) keys: EncryptionKeys,
    pub(super) current: Published,
    pub(super) older: Option<Published>,
    /// Records of captures whose run failed, and of the one that is running.
    pub(super) pending: Vec<Record>,
    /// The newest compaction known to have been carried out in full.
    pub(super) swept: i64,
    pub(super) next_id: u64,
    next_number: u64,
    /// Data files found damaged since the start.
    pub(super) unreadable: HashSet<PathBuf>,
    pub(super) holds: Arc<Holds>,
    /// Data files that were read back after they were written, or loaded.
    verified: BTreeSet<u64>,
    /// What of the newest checkpoint is still to be read back.
    unverified: ReadBack,
    /// What a pass over all files has left.
    unscrubbed: ReadBack,
    pub(super) is_late: Late,
}

impl Checkpointer {
    /// Continues `current`, which is the state in memory. `next` is above every number used in the
    /// directory.
    pub(super) fn new(
        disk: Arc<dyn Disk>,
        dir: &Path,
        config: CheckpointConfig,
        keys: EncryptionKeys,
        current: Published,
        older: Option<Published>,
        next: Next,
    ) -> Checkpointer {
        let holds = Arc::new(Holds::default());
        holds.publish(&current);
        let verified = current.files.iter().map(|file| file.written.id).collect();
        Checkpointer {
            disk,
            dir: dir.to_path_buf(),
            config,
            keys,
            // Loading drops everything that the checkpoint's compaction made unreachable.
            swept: current.mark.compact_revision,
            current,
            older,
            pending: Vec::new(),
            next_id: next.id,
            next_number: next.number,
            unreadable: HashSet::new(),
            holds,
            verified,
            unverified: ReadBack::default(),
            unscrubbed: ReadBack::default(),
            is_late: Arc::new(|| false),
        }
    }

    /// From whom it learns that it must not take its time.
    pub fn hurries_if(&mut self, is_late: Late) {
        self.is_late = is_late;
    }

    /// Where its files are.
    pub(crate) fn disk(&self) -> Arc<dyn Disk> {
        Arc::clone(&self.disk)
    }

    /// Compaction gave these versions back.
    pub fn freed(&mut self, freed: &[Freed]) {
        let files = &mut self.current.files;
        for version in freed {
            // One that is in no file yet is left out when its run asks what is retained.
            let holder = files.partition_point(|file| file.last < version.mod_revision);
            if let Some(file) = files.get_mut(holder) {
                file.live = file.live.saturating_sub(version.saved_bytes as u64);
            }
        }
    }

    /// The tip of the checkpoint before the newest: from there on the journal is needed. None: all
    /// of it.
    pub fn needs_from(&self) -> Option<Tip> {
        self.older.as_ref().map(|older| older.tip)
    }

    /// Up to where the journal may be trimmed: the same, if every file of both checkpoints could be
    /// read back. None: not at all.
    pub fn trim_to(&self) -> Option<Tip> {
        self.needs_from().filter(|_| self.is_verified())
    }

    /// The same place in a shared journal.
    pub fn vote(&self) -> Option<LogIndex> {
        let older = self.older.as_ref().filter(|_| self.is_verified())?;
        Some(LogIndex { position: Position(older.position), tip: older.tip })
    }

    fn is_verified(&self) -> bool {
        let mut files = self.published().flat_map(|published| &published.files);
        let is_damaged = self.published().any(|published| self.is_damaged_here(published));
        self.unverified.is_done() && !is_damaged && files.all(|file| self.verified.contains(&file.written.id))
    }

    /// Reads on in what has not been read of the newest checkpoint since it was written, about
    /// `budget` bytes. True: all of it is good, or known to be damaged. Damage is told once.
    pub fn verify(&mut self, budget: u64) -> Result<bool, Damage> {
        let mut read = 0;
        while !self.unverified.is_done() {
            if read >= budget {
                return Ok(false);
            }
            let step = self.unverified.step(&*self.disk, &self.dir, &self.keys);
            read += step.bytes;
            if let Some((file, outcome)) = step.ended {
                self.settle(file, outcome)?;
            }
        }
        Ok(true)
    }

    /// After a run: everything in it that was not read since it was written is to be.
    pub(super) fn begin_verify(&mut self) {
        let kept: BTreeSet<u64> =
            self.published().flat_map(|published| &published.files).map(|file| file.written.id).collect();
        self.verified.retain(|id| kept.contains(id));
        let needed: HashSet<PathBuf> = self.published().flat_map(|published| self.paths(published)).collect();
        self.unreadable.retain(|path| needed.contains(path));
        let is_known = |file: &CheckpointFile| match file {
            CheckpointFile::Data(written) => self.verified.contains(&written.id),
            CheckpointFile::Manifest { .. } => false,
        };
        let files: Vec<CheckpointFile> =
            files_of(&self.current).into_iter().filter(|file| !is_known(file)).collect();
        self.unverified = ReadBack::of(files);
    }

    /// Begins to read all files, in order to find out which are damaged. Returns their bytes.
    pub fn begin_scrub(&mut self) -> u64 {
        let mut files = files_of(&self.current);
        let older = self.older.iter().flat_map(files_of);
        files.extend(older.filter(|file| !files_of(&self.current).contains(file)));
        let bytes = files.iter().map(CheckpointFile::size).sum();
        self.unscrubbed = ReadBack::of(files);
        bytes
    }

    /// Reads on in that.
    pub fn scrub(&mut self) -> Scrubbed {
        let needed: Vec<CheckpointFile> = self.published().flat_map(files_of).collect();
        self.unscrubbed.retain(|file| needed.contains(file));
        if self.unscrubbed.is_done() {
            return Scrubbed::Done;
        }
        let step = self.unscrubbed.step(&*self.disk, &self.dir, &self.keys);
        match step.ended.map(|(file, outcome)| self.settle(file, outcome)) {
            Some(Err(damage)) => Scrubbed::Damaged(step.bytes, damage),
            Some(Ok(())) | None => Scrubbed::Read(step.bytes),
        }
    }

    /// Remembers what was found out about a file.
    fn settle(&mut self, file: CheckpointFile, outcome: Result<(), Damage>) -> Result<(), Damage> {
        match (file, &outcome) {
            (CheckpointFile::Data(written), Ok(())) => {
                self.verified.insert(written.id);
                self.unreadable.remove(&self.data_path(written.id));
            }
            (CheckpointFile::Data(written), Err(_)) => {
                self.verified.remove(&written.id);
                self.unreadable.insert(self.data_path(written.id));
            }
            (CheckpointFile::Manifest { number, .. }, Ok(())) => {
                self.unreadable.remove(&self.dir.join(manifest_name(number)));
            }
            (CheckpointFile::Manifest { number, .. }, Err(_)) => {
                self.unreadable.insert(self.dir.join(manifest_name(number)));
            }
        }
        outcome
    }

    /// Whether a file of the newest checkpoint is known to be damaged, so that a start would have
    /// to do without it.
    pub fn is_damaged(&self) -> bool {
        self.is_damaged_here(&self.current)
    }

    pub(super) fn is_damaged_here(&self, published: &Published) -> bool {
        !self.unreadable.is_empty() && self.paths(published).any(|path| self.unreadable.contains(&path))
    }

    /// The files that are needed and known to be damaged.
    pub fn damaged(&self) -> Vec<PathBuf> {
        let paths: BTreeSet<PathBuf> = self.published().flat_map(|published| self.paths(published)).collect();
        paths.into_iter().filter(|path| self.unreadable.contains(path)).collect()
    }

    fn published(&self) -> impl Iterator<Item = &Published> {
        std::iter::once(&self.current).chain(&self.older)
    }

    fn paths(&self, published: &Published) -> impl Iterator<Item = PathBuf> {
        let manifest = published.number.map(|number| self.dir.join(manifest_name(number)));
        let data: Vec<PathBuf> = published.files.iter().map(|file| self.data_path(file.written.id)).collect();
        manifest.into_iter().chain(data)
    }

    /// For those who copy a checkpoint while it may be replaced.
    pub fn holds(&self) -> Arc<Holds> {
        Arc::clone(&self.holds)
    }

    /// The state of the newest checkpoint.
    pub fn mark(&self) -> Mark {
        self.current.mark
    }

    /// The tip of the newest checkpoint.
    pub fn tip(&self) -> Tip {
        self.current.tip
    }

    /// Where that was made in a shared journal; 0 in a local one.
    pub fn position(&self) -> u64 {
        self.current.position
    }

    /// Bytes of all checkpoint files that are kept.
    pub fn disk_bytes(&self) -> u64 {
        let mut counted = BTreeSet::new();
        let kept = || std::iter::once(&self.current).chain(&self.older);
        let data = kept().flat_map(|published| &published.files);
        let data: u64 =
            data.filter(|file| counted.insert(file.written.id)).map(|file| file.written.size).sum();
        data + kept().map(|published| published.manifest_bytes).sum::<u64>()
    }

    /// How many files of the two checkpoints need which key; the ones in plain are counted under
    /// none.
    pub fn files_by_key(&self) -> BTreeMap<Option<KeyId>, usize> {
        let mut counts = BTreeMap::new();
        let mut counted = BTreeSet::new();
        for published in std::iter::once(&self.current).chain(&self.older) {
            if published.number.is_some() {
                *counts.entry(published.key).or_default() += 1;
            }
            for file in published.files.iter().filter(|file| counted.insert(file.written.id)) {
                *counts.entry(file.written.encryption.map(|encryption| encryption.key)).or_default() += 1;
            }
        }
        counts
    }

    /// Whether a run would bring files closer to the keys of today. Those known to be damaged
    /// cannot be helped.
    pub fn is_stale(&self) -> bool {
        let key = self.keys.current();
        let is_readable = |file: &&DataFile| !self.unreadable.contains(&self.data_path(file.written.id));
        std::iter::once(&self.current).chain(&self.older).filter(|published| published.number.is_some()).any(
            |published| {
                let mut files = published.files.iter().filter(is_readable);
                published.key != key
                    || files.any(|file| file.written.encryption.map(|encryption| encryption.key) != key)
            },
        )
    }

    /// Bytes in data files that hold retained versions.
    pub fn live_bytes(&self) -> u64 {
        self.current.files.iter().map(|file| file.live).sum()
    }

    /// Data files of the newest checkpoint.
    pub fn files(&self) -> usize {
        self.current.files.len()
    }

    pub(super) fn data_path(&self, id: u64) -> PathBuf {
        self.dir.join(data_name(id))
    }

    /// A number no manifest has had, whether or not its run succeeds.
    pub(super) fn take_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number - 1
    }

    pub(super) fn needed(&self) -> Needed {
        let mut needed = Needed::default();
        for published in std::iter::once(&self.current).chain(&self.older) {
            needed.manifests.extend(published.number);
            needed.data.extend(published.files.iter().map(|file| file.written.id));
        }
        self.holds.add_to(&mut needed);
        needed
    }
}

/// What a step of a pass over all files came to.
#[derive(Debug)]
pub enum Scrubbed {
    /// Bytes that are good so far.
    Read(u64),
    Damaged(u64, Damage),
    /// Everything was read.
    Done,
}

/// All files of a checkpoint.
fn files_of(published: &Published) -> Vec<CheckpointFile> {
    let manifest =
        published.number.map(|number| CheckpointFile::Manifest { number, size: published.manifest_bytes });
    let data = published.files.iter().map(|file| CheckpointFile::Data(file.written));
    manifest.into_iter().chain(data).collect()
}

/// The next numbers to be given out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Next {
    pub(super) id: u64,
    pub(super) number: u64,
}
