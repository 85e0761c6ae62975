//! The directory: names of checkpoint files, and removal of unreferenced ones.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use vetch_journal::Disk;

pub(super) fn data_name(id: u64) -> String {
    format!("{id:016x}.data")
}

pub(super) fn manifest_name(number: u64) -> String {
    format!("{number:016x}.manifest")
}

/// What a file in the directory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileName {
    Data(u64),
    Manifest(u64),
    /// A manifest that was being written.
    Unfinished(u64),
}

impl FileName {
    /// None if the name is not one of a checkpoint file.
    pub(super) fn parse(name: &str) -> Option<FileName> {
        let (number, kind) = name.split_once('.')?;
        let is_number = number.len() == 16 && number.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let number = is_number.then(|| u64::from_str_radix(number, 16).ok()).flatten()?;
        match kind {
            "data" => Some(FileName::Data(number)),
            "manifest" => Some(FileName::Manifest(number)),
            "manifest.tmp" => Some(FileName::Unfinished(number)),
            _ => None,
        }
    }

    /// The number in the name.
    pub(super) fn number(self) -> u64 {
        match self {
            FileName::Data(number) | FileName::Manifest(number) | FileName::Unfinished(number) => number,
        }
    }
}

/// Whether these are the names of a checkpoint's files: data files, each once, then the manifest
/// `number`.
pub(super) fn are_files_of(number: u64, names: &[&str]) -> bool {
    let Some((manifest, data)) = names.split_last() else { return false };
    let distinct: BTreeSet<&&str> = data.iter().collect();
    FileName::parse(manifest) == Some(FileName::Manifest(number))
        && distinct.len() == data.len()
        && data.iter().all(|name| matches!(FileName::parse(name), Some(FileName::Data(_))))
}

/// The files that a kept or pinned checkpoint consists of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ReferencedFiles {
    pub(super) manifests: BTreeSet<u64>,
    pub(super) data: BTreeSet<u64>,
}

/// Removes every checkpoint file that is not referenced and returns the names. A file that cannot
/// be removed does not keep the others; the first such error is returned, and the next call
/// retries.
pub(super) fn remove_unreferenced(
    disk: &dyn Disk,
    dir: &Path,
    referenced: &ReferencedFiles,
) -> (Vec<String>, Option<io::Error>) {
    let names = match disk.list(dir) {
        Ok(names) => names,
        Err(error) => return (Vec::new(), Some(error)),
    };
    let mut removed = Vec::new();
    let mut failed = None;
    for name in names {
        let stays = match FileName::parse(&name) {
            None => true,
            Some(FileName::Data(id)) => referenced.data.contains(&id),
            Some(FileName::Manifest(number)) => referenced.manifests.contains(&number),
            Some(FileName::Unfinished(_)) => false,
        };
        if stays {
            continue;
        }
        match disk.remove(&dir.join(&name)) {
            Ok(()) => removed.push(name),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    (removed, failed)
}
