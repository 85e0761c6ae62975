//! The envelope: how bytes are sealed and opened.
//!
//! ```text
//! head   0 [16] name of the key | 16 [16] its check value | 32 [32] salt        once per file or record, in the clear
//! piece  sealed bytes, as many as there were | [16] tag                         any number of them
//! ```
//!
//! Every piece under a head has a number that no other piece under it has; it becomes the nonce.
//! The head is part of every piece's associated data.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

use crate::key::{CHECK_LEN, Key, KeyId};

/// Bytes of a head.
pub const HEAD_LEN: usize = KeyId::LEN + CHECK_LEN + SALT_LEN;
/// What a piece is longer for being sealed.
pub const TAG_LEN: usize = 16;
pub(crate) const SALT_LEN: usize = 32;

/// What is sealed. Keys for different purposes are different, so that no piece of one is ever taken
/// for one of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    JournalRecord,
    DataFile,
    Manifest,
}

impl Purpose {
    fn context(self) -> &'static str {
        match self {
            Purpose::JournalRecord => "vetch 2026-11 encryption at rest: journal record",
            Purpose::DataFile => "vetch 2026-11 encryption at rest: checkpoint data file",
            Purpose::Manifest => "vetch 2026-11 encryption at rest: checkpoint manifest",
        }
    }
}

/// What stands in the clear before sealed pieces: which key, and what made a fresh one of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    pub key: KeyId,
    pub check: [u8; CHECK_LEN],
    pub salt: [u8; SALT_LEN],
}

impl Head {
    pub fn encode(&self) -> [u8; HEAD_LEN] {
        let mut out = [0; HEAD_LEN];
        out[..16].copy_from_slice(self.key.bytes());
        out[16..32].copy_from_slice(&self.check);
        out[32..].copy_from_slice(&self.salt);
        out
    }

    /// None: these bytes are no head.
    pub fn parse(bytes: &[u8; HEAD_LEN]) -> Option<Head> {
        let key = KeyId::from_bytes(bytes[..16].try_into().expect("sixteen bytes"))?;
        let check = bytes[16..32].try_into().expect("sixteen bytes");
        let salt = bytes[32..].try_into().expect("thirty-two bytes");
        Some(Head { key, check, salt })
    }
}

/// Seals pieces under one head.
pub struct Sealer {
    head: Head,
    key: LessSafeKey,
}

/// Opens the pieces under one head.
pub struct Opener {
    head: Head,
    key: LessSafeKey,
}

/// The bytes are not what was sealed here: changed, or from another place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("sealed bytes were altered, or belong to another place")]
pub struct Altered;

impl Sealer {
    pub(crate) fn new(key: &Key, purpose: Purpose, salt: [u8; SALT_LEN]) -> Sealer {
        let head = Head { key: key.id(), check: *key.check(), salt };
        Sealer { head, key: cipher(key, purpose, &head) }
    }

    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Seals `bytes` in place and returns the tag that belongs behind them. `number` must not have
    /// been used with this sealer before.
    pub fn seal(&self, number: u64, bound: &[u64], bytes: &mut [u8]) -> [u8; TAG_LEN] {
        let aad = Aad::from(associated(&self.head, bound));
        let tag = self.key.seal_in_place_separate_tag(nonce(number), aad, bytes);
        let tag = tag.expect("pieces are far below the limit of 64 GiB");
        tag.as_ref().try_into().expect("the tag of this cipher has sixteen bytes")
    }
}

impl Opener {
    pub(crate) fn new(key: &Key, purpose: Purpose, head: &Head) -> Opener {
        Opener { head: *head, key: cipher(key, purpose, head) }
    }

    /// Opens sealed bytes with their tag behind them in place, and returns what was sealed.
    pub fn open<'a>(&self, number: u64, bound: &[u64], piece: &'a mut [u8]) -> Result<&'a [u8], Altered> {
        let aad = Aad::from(associated(&self.head, bound));
        let opened = self.key.open_in_place(nonce(number), aad, piece).map_err(|_| Altered)?;
        Ok(opened)
    }
}

impl std::fmt::Debug for Sealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sealer({})", self.head.key)
    }
}

impl std::fmt::Debug for Opener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Opener({})", self.head.key)
    }
}

fn cipher(key: &Key, purpose: Purpose, head: &Head) -> LessSafeKey {
    let derived = key.derive(purpose.context(), &head.salt);
    LessSafeKey::new(
        UnboundKey::new(&AES_256_GCM, &derived[..]).expect("the key has the length of this cipher"),
    )
}

fn nonce(number: u64) -> Nonce {
    let mut nonce = [0; NONCE_LEN];
    nonce[..8].copy_from_slice(&number.to_le_bytes());
    Nonce::assume_unique_for_key(nonce)
}

/// The head, then the numbers. How many there are is fixed by what calls, so nothing is ambiguous.
fn associated(head: &Head, bound: &[u64]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEAD_LEN + bound.len() * 8);
    out.extend_from_slice(&head.encode());
    bound.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
    out
}

/// Fills `out` with randomness of the operating system's making.
pub(crate) fn random(out: &mut [u8]) {
    aws_lc_rs::rand::fill(out).expect("the operating system has randomness");
}
