//! What a snapshot holds, as `etcdutl snapshot status` reports it.

use std::collections::HashSet;
use std::path::Path;

use prost::Message;
use sha2::{Digest, Sha256};

use crate::file::{SnapshotError, SnapshotFile};
use crate::messages::Tombstone;
use crate::schema::{self, RevisionKey};

#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// CRC-32C of the names of all buckets, and all keys and values in them.
    pub hash: u32,
    pub revision: i64,
    pub total_key: u64,
    /// Bytes of the database, without the hash behind it.
    pub total_size: u64,
    /// Of the storage format; empty before 3.6.
    pub version: String,
}

/// Reads all of a snapshot. Memory: 16 bytes, and what a hash table adds, for each living key.
///
/// Stricter than etcdutl: a hash behind the file that does not match it is an error here.
pub fn status(path: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<Status, SnapshotError> {
    let file = SnapshotFile::open(path)?;
    file.check_hash(progress)?;
    let mut status = Status { total_size: file.db.bytes(), ..Status::default() };
    let mut living: HashSet<[u8; 16]> = HashSet::new();
    let mut buckets = file.db.buckets();
    while let Some(bucket) = buckets.next().map_err(file.format())? {
        status.hash = crc32c::crc32c_append(status.hash, bucket.key);
        let root = bucket.bucket().map_err(file.format())?;
        let mut entries = file.db.entries(&root);
        while let Some(entry) = entries.next().map_err(file.format())? {
            status.hash = crc32c::crc32c_append(status.hash, entry.key);
            status.hash = crc32c::crc32c_append(status.hash, entry.value);
            if bucket.key == schema::KEY {
                let wrong = |reason: &str| SnapshotError::content(schema::KEY, entry.key, reason);
                let revision =
                    RevisionKey::decode(entry.key).ok_or_else(|| wrong("this is not a revision"))?;
                let key = Tombstone::decode(entry.value).map_err(|_| wrong("this is not a key-value"))?.key;
                status.revision = revision.main;
                let name = fingerprint(&key);
                let _ = if revision.is_tombstone { living.remove(&name) } else { living.insert(name) };
            } else if bucket.key == schema::META && entry.key == schema::STORAGE_VERSION {
                status.version = String::from_utf8_lossy(entry.value).into_owned();
            }
        }
    }
    status.total_key = living.len() as u64;
    Ok(status)
}

/// Two keys with the same one would be counted as one key, but SHA-256 has no known collisions.
fn fingerprint(key: &[u8]) -> [u8; 16] {
    let digest = Sha256::digest(key);
    digest[..16].try_into().expect("SHA-256 has 32 bytes")
}
