//! The data directory of an etcd that is not running.

use std::fs::File;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use vetch_node::config::Identity;

use crate::file::SnapshotError;
use crate::wal::{self, Tail};

/// Whether a path looks like the data directory of an etcd.
pub fn is_etcd(data_dir: &Path) -> bool {
    let member = data_dir.join("member");
    member.join("snap").is_dir() || member.join("wal").is_dir()
}

pub(crate) struct EtcdDir {
    pub(crate) db: PathBuf,
    wal: PathBuf,
    /// Keeps an etcd from being started on the directory meanwhile.
    _lock: File,
}

impl EtcdDir {
    pub(crate) fn open(data_dir: &Path, wal_dir: Option<&Path>) -> Result<EtcdDir, SnapshotError> {
        let member = data_dir.join("member");
        let db = member.join("snap").join("db");
        if !db.is_file() {
            return Err(SnapshotError::Refused(format!(
                "{} is neither a snapshot nor the data directory of an etcd: {} does not exist",
                data_dir.display(),
                db.display()
            )));
        }
        let lock = File::open(&db).map_err(SnapshotError::io("opening", &db))?;
        flock(&lock, FlockOperation::NonBlockingLockShared).map_err(|_| {
            SnapshotError::Refused(format!(
                "an etcd is running on {}: stop it first, or take a snapshot of it and restore that",
                data_dir.display()
            ))
        })?;
        let wal = wal_dir.map_or_else(|| member.join("wal"), Path::to_path_buf);
        Ok(EtcdDir { db, wal, _lock: lock })
    }

    /// What the log holds behind `index`.
    pub(crate) fn tail(&self, index: u64) -> Result<Tail, SnapshotError> {
        wal::read_tail(&self.wal, index)
    }
}

/// Who the etcd was.
pub(crate) fn identity(tail: &Tail) -> Option<Identity> {
    let metadata = tail.metadata.as_ref()?;
    Some(Identity { cluster_id: metadata.cluster_id, member_id: metadata.node_id })
}
