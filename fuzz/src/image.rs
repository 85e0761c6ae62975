//! Images: several files in one input. A byte of flags, then for each file its name's number, its
//! length, its bytes.

use std::path::{Path, PathBuf};

use vetch_encryption::{EncryptionKeys, KeyRing};
use vetch_journal::{Disk, MemDisk};

/// Keys that open what the encrypted seeds hold, and encrypt what is written if they are to. Made
/// for fuzzing and used for nothing else.
pub fn keys(is_encrypted: bool) -> EncryptionKeys {
    let first = if is_encrypted { "" } else { "plain\n" };
    let ring = KeyRing::parse(&format!("{first}k AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="));
    EncryptionKeys::repeatable_for_tests(ring.expect("a sound ring"))
}

/// What is made right again after the mutation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    pub fn checksums(self) -> bool {
        self.0 & 1 != 0
    }

    /// Links from one entry to the next; implies checksums.
    pub fn chain(self) -> bool {
        self.0 & 2 != 0
    }
}

/// The files of an input. One that claims more bytes than there are gets those that are left.
pub fn parse(data: &[u8]) -> (Flags, Vec<(u8, Vec<u8>)>) {
    let Some((&flags, mut rest)) = data.split_first() else { return (Flags(0), Vec::new()) };
    let mut files = Vec::new();
    while let [name, low, high, body @ ..] = rest {
        let len = usize::from(u16::from_le_bytes([*low, *high])).min(body.len());
        files.push((*name, body[..len].to_vec()));
        rest = &body[len..];
    }
    (Flags(flags), files)
}

pub fn build(flags: Flags, files: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let mut data = vec![flags.0];
    for (name, content) in files {
        data.push(*name);
        data.extend_from_slice(&u16::try_from(content.len()).expect("seeds are small").to_le_bytes());
        data.extend_from_slice(content);
    }
    data
}

/// A disk with these files in `dir`; the last one of a name stays.
pub fn disk(dir: &Path, files: impl IntoIterator<Item = (String, Vec<u8>)>) -> MemDisk {
    let disk = MemDisk::new();
    disk.create_dir_all(dir).expect("a fresh disk");
    for (name, content) in files {
        let path: PathBuf = dir.join(name);
        if disk.content(&path).is_none() {
            disk.create(&path).expect("a fresh disk");
        }
        disk.overwrite(&path, &content);
    }
    disk
}
