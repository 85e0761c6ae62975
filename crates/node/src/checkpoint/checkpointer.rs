//! The checkpointer: what the directory holds, kept in memory between runs.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use vetch_fence::Index;
use vetch_journal::{Disk, Position, Tip};
use vetch_seal::{KeyId, Keys};
use vetch_store::{Freed, Mark, Record};

use super::data_file::{DataReader, Written};
use super::directory::{Needed, data_name};
use super::error::Damage;
use super::holds::Holds;
use super::manifest::{DataFile, Manifest};
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
    /// The key of the manifest, if it is sealed.
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
    pub(super) keys: Keys,
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
    pub(super) is_late: Late,
}

impl Checkpointer {
    /// Continues `current`, which is the state in memory. `next` is above every number used in the directory.
    pub(super) fn new(
        disk: Arc<dyn Disk>,
        dir: &Path,
        config: CheckpointConfig,
        keys: Keys,
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
            is_late: Arc::new(|| false),
        }
    }

    /// From whom it learns that it must not take its time.
    pub fn hurries_if(&mut self, is_late: Late) {
        self.is_late = is_late;
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

    /// Up to where the journal may be trimmed: the tip of the checkpoint before the newest. None: not at all.
    pub fn trim_to(&self) -> Option<Tip> {
        self.older.as_ref().map(|older| older.tip)
    }

    /// The same place in a shared journal, if every file of both checkpoints could be read back.
    pub fn vote(&self) -> Option<Index> {
        let older = self.older.as_ref()?;
        let mut files = self.current.files.iter().chain(&older.files);
        files
            .all(|file| self.verified.contains(&file.written.id))
            .then_some(Index { position: Position(older.position), tip: older.tip })
    }

    /// Reads back the data files of the newest checkpoint that have not been read since they were written.
    pub fn verify(&mut self) -> Result<(), Damage> {
        let files: Vec<Written> = self.current.files.iter().map(|file| file.written).collect();
        for written in files.iter().filter(|written| !self.verified.contains(&written.id)) {
            let reader = DataReader::open(&*self.disk, &self.dir, *written, &self.keys)?;
            let mut scratch = Vec::new();
            for block in 0..reader.blocks() {
                reader.read_block(block, &mut scratch)?;
            }
        }
        let older = self.older.iter().flat_map(|older| &older.files).map(|file| file.written.id);
        let kept: BTreeSet<u64> = older.filter(|id| self.verified.contains(id)).collect();
        self.verified = files.iter().map(|written| written.id).chain(kept).collect();
        Ok(())
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

    /// How many files of the two checkpoints need which key; the ones in plain are counted under none.
    pub fn files_by_key(&self) -> BTreeMap<Option<KeyId>, usize> {
        let mut counts = BTreeMap::new();
        let mut counted = BTreeSet::new();
        for published in std::iter::once(&self.current).chain(&self.older) {
            if published.number.is_some() {
                *counts.entry(published.key).or_default() += 1;
            }
            for file in published.files.iter().filter(|file| counted.insert(file.written.id)) {
                *counts.entry(file.written.seal.map(|seal| seal.key)).or_default() += 1;
            }
        }
        counts
    }

    /// Whether a run would bring files closer to the keys of today. Those known to be damaged cannot be helped.
    pub fn is_stale(&self) -> bool {
        let key = self.keys.current();
        let is_readable = |file: &&DataFile| !self.unreadable.contains(&self.data_path(file.written.id));
        std::iter::once(&self.current).chain(&self.older).filter(|published| published.number.is_some()).any(
            |published| {
                let mut files = published.files.iter().filter(is_readable);
                published.key != key || files.any(|file| file.written.seal.map(|seal| seal.key) != key)
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

/// The next numbers to be given out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Next {
    pub(super) id: u64,
    pub(super) number: u64,
}
