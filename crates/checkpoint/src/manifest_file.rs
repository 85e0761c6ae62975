//! Reads a manifest from its file.

use std::path::Path;

use vetch_encryption::{EncryptionKeys, KeyId};
use vetch_journal::{Disk, read_file};

use super::directory::manifest_name;
use super::error::{Damage, LoadError};
use super::manifest::{BadManifest, Manifest};

/// A manifest read from disk.
pub(super) struct LoadedManifest {
    pub(super) manifest: Manifest,
    pub(super) bytes: u64,
    /// The key it is encrypted with, if it is.
    pub(super) key: Option<KeyId>,
}

/// Why there is no manifest to be had.
pub(super) enum ReadError {
    Damaged(Damage),
    /// No damage, so the manifest must not be skipped.
    Refused(LoadError),
}

pub(super) fn read_manifest(
    disk: &dyn Disk,
    dir: &Path,
    number: u64,
    keys: &EncryptionKeys,
) -> Result<LoadedManifest, ReadError> {
    let path = dir.join(manifest_name(number));
    let damaged = |offset, reason: String| ReadError::Damaged(Damage::new(&path, offset, reason));
    let bytes = read_file(disk, &path).map_err(|error| damaged(0, format!("unreadable: {error}")))?;
    let (manifest, key) = Manifest::decode(&bytes, keys).map_err(|bad| match bad {
        BadManifest::Damaged { offset, reason } => damaged(offset, reason.into()),
        BadManifest::NotSupported(what) => {
            ReadError::Refused(LoadError::NotSupported { file: path.clone(), what })
        }
        BadManifest::Key(source) => ReadError::Refused(LoadError::Key { file: path.clone(), source }),
    })?;
    if manifest.number != number {
        return Err(damaged(16, format!("the manifest says it is number {}", manifest.number)));
    }
    Ok(LoadedManifest { manifest, bytes: bytes.len() as u64, key })
}
