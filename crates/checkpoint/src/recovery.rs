//! Recovery: loads the newest intact checkpoint of a directory into a store.
//!
//! A checkpoint is intact if its manifest and every byte of its files are. If the newest is not,
//! the one before is loaded; the journal still reaches back to it. Only if that one is damaged too,
//! the directory is refused.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use vetch_encryption::EncryptionKeys;
use vetch_journal::{Disk, Position, Tip};
use vetch_store::load::{BadCheckpoint, History, Loader};
use vetch_store::{Record, Store};

use super::checkpointer::{Checkpointer, NextNumbers};
use super::data_file::DataReader;
use super::directory::{self, FileName, manifest_name};
use super::error::{Damage, LoadError};
use super::live_records::LiveRecords;
use super::manifest::DataFile;
use super::manifest_file::{LoadedManifest, ReadError, read_manifest};
use super::merge::Merge;
use super::published::Published;
use super::read_ahead;
use super::{CheckpointConfig, LoadReport, Loaded};

/// Records between two calls of the progress callback.
const PROGRESS_INTERVAL: u64 = 4096;

/// A store built from a checkpoint, and its files with their live bytes counted.
pub(super) struct LoadedState {
    pub(super) store: Store,
    history: History,
    files: Vec<DataFile>,
    records: u64,
    bytes: u64,
}

/// Loads the newest intact checkpoint in `dir`, which is created if it does not exist. `progress`
/// gets bytes done and bytes in total. Blocks are decoded on `threads` threads, or on the calling
/// one if that is 0.
///
/// A directory without a checkpoint is the empty store: all of the journal has to be replayed.
pub fn load(
    disk: Arc<dyn Disk>,
    dir: &Path,
    config: CheckpointConfig,
    threads: usize,
    keys: &EncryptionKeys,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Loaded, LoadError> {
    disk.create_dir_all(dir).map_err(LoadError::io("create directory", dir))?;
    // An earlier process may have been killed before the names it created were durable. What this
    // one builds on them must not outlive them.
    disk.sync_dir(dir).map_err(LoadError::io("sync", dir))?;
    let names = disk.list(dir).map_err(LoadError::io("list", dir))?;
    let names: Vec<FileName> = names.iter().filter_map(|name| FileName::parse(name)).collect();
    check_keys(&*disk, dir, &names, keys)?;
    let mut search = CheckpointSearch {
        disk: &*disk,
        dir,
        threads,
        keys,
        progress,
        failures: Vec::new(),
        damaged: BTreeSet::new(),
    };
    let chosen = search.newest_intact(&names)?;
    let (failures, mut next) = (search.failures, next_numbers(&names));
    let mut report =
        LoadReport { fell_back: fell_back(&failures, chosen.is_some()), ..LoadReport::default() };
    let Some((found, state)) = chosen else {
        return Ok(empty(disk, dir, config, keys, next, report));
    };
    next.id = next.id.max(found.manifest.next_id);
    let older = usable_before(&*disk, dir, &names, found.manifest.number, keys);
    report.number = Some(found.manifest.number);
    report.files = state.files.len();
    (report.records, report.bytes) = (state.records, state.bytes);
    let mark = found.manifest.mark;
    let current = Published { files: state.files, ..Published::new(&found.manifest, found.bytes, found.key) };
    let checkpointer = Checkpointer::new(disk.clone(), dir, config, keys.clone(), current, older, next);
    // After a fallback everything stays for inspection until a new checkpoint is durable.
    if report.fell_back.is_none() {
        let (removed, failed) = directory::remove_unreferenced(&*disk, dir, &checkpointer.referenced());
        report.removed = removed;
        report.notes.extend(failed.map(|error| format!("removing unneeded checkpoint files: {error}")));
    }
    Ok(Loaded {
        store: state.store,
        history: state.history,
        tip: found.manifest.tip,
        position: found.manifest.position,
        mark,
        checkpointer,
        report,
    })
}

fn empty(
    disk: Arc<dyn Disk>,
    dir: &Path,
    config: CheckpointConfig,
    keys: &EncryptionKeys,
    next: NextNumbers,
    report: LoadReport,
) -> Loaded {
    let current = Published::nothing();
    let (tip, mark) = (current.tip, current.mark);
    let checkpointer = Checkpointer::new(disk, dir, config, keys.clone(), current, None, next);
    Loaded {
        store: Store::default(),
        history: History::default(),
        tip,
        position: 0,
        mark,
        checkpointer,
        report,
    }
}

/// Above every number in the directory, used or left over.
fn next_numbers(names: &[FileName]) -> NextNumbers {
    let after = |is_data: bool| {
        let numbers = names.iter().filter(|name| matches!(name, FileName::Data(_)) == is_data);
        numbers.map(|name| name.number()).max().unwrap_or(0).saturating_add(1)
    };
    NextNumbers { id: after(true), number: after(false) }
}

fn fell_back(failures: &[Damage], has_checkpoint: bool) -> Option<String> {
    if failures.is_empty() {
        return None;
    }
    let reasons: Vec<String> = failures.iter().map(Damage::to_string).collect();
    let to = if has_checkpoint { "the checkpoint before" } else { "the journal from its beginning" };
    Some(format!("{}; using {to}", reasons.join("; ")))
}

/// Numbers of the manifests, newest first.
pub(super) fn manifests(names: &[FileName]) -> Vec<u64> {
    let mut numbers: Vec<u64> =
        names.iter().filter(|name| matches!(name, FileName::Manifest(_))).map(|name| name.number()).collect();
    numbers.sort_unstable_by_key(|&number| std::cmp::Reverse(number));
    numbers
}

struct CheckpointSearch<'a> {
    disk: &'a dyn Disk,
    dir: &'a Path,
    threads: usize,
    keys: &'a EncryptionKeys,
    progress: &'a mut dyn FnMut(u64, u64),
    failures: Vec<Damage>,
    /// Data files known to be damaged: another checkpoint that needs one need not be loaded.
    damaged: BTreeSet<PathBuf>,
}

