//! Identity: who this member is, kept in a small file so that a restart with other flags changes
//! nothing.

use std::path::Path;

use vetch_journal::{Disk, read_file, write_atomically};

use crate::config::Identity;
use crate::error::OpenError;

const NAME: &str = "identity";
const MAGIC: &[u8; 8] = b"VETCHID1";
/// Magic, cluster id, member id, checksum.
const LEN: usize = 8 + 8 + 8 + 4;

/// The identity on disk, or `proposed`, which is then written down.
pub(crate) fn load_or_create(disk: &dyn Disk, dir: &Path, proposed: Identity) -> Result<Identity, OpenError> {
    let path = dir.join(NAME);
    match read_file(disk, &path) {
        Ok(bytes) => decode(&bytes).map_err(|reason| OpenError::Identity {
            path: path.display().to_string(),
            reason: reason.to_owned(),
        }),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let written = write_atomically(disk, dir, NAME, &encode(proposed));
            written.map(|()| proposed).map_err(|source| io("writing", &path, source))
        }
        Err(source) => Err(io("reading", &path, source)),
    }
}

/// The next start chooses who this is.
pub(crate) fn forget(disk: &dyn Disk, dir: &Path) -> Result<(), OpenError> {
    let path = dir.join(NAME);
    match disk.remove(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(io("removing", &path, error)),
        _ => Ok(()),
    }
}

/// The identity on disk, or why it cannot be read. There is none before the first start, as after a
/// restore.
pub fn check(disk: &dyn Disk, dir: &Path) -> Result<Option<Identity>, String> {
    match read_file(disk, &dir.join(NAME)) {
        Ok(bytes) => decode(&bytes).map(Some).map_err(str::to_owned),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

fn io(op: &'static str, path: &Path, source: std::io::Error) -> OpenError {
    OpenError::Io { op, path: path.display().to_string(), source }
}

fn encode(identity: Identity) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(LEN);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&identity.cluster_id.to_le_bytes());
    bytes.extend_from_slice(&identity.member_id.to_le_bytes());
    bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
    bytes
}

fn decode(bytes: &[u8]) -> Result<Identity, &'static str> {
    if bytes.len() != LEN || !bytes.starts_with(MAGIC) {
        return Err("this is not an identity file of a version known here");
    }
    let (body, checksum) = bytes.split_at(LEN - 4);
    if crc32c::crc32c(body).to_le_bytes() != checksum {
        return Err("the checksum does not match: the file is damaged");
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
