//! Listing: reads the checkpoints of a directory without changing anything, for tools.

use std::path::{Path, PathBuf};

use vetch_encryption::{EncryptionKeys, KeyId};
use vetch_journal::{Disk, Tip};
use vetch_store::load::Unversioned;
use vetch_store::{Mark, Record, Store};

use super::data_file::DataReader;
use super::directory::{FileName, data_name, manifest_name};
use super::error::{Damage, LoadError};
use super::manifest::DataFile;
use super::manifest_file::{LoadedManifest, ReadError, read_manifest};
use super::merge::{Blocks, Merge, Source};
use super::recovery::{load_state, manifests};

/// A manifest that could be read.
pub struct Checkpoint {
    pub number: u64,
    pub path: PathBuf,
    pub bytes: u64,
    /// The key of the manifest; none if it is not encrypted.
    pub key: Option<KeyId>,
    pub tip: Tip,
    pub mark: Mark,
    pub files: Vec<DataFileInfo>,
    pub unversioned: Unversioned,
    manifest: LoadedManifest,
}

/// A data file as a manifest names it.
#[derive(Debug, Clone)]
pub struct DataFileInfo {
    pub path: PathBuf,
    /// It covers the revisions above `first`, up to and including `last`.
    pub first: i64,
    pub last: i64,
    pub size: u64,
    /// Bytes of records that were still retained.
    pub live: u64,
    pub key: Option<KeyId>,
}

/// Why a checkpoint, or a part of it, cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    #[error(transparent)]
    Damaged(#[from] Damage),
    /// No damage: a missing key, or a version this one does not know.
    #[error(transparent)]
    Refused(#[from] LoadError),
}

/// The checkpoints in a directory, newest first, and the files that no readable manifest names.
pub struct Listing {
    pub checkpoints: Vec<(u64, Result<Checkpoint, Unreadable>)>,
    pub unreferenced: Vec<String>,
}

pub fn list(disk: &dyn Disk, dir: &Path, keys: &EncryptionKeys) -> Result<Listing, LoadError> {
    let files = disk.list(dir).map_err(LoadError::io("list", dir))?;
    let names: Vec<FileName> = files.iter().filter_map(|name| FileName::parse(name)).collect();
    let mut checkpoints = Vec::new();
    let mut named = Vec::new();
    for number in manifests(&names) {
        let read = read_manifest(disk, dir, number, keys).map(|found| Checkpoint::new(dir, found));
        if let Ok(checkpoint) = &read {
            named.extend(checkpoint.manifest.manifest.files.iter().map(|file| data_name(file.written.id)));
        }
        named.push(manifest_name(number));
        checkpoints.push((number, read.map_err(Unreadable::from)));
    }
    let unreferenced = files.into_iter().filter(|name| !named.contains(name)).collect();
    Ok(Listing { checkpoints, unreferenced })
}

impl From<ReadError> for Unreadable {
    fn from(error: ReadError) -> Unreadable {
        match error {
            ReadError::Damaged(damage) => Unreadable::Damaged(damage),
            ReadError::Refused(error) => Unreadable::Refused(error),
        }
    }
}

impl Checkpoint {
    fn new(dir: &Path, found: LoadedManifest) -> Checkpoint {
        let manifest = &found.manifest;
        let file = |file: &DataFile| DataFileInfo {
            path: dir.join(data_name(file.written.id)),
            first: file.first,
            last: file.last,
            size: file.written.size,
            live: file.live,
            key: file.written.encryption.map(|encryption| encryption.key),
        };
        Checkpoint {
            number: manifest.number,
            path: dir.join(manifest_name(manifest.number)),
            bytes: found.bytes,
            key: found.key,
            tip: manifest.tip,
            mark: manifest.mark,
            files: manifest.files.iter().map(file).collect(),
            unversioned: manifest.unversioned.clone(),
            manifest: found,
        }
    }

    /// Every damaged block of its files. A file whose key is missing is reported and not checked.
    pub fn damage(&self, disk: &dyn Disk, dir: &Path, keys: &EncryptionKeys) -> Vec<Unreadable> {
        let mut damage = Vec::new();
        for file in &self.manifest.manifest.files {
            if let Some(encryption) = file.written.encryption
                && let Err(source) = keys.require(encryption.key, &encryption.check)
            {
                let file = dir.join(data_name(file.written.id));
                damage.push(LoadError::Key { file, source }.into());
                continue;
            }
            match DataReader::open(disk, dir, file.written, keys) {
                Err(found) => damage.push(found.into()),
                Ok(reader) => {
                    let mut scratch = Vec::new();
                    let blocks =
                        (0..reader.blocks()).filter_map(|block| reader.read_block(block, &mut scratch).err());
                    damage.extend(blocks.map(Unreadable::from));
                }
            }
        }
        damage
    }

    /// Calls `visit` with every record of its files, unreachable ones included, in order of key and
    /// revision, until it returns false.
    pub fn records(
        &self,
        disk: &dyn Disk,
        dir: &Path,
        keys: &EncryptionKeys,
        visit: &mut dyn FnMut(&Record, &DataFileInfo) -> bool,
    ) -> Result<(), Unreadable> {
        let mut sources: Vec<Box<dyn Source>> = Vec::new();
        for file in &self.manifest.manifest.files {
            if let Some(encryption) = file.written.encryption {
                let path = dir.join(data_name(file.written.id));
                let missing = |source| LoadError::Key { file: path, source };
                keys.require(encryption.key, &encryption.check).map_err(missing)?;
            }
            sources.push(Box::new(Blocks::new(DataReader::open(disk, dir, file.written, keys)?)));
        }
        let mut merge = Merge::new(sources)?;
        while let Some((record, file)) = merge.next()? {
            if !visit(&record, &self.files[file]) {
                break;
            }
        }
        Ok(())
    }

    /// The state that a start would load from it. Takes the memory of the whole store.
    pub fn load(
        &self,
        disk: &dyn Disk,
        dir: &Path,
        keys: &EncryptionKeys,
        threads: usize,
    ) -> Result<Store, Unreadable> {
        Ok(load_state(disk, dir, &self.manifest, threads, keys, &mut |_, _| {})?.store)
    }
}
