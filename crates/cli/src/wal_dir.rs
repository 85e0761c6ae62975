//! `--wal-dir`: the journal on a disk of its own.
//!
//! `member/journal` becomes a link to the directory, once, when the member is new. So a later start
//! finds the journal with or without the flag, tools that read a data directory need no flag, and
//! no member is started without its journal by mistake.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::Path;

#[derive(Debug, thiserror::Error)]
pub(crate) enum WalDirError {
    #[error("cannot use --wal-dir {path}: {error}")]
    Io { path: String, error: io::Error },
    #[error(
        "--wal-dir {wal_dir}: the journal of this member is in {found}. To move it, stop the server, copy that directory to {wal_dir}, remove it, and put a link to {wal_dir} in its place"
    )]
    OtherLocation { wal_dir: String, found: String },
    #[error("--wal-dir {0} is not empty, and this member is new; it may be another member's")]
    NotEmpty(String),
}

/// Puts the journal of the member in `data_dir` into `wal_dir`, or finds it there.
pub(crate) fn link_journal(data_dir: &Path, wal_dir: &Path) -> Result<(), WalDirError> {
    let failed = |error| WalDirError::Io { path: wal_dir.display().to_string(), error };
    let member = data_dir.join("member");
    for directory in [&member, wal_dir] {
        DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
    }
    let wal_dir = wal_dir.canonicalize().map_err(failed)?;
    let link = member.join("journal");
    match fs::symlink_metadata(&link) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
        Ok(_) => {
            let found = link.canonicalize().map_err(failed)?;
            return if found == wal_dir { Ok(()) } else { Err(other_location(&wal_dir, &found)) };
        }
    }
    if has_entries(&wal_dir).map_err(failed)? {
        return Err(WalDirError::NotEmpty(wal_dir.display().to_string()));
    }
    symlink(&wal_dir, &link).map_err(failed)?;
    // Journal and checkpoints sync their own directories, not the path to them.
    File::open(&member).and_then(|directory| directory.sync_all()).map_err(failed)
}

fn other_location(wal_dir: &Path, found: &Path) -> WalDirError {
    let (wal_dir, found) = (wal_dir.display().to_string(), found.display().to_string());
    WalDirError::OtherLocation { wal_dir, found }
}

/// A new file system has lost+found.
fn has_entries(path: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(path)? {
        if entry?.file_name() != "lost+found" {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_member_is_linked_and_stays_so() {
        let dir = tempfile::tempdir().unwrap();
        let (data, wal, other) = (dir.path().join("data"), dir.path().join("wal"), dir.path().join("other"));
        link_journal(&data, &wal).unwrap();
        let link = data.join("member/journal");
        assert_eq!(fs::read_link(&link).unwrap(), wal.canonicalize().unwrap());
        fs::write(wal.join("segment"), "").unwrap();
        link_journal(&data, &wal).unwrap();
        let text = link_journal(&data, &other).unwrap_err().to_string();
        assert!(text.contains("the journal of this member is in"), "{text}");
    }

    #[test]
    fn what_is_elsewhere_already_is_not_left_behind() {
        let dir = tempfile::tempdir().unwrap();
        let (data, wal) = (dir.path().join("data"), dir.path().join("wal"));
        fs::create_dir_all(data.join("member/journal")).unwrap();
        assert!(matches!(link_journal(&data, &wal), Err(WalDirError::OtherLocation { .. })));
        fs::write(wal.join("of-another"), "").unwrap();
        let text = link_journal(&dir.path().join("new"), &wal).unwrap_err().to_string();
        assert!(text.contains("is not empty"), "{text}");
    }
}
