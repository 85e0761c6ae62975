//! Files in the data directory with the state of a migration.
//!
//! | file | meaning |
//! |---|---|
//! | `migration.json` | in progress: etcd is the source of truth, and no server starts here |
//! | `migration.done.json` | finished: this directory is the source of truth, and a server starts here as on any other |
//!
//! The second is the first under another name, so there is exactly one moment at which the source
//! of truth changes: when that rename is on disk. `migration.cut-over` is the request to cut over,
//! `migration.failed` says that it failed, `migration.lock` is held by the migrating process,
//! `migration.snapshot` and `migrating` are a copy that is being made.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

const UNDER_WAY: &str = "migration.json";
const DONE: &str = "migration.done.json";
const REQUEST: &str = "migration.cut-over";
const FAILED: &str = "migration.failed";
const LOCK: &str = "migration.lock";
const SNAPSHOT: &str = "migration.snapshot";
const BUILDING: &str = "migrating";

/// Whether a migration into `data_dir` is not finished.
pub(crate) fn is_under_way(data_dir: &Path) -> bool {
    data_dir.join(UNDER_WAY).exists()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Phase {
    /// There is no copy yet, or no usable one.
    Copying,
    Following,
    /// The etcd may have been fenced.
    CuttingOver,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Marker {
    pub(crate) from: Vec<String>,
    /// Of the etcd.
    pub(crate) cluster_id: u64,
    pub(crate) phase: Phase,
    /// The revision of the cut-over; 0 before.
    pub(crate) revision: i64,
}

/// Why a data directory cannot be locked for a migration.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LockError {
    #[error("cannot lock {path}: {error}", path = path.display())]
    Io { path: PathBuf, error: io::Error },
    #[error("another 'vetch migrate' is at work in {path}", path = .0.display())]
    Taken(PathBuf),
}

/// The data directory of a migration, held by this process alone.
#[derive(Debug)]
pub(crate) struct MigrationDir {
    pub(crate) data_dir: PathBuf,
    _lock: File,
}

impl MigrationDir {
    /// Locks the directory, which exists.
    pub(crate) fn take(data_dir: &Path) -> Result<MigrationDir, LockError> {
        let path = data_dir.join(LOCK);
        let lock = File::create(&path).map_err(|error| LockError::Io { path, error })?;
        lock.try_lock().map_err(|_| LockError::Taken(data_dir.to_path_buf()))?;
        Ok(MigrationDir { data_dir: data_dir.to_path_buf(), _lock: lock })
    }

    pub(crate) fn member(&self) -> PathBuf {
        self.data_dir.join("member")
    }

    pub(crate) fn snapshot(&self) -> PathBuf {
        self.data_dir.join(SNAPSHOT)
    }

    pub(crate) fn building(&self) -> PathBuf {
        self.data_dir.join(BUILDING)
    }

    pub(crate) fn marker(&self) -> io::Result<Option<Marker>> {
        read(&self.data_dir.join(UNDER_WAY))
    }

    pub(crate) fn write(&self, marker: &Marker) -> io::Result<()> {
        self.put(UNDER_WAY, marker)
    }

    /// Makes this directory the source of truth; the caller has to sync it. After an error nothing
    /// has changed, so the rename comes last.
    pub(crate) fn finish(&self, marker: &Marker) -> io::Result<()> {
        ignore_missing(fs::remove_file(self.data_dir.join(FAILED)))?;
        self.put(UNDER_WAY, marker)?;
        fs::rename(self.data_dir.join(UNDER_WAY), self.data_dir.join(DONE))
    }

    fn put(&self, name: &str, marker: &Marker) -> io::Result<()> {
        let (path, part) = (self.data_dir.join(name), self.data_dir.join(format!("{name}.tmp")));
        let mut file = File::create(&part)?;
        file.write_all(serde_json::to_string_pretty(marker)?.as_bytes())?;
        file.sync_all()?;
        fs::rename(part, path)?;
        self.sync()
    }

    pub(crate) fn sync(&self) -> io::Result<()> {
        File::open(&self.data_dir)?.sync_all()
    }

    /// Removes the partial copy.
    pub(crate) fn clear(&self) -> io::Result<()> {
        for dir in [self.member(), self.building()] {
            ignore_missing(fs::remove_dir_all(dir))?;
        }
        ignore_missing(fs::remove_file(self.snapshot()))?;
        self.sync()
    }

    /// Whether the cut-over was requested since the last check.
    pub(crate) fn take_request(&self) -> io::Result<bool> {
        match fs::remove_file(self.data_dir.join(REQUEST)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// For the requesting process.
    pub(crate) fn record_failure(&self, why: &str) -> io::Result<()> {
        fs::write(self.data_dir.join(FAILED), why)
    }
}

/// Whether the last requested cut-over failed.
pub(crate) fn has_failed(data_dir: &Path) -> bool {
    data_dir.join(FAILED).exists()
}

/// The record of a migration that was finished.
pub(crate) fn done(data_dir: &Path) -> io::Result<Option<Marker>> {
    read(&data_dir.join(DONE))
}

/// Requests the cut-over from the process that migrates into `data_dir`.
pub(crate) fn request(data_dir: &Path) -> io::Result<()> {
    ignore_missing(fs::remove_file(data_dir.join(FAILED)))?;
    File::create(data_dir.join(REQUEST)).map(drop)
}

/// Whether that process has not seen the request yet.
pub(crate) fn is_requested(data_dir: &Path) -> bool {
    data_dir.join(REQUEST).exists()
}

fn read(path: &Path) -> io::Result<Option<Marker>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn ignore_missing(outcome: io::Result<()>) -> io::Result<()> {
    match outcome {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_truth_changes_with_one_rename_and_a_directory_has_one_migration() {
        let temp = tempfile::tempdir().unwrap();
        let dir = MigrationDir::take(temp.path()).unwrap();
        assert!(matches!(MigrationDir::take(temp.path()), Err(LockError::Taken(_))));
        assert_eq!(dir.marker().unwrap(), None);
        let mut marker =
            Marker { from: vec!["a:1".into()], cluster_id: u64::MAX, phase: Phase::Copying, revision: 0 };
        dir.write(&marker).unwrap();
        assert_eq!(dir.marker().unwrap(), Some(marker.clone()));
        assert!(is_under_way(temp.path()));
        marker.phase = Phase::CuttingOver;
        marker.revision = 7;
        dir.finish(&marker).unwrap();
        assert!(!is_under_way(temp.path()));
        assert_eq!(done(temp.path()).unwrap(), Some(marker));
    }

    #[test]
    fn what_could_not_be_finished_has_not_changed_hands() {
        let temp = tempfile::tempdir().unwrap();
        let dir = MigrationDir::take(temp.path()).unwrap();
        let marker = Marker { from: Vec::new(), cluster_id: 1, phase: Phase::CuttingOver, revision: 7 };
        dir.write(&marker).unwrap();
        // A directory, which cannot be removed as a file.
        fs::create_dir(temp.path().join(FAILED)).unwrap();
        dir.finish(&marker).unwrap_err();
        assert!(is_under_way(temp.path()));
        assert_eq!(done(temp.path()).unwrap(), None);
    }

    #[test]
    fn a_request_is_taken_once() {
        let temp = tempfile::tempdir().unwrap();
        let dir = MigrationDir::take(temp.path()).unwrap();
        assert!(!dir.take_request().unwrap());
        request(temp.path()).unwrap();
        assert!(is_requested(temp.path()));
        assert!(dir.take_request().unwrap());
        assert!(!dir.take_request().unwrap());
    }
}
