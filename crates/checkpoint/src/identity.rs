//! Identity: the ids of the cluster and the member, kept in a small file of the data directory, so
//! that a restart with other flags does not change them.

use std::io;
use std::path::{Path, PathBuf};

use vetch_journal::{Disk, read_file, write_atomically};

const NAME: &str = "identity";
const MAGIC: &[u8; 8] = b"VETCHID1";
/// Magic, cluster id, member id, checksum.
const LEN: usize = 8 + 8 + 8 + 4;

/// Which server of which cluster a data directory belongs to. Chosen at the first start and kept in
/// the data directory from then on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    pub cluster_id: u64,
    pub member_id: u64,
}

/// Why the identity of a data directory cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    #[error("{}: {reason}. Restore the file from a backup of the data directory", path.display())]
    Damaged { path: PathBuf, reason: BadIdentity },
    #[error("{op} {}: {source}", path.display())]
    Io { op: &'static str, path: PathBuf, source: io::Error },
}

/// Why bytes are not an identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadIdentity {
    #[error("this is not an identity file of a version known here")]
    Format,
    #[error("the checksum does not match: the file is damaged")]
    Checksum,
}

/// The identity on disk, or `proposed`, which is then written.
pub fn load_or_create(disk: &dyn Disk, dir: &Path, proposed: Identity) -> Result<Identity, IdentityError> {
    if let Some(identity) = load(disk, dir)? {
        return Ok(identity);
    }
    let written = write_atomically(disk, dir, NAME, &encode(proposed));
    written.map(|()| proposed).map_err(failed("writing", dir))
}

/// The identity on disk. There is none before the first start, as after a restore.
pub fn load(disk: &dyn Disk, dir: &Path) -> Result<Option<Identity>, IdentityError> {
    match read_file(disk, &dir.join(NAME)) {
        Ok(bytes) => match decode(&bytes) {
            Ok(identity) => Ok(Some(identity)),
            Err(reason) => Err(IdentityError::Damaged { path: dir.join(NAME), reason }),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("reading", dir)(error)),
    }
}

/// Removes the identity: the next start chooses a new one.
pub fn remove(disk: &dyn Disk, dir: &Path) -> Result<(), IdentityError> {
    match disk.remove(&dir.join(NAME)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("removing", dir)(error)),
        _ => Ok(()),
    }
}

fn failed(op: &'static str, dir: &Path) -> impl FnOnce(io::Error) -> IdentityError {
    let path = dir.join(NAME);
    move |source| IdentityError::Io { op, path, source }
}

fn encode(identity: Identity) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(LEN);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&identity.cluster_id.to_le_bytes());
    bytes.extend_from_slice(&identity.member_id.to_le_bytes());
    bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
    bytes
}

fn decode(bytes: &[u8]) -> Result<Identity, BadIdentity> {
    if bytes.len() != LEN || !bytes.starts_with(MAGIC) {
        return Err(BadIdentity::Format);
    }
    let (body, checksum) = bytes.split_at(LEN - 4);
    if crc32c::crc32c(body).to_le_bytes() != checksum {
        return Err(BadIdentity::Checksum);
    }
    let number = |at: usize| u64::from_le_bytes(body[at..at + 8].try_into().expect("eight bytes"));
    Ok(Identity { cluster_id: number(8), member_id: number(16) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use vetch_journal::MemDisk;

    #[test]
    fn the_identity_on_disk_wins() {
        let disk = MemDisk::new();
        let dir = Path::new("/d");
        disk.create_dir_all(dir).unwrap();
        let first = Identity { cluster_id: 7, member_id: 9 };
        assert_eq!(load_or_create(&disk, dir, first).unwrap(), first);
        let other = Identity { cluster_id: 1, member_id: 2 };
        assert_eq!(load_or_create(&disk, dir, other).unwrap(), first);
    }

    #[test]
    fn every_damaged_bit_is_noticed() {
        let good = encode(Identity { cluster_id: 7, member_id: 9 });
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&bad).is_err(), "bit {bit}");
        }
    }
}
