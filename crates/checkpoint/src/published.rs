//! A checkpoint on disk, as it is remembered between runs.

use vetch_encryption::KeyId;
use vetch_journal::Tip;
use vetch_store::Mark;

use super::manifest::{DataFile, Manifest};

/// A checkpoint that is on disk.
#[derive(Debug, Clone)]
pub(super) struct Published {
    /// None if there is no checkpoint yet, and this is the empty state.
    pub(super) number: Option<u64>,
    pub(super) tip: Tip,
    /// The position of the record that made the tip, in a shared journal; 0 in a local one.
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