impl CheckpointSearch<'_> {
    /// None if there is no checkpoint, or if the only one is damaged and the journal still has
    /// everything.
    fn newest_intact(
        &mut self,
        names: &[FileName],
    ) -> Result<Option<(LoadedManifest, LoadedState)>, LoadError> {
        let numbers = manifests(names);
        for &number in &numbers {
            let attempt = match read_manifest(self.disk, self.dir, number, self.keys) {
                Ok(found) => self.try_load(&found).map(|state| (found, state)),
                Err(ReadError::Damaged(damage)) => Err(damage),
                Err(ReadError::Refused(error)) => return Err(error),
            };
            match attempt {
                Ok(chosen) => return Ok(Some(chosen)),
                Err(damage) => {
                    self.damaged.insert(damage.file.clone());
                    self.failures.push(damage);
                }
            }
        }
        match self.failures.first() {
            None => Ok(None),
            // The journal is trimmed only up to the older of two checkpoints, so with a single one
            // it is still complete. If it is not, the journal itself refuses to start in the
            // middle.
            Some(_) if numbers.len() == 1 => Ok(None),
            Some(newest) => Err(LoadError::Damaged(newest.clone())),
        }
    }

    fn try_load(&mut self, found: &LoadedManifest) -> Result<LoadedState, Damage> {
        let path = |file: &DataFile| self.dir.join(directory::data_name(file.written.id));
        if let Some(known) = found.manifest.files.iter().map(path).find(|path| self.damaged.contains(path)) {
            return Err(Damage::new(&known, 0, "needed by this checkpoint too"));
        }
        load_state(self.disk, self.dir, found, self.threads, self.keys, self.progress)
    }
}

/// Reads every byte of the checkpoint `number` in `dir` and checks it, without loading it. Returns
/// the position and the tip of the journal that lead to it.
pub fn audit(
    disk: &dyn Disk,
    dir: &Path,
    number: u64,
    keys: &EncryptionKeys,
) -> Result<(Position, Tip), LoadError> {
    let found = read_manifest(disk, dir, number, keys).map_err(|error| match error {
        ReadError::Damaged(damage) => LoadError::Damaged(damage),
        ReadError::Refused(error) => error,
    })?;
    let mut scratch = Vec::new();
    for reader in open_all(disk, dir, &found.manifest.files, keys).map_err(LoadError::Damaged)? {
        for block in 0..reader.blocks() {
            reader.read_block(block, &mut scratch).map_err(LoadError::Damaged)?;
        }
    }
    Ok((Position(found.manifest.position), found.manifest.tip))
}

