//! The directory: names of checkpoint files, and the removal of those that nobody needs.

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
pub(super) enum Name {
    Data(u64),
    Manifest(u64),
    /// A manifest that was being written.
    Unfinished(u64),
}

impl Name {
    /// None: not one of ours.
    pub(super) fn parse(name: &str) -> Option<Name> {
        let (number, kind) = name.split_once('.')?;
        let is_number = number.len() == 16 && number.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let number = is_number.then(|| u64::from_str_radix(number, 16).ok()).flatten()?;
        match kind {
            "data" => Some(Name::Data(number)),
            "manifest" => Some(Name::Manifest(number)),
            "manifest.tmp" => Some(Name::Unfinished(number)),
            _ => None,
        }
    }

    /// The number in the name.
    pub(super) fn number(self) -> u64 {
        match self {
            Name::Data(number) | Name::Manifest(number) | Name::Unfinished(number) => number,
        }
    }
}

/// Whether these are the names of a checkpoint's files: data, each once, and the manifest `number`
/// behind it.
pub(crate) fn are_files_of(number: u64, names: &[&str]) -> bool {
    let Some((manifest, data)) = names.split_last() else { return false };
    let distinct: BTreeSet<&&str> = data.iter().collect();
    Name::parse(manifest) == Some(Name::Manifest(number))
        && distinct.len() == data.len()
        && data.iter().all(|name| matches!(Name::parse(name), Some(Name::Data(_))))
}

/// The files that must stay.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Needed {
    pub(super) manifests: BTreeSet<u64>,
    pub(super) data: BTreeSet<u64>,
}

/// Removes every checkpoint file that is not needed and returns the names. One that cannot be
/// removed does not keep the others; the first such error is returned, and the next call tries
/// again.
pub(super) fn remove_unneeded(
    disk: &dyn Disk,
    dir: &Path,
    needed: &Needed,
) -> (Vec<String>, Option<io::Error>) {
    let names = match disk.list(dir) {
        Ok(names) => names,
        Err(error) => return (Vec::new(), Some(error)),
    };
    let mut removed = Vec::new();
    let mut failed = None;
    for name in names {
        let stays = match Name::parse(&name) {
            None => true,
            Some(Name::Data(id)) => needed.data.contains(&id),
            Some(Name::Manifest(number)) => needed.manifests.contains(&number),
            Some(Name::Unfinished(_)) => false,
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
