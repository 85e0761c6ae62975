//! The checkpointer: the contents of the directory, kept in memory between runs.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use vetch_encryption::{EncryptionKeys, KeyId};
use vetch_journal::{Disk, Position, Tip};
use vetch_store::{Freed, Mark, Record};

use super::directory::{ReferencedFiles, data_name, manifest_name};
use super::error::Damage;
use super::manifest::DataFile;
use super::pins::CheckpointPins;
use super::published::Published;
use super::read_back::{CheckpointFile, ReadBack};
use super::{CheckpointConfig, ShouldHurry};

/// Writes checkpoints into one directory. See [`Checkpointer::run`].
pub struct Checkpointer {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) dir: PathBuf,
    pub(super) config: CheckpointConfig,
    pub(super) keys: EncryptionKeys,
    pub(super) current: Published,
    pub(super) older: Option<Published>,
    /// Records of captures whose run failed, and of the current run.
    pub(super) pending: Vec<Record>,
    /// The newest compaction that is known to be carried out in full.
    pub(super) swept: i64,
    pub(super) next_id: u64,
    next_number: u64,
    /// Data files found damaged since the start.
    pub(super) unreadable: HashSet<PathBuf>,
    pub(super) pins: Arc<CheckpointPins>,
    /// Data files that were read back after they were written, or loaded.
    verified: BTreeSet<u64>,
    /// The files of the newest checkpoint that are still to be read back.
    unverified: ReadBack,
    /// The files that the current pass over all files has left.
    unscrubbed: ReadBack,
    pub(super) should_hurry: ShouldHurry,
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
        next: NextNumbers,
    ) -> Checkpointer {
        let pins = Arc::new(CheckpointPins::default());
        pins.publish(&current);
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
            pins,
            verified,
            unverified: ReadBack::default(),
            unscrubbed: ReadBack::default(),
            should_hurry: Arc::new(|| false),
        }
    }

    /// Sets the callback that says during a run whether it must not pause.
    pub fn set_should_hurry(&mut self, should_hurry: ShouldHurry) {
        self.should_hurry = should_hurry;
    }

    /// The disk of its files.
    pub fn disk(&self) -> Arc<dyn Disk> {
        Arc::clone(&self.disk)
    }

    /// Compaction freed these versions.
    pub fn note_freed(&mut self, freed: &[Freed]) {
        let files = &mut self.current.files;
        for version in freed {
            // A version that is in no file yet is dropped by its run, which checks retention.
            let index = files.partition_point(|file| file.last < version.mod_revision);
            if let Some(file) = files.get_mut(index) {
                file.live = file.live.saturating_sub(version.saved_bytes as u64);
            }
        }
    }

    /// The tip of the checkpoint before the newest: the journal is needed from there on. None if
    /// all of it is needed.
    pub fn journal_needed_from(&self) -> Option<Tip> {
        self.older.as_ref().map(|older| older.tip)
    }

    /// The tip up to which the journal may be trimmed: the same, if every file of both checkpoints
    /// was read back. None if nothing may be trimmed.
    pub fn trim_to(&self) -> Option<Tip> {
        self.journal_needed_from().filter(|_| self.is_verified())
    }

    /// The same in a shared journal: the position and the tip.
    pub fn trim_position(&self) -> Option<(Position, Tip)> {
        let older = self.older.as_ref().filter(|_| self.is_verified())?;
        Some((Position(older.position), older.tip))
    }

    fn is_verified(&self) -> bool {
        let mut files = self.published().flat_map(|published| &published.files);
        let is_damaged = self.published().any(|published| self.has_damage(published));
        self.unverified.is_done() && !is_damaged && files.all(|file| self.verified.contains(&file.written.id))
    }

    /// Reads the next part of what was not read back of the newest checkpoint yet, about `budget`
    /// bytes. True when all of it was read. Damage is returned once.
    pub fn verify(&mut self, budget: u64) -> Result<bool, Damage> {
        let mut read = 0;
        while !self.unverified.is_done() {
            if read >= budget {
                return Ok(false);
            }
            let step = self.unverified.step(&*self.disk, &self.dir, &self.keys);
            read += step.bytes;
            if let Some((file, outcome)) = step.ended {
                self.record_outcome(file, outcome)?;
            }
        }
        Ok(true)
    }

    /// After a run: every file that was not read back yet is to be read.
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
        self.unverified = ReadBack::new(files);
    }

    /// Begins a pass that reads all files to find damage. Returns their bytes.
    pub fn begin_scrub(&mut self) -> u64 {
        let mut files = files_of(&self.current);
        let older = self.older.iter().flat_map(files_of);
        files.extend(older.filter(|file| !files_of(&self.current).contains(file)));
        let bytes = files.iter().map(CheckpointFile::size).sum();
        self.unscrubbed = ReadBack::new(files);
        bytes
    }

    /// The next step of that pass.
    pub fn scrub(&mut self) -> ScrubStep {
        let needed: Vec<CheckpointFile> = self.published().flat_map(files_of).collect();
        self.unscrubbed.retain(|file| needed.contains(file));
        if self.unscrubbed.is_done() {
            return ScrubStep::Done;
        }
        let step = self.unscrubbed.step(&*self.disk, &self.dir, &self.keys);
        match step.ended.map(|(file, outcome)| self.record_outcome(file, outcome)) {
            Some(Err(damage)) => ScrubStep::Damaged(step.bytes, damage),
            Some(Ok(())) | None => ScrubStep::Read(step.bytes),
        }
    }

    /// Notes whether a file is intact.
    fn record_outcome(&mut self, file: CheckpointFile, outcome: Result<(), Damage>) -> Result<(), Damage> {
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

    /// Whether a file of the newest checkpoint is known to be damaged. A start would fall back to
    /// the checkpoint before.
    pub fn is_damaged(&self) -> bool {
        self.has_damage(&self.current)
    }

    pub(super) fn has_damage(&self, published: &Published) -> bool {
        !self.unreadable.is_empty() && self.paths(published).any(|path| self.unreadable.contains(&path))
    }

    /// The referenced files that are known to be damaged.
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

    /// For copying a checkpoint while it may be replaced.
    pub fn pins(&self) -> Arc<CheckpointPins> {
        Arc::clone(&self.pins)
    }

    /// The state of the newest checkpoint.
    pub fn mark(&self) -> Mark {
        self.current.mark
    }

    /// The tip of the newest checkpoint.
    pub fn tip(&self) -> Tip {
        self.current.tip
    }

    /// The position of that tip in a shared journal; 0 in a local one.
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

    /// How many files of the two checkpoints need which key; plain files are counted under none.
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

    /// Whether a run would re-encrypt files that do not use the current key. Files known to be
    /// damaged cannot be rewritten.
    pub fn has_stale_keys(&self) -> bool {
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

    /// A number that no manifest had, whether or not its run succeeds.
    pub(super) fn take_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number - 1
    }

    pub(super) fn referenced(&self) -> ReferencedFiles {
        let mut referenced = ReferencedFiles::default();
        for published in std::iter::once(&self.current).chain(&self.older) {
            referenced.manifests.extend(published.number);
            referenced.data.extend(published.files.iter().map(|file| file.written.id));
        }
        self.pins.add_to(&mut referenced);
        referenced
    }
}

/// The outcome of a step of a pass over all files.
#[derive(Debug)]
pub enum ScrubStep {
    /// Bytes that were read and are intact so far.
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

/// The next numbers to be assigned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NextNumbers {
    pub(super) id: u64,
    pub(super) number: u64,
}