/// Every key that a checkpoint needs must be given, also for the one that is not loaded: it is the
/// fallback. A damaged manifest needs none.
fn check_keys(
    disk: &dyn Disk,
    dir: &Path,
    names: &[FileName],
    keys: &EncryptionKeys,
) -> Result<(), LoadError> {
    for number in manifests(names) {
        let found = match read_manifest(disk, dir, number, keys) {
            Ok(found) => found,
            Err(ReadError::Damaged(_)) => continue,
            Err(ReadError::Refused(error)) => return Err(error),
        };
        for written in found.manifest.files.iter().map(|file| file.written) {
            let Some(encryption) = written.encryption else { continue };
            let file = dir.join(directory::data_name(written.id));
            keys.require(encryption.key, &encryption.check)
                .map_err(|source| LoadError::Key { file, source })?;
        }
    }
    Ok(())
}

/// The newest checkpoint before `number` whose files can be opened: the fallback.
fn usable_before(
    disk: &dyn Disk,
    dir: &Path,
    names: &[FileName],
    number: u64,
    keys: &EncryptionKeys,
) -> Option<Published> {
    let older = manifests(names).into_iter().filter(|&other| other < number);
    let mut found = older.filter_map(|other| read_manifest(disk, dir, other, keys).ok());
    let is_whole = |found: &LoadedManifest| {
        found.manifest.files.iter().all(|file| DataReader::open(disk, dir, file.written, keys).is_ok())
    };
    found.find(is_whole).map(|found| Published::new(&found.manifest, found.bytes, found.key))
}

pub(super) fn load_state(
    disk: &dyn Disk,
    dir: &Path,
    found: &LoadedManifest,
    threads: usize,
    keys: &EncryptionKeys,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<LoadedState, Damage> {
    let manifest = &found.manifest;
    let readers = open_all(disk, dir, &manifest.files, keys)?;
    // The totals of the files are not trusted: used for the progress only, and without overflow.
    let total = readers.iter().map(|reader| reader.totals().bytes).fold(0, u64::saturating_add);
    let contradiction =
        |bad: BadCheckpoint| Damage::new(&dir.join(manifest_name(manifest.number)), 0, bad.to_string());
    let mut loader = Loader::new(manifest.mark, expected_keys(&readers, &manifest.files));
    let mut live = LiveRecords::new(manifest);
    std::thread::scope(|scope| {
        let mut push = |record: Record| loader.push(record).map_err(contradiction);
        let mut merge = Merge::new(read_ahead::start(scope, threads, &readers))?;
        while let Some((record, file)) = merge.next()? {
            live.add(record, file, &mut push)?;
            if live.records().is_multiple_of(PROGRESS_INTERVAL) {
                progress(live.bytes(), total);
            }
        }
        live.flush(&mut push)
    })?;
    progress(total, total);
    let (store, history) = loader.finish(&manifest.unversioned).map_err(contradiction)?;
    Ok(LoadedState { store, history, records: live.records(), bytes: live.bytes(), files: live.into_files() })
}

/// Opens all files of a checkpoint and checks that each holds only revisions of its own interval.
fn open_all(
    disk: &dyn Disk,
    dir: &Path,
    files: &[DataFile],
    keys: &EncryptionKeys,
) -> Result<Vec<DataReader>, Damage> {
    let mut readers = Vec::with_capacity(files.len());
    for file in files {
        let reader = DataReader::open(disk, dir, file.written, keys)?;
        let totals = reader.totals();
        if totals.min_revision <= file.first || totals.max_revision > file.last {
            return Err(Damage::new(
                reader.path(),
                0,
                "it holds revisions that the manifest places elsewhere",
            ));
        }
        readers.push(reader);
    }
    Ok(readers)
}

/// Limit on the keys that tables are sized for before they are filled.
const EXPECTED_KEYS_MAX: usize = 16 << 20;

/// An estimate that avoids growing tables: the keys of each file, in proportion to its live bytes.
/// It relies on the totals of the files, which are trusted up to a limit only.
fn expected_keys(readers: &[DataReader], files: &[DataFile]) -> usize {
    let alive = readers.iter().zip(files).map(|(reader, file)| {
        let totals = reader.totals();
        totals.keys as f64 * (file.live as f64 / totals.bytes.max(1) as f64).min(1.0)
    });
    (alive.sum::<f64>() as usize).min(EXPECTED_KEYS_MAX)
}
