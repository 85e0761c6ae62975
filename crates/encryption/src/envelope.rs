//! The envelope: the layout of encrypted bytes.
//!
//! ```text
//! header   0 [16] name of the key | 16 [16] its check value | 32 [32] salt    once per file or record, in the clear
//! piece    ciphertext, as long as the plaintext | [16] tag                    any number of them
//! ```
//!
//! Every piece under a header has a unique counter, which becomes the nonce. The header is part of
//! the associated data of every piece.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

use crate::key::{CHECK_LEN, Key, KeyId};

/// Bytes of a header.
pub const ENVELOPE_HEADER_LEN: usize = KeyId::LEN + CHECK_LEN + SALT_LEN;
/// Bytes that encryption adds to a piece.
pub const TAG_LEN: usize = 16;
pub(crate) const SALT_LEN: usize = 32;

/// What is encrypted. Each purpose derives its own keys, so a piece for one purpose never decrypts
/// as a piece for another.
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

/// Stored in the clear before encrypted pieces: which key, and the salt that derived this file's
/// key from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EnvelopeHeader {
    pub key: KeyId,
    pub check: [u8; CHECK_LEN],
    pub salt: [u8; SALT_LEN],
}

impl EnvelopeHeader {
    pub fn encode(&self) -> [u8; ENVELOPE_HEADER_LEN] {
        let mut out = [0; ENVELOPE_HEADER_LEN];
        out[..16].copy_from_slice(self.key.bytes());
        out[16..32].copy_from_slice(&self.check);
        out[32..].copy_from_slice(&self.salt);
        out
    }

    /// None if these bytes are not a header.
    pub fn parse(bytes: &[u8; ENVELOPE_HEADER_LEN]) -> Option<EnvelopeHeader> {
        let key = KeyId::from_bytes(bytes[..16].try_into().expect("sixteen bytes"))?;
        let check = bytes[16..32].try_into().expect("sixteen bytes");
        let salt = bytes[32..].try_into().expect("thirty-two bytes");
        Some(EnvelopeHeader { key, check, salt })
    }
}

/// Encrypts pieces under one header.
pub struct Encryptor {
    header: EnvelopeHeader,
    key: LessSafeKey,
}

/// Decrypts the pieces under one header.
pub struct Decryptor {
    header: EnvelopeHeader,
    key: LessSafeKey,
}

/// Authentication failed: the bytes were changed, or belong to another place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("encrypted bytes were altered, or belong to another place")]
pub struct DecryptError;

impl Encryptor {
    pub(crate) fn new(key: &Key, purpose: Purpose, salt: [u8; SALT_LEN]) -> Encryptor {
        let header = EnvelopeHeader { key: key.id(), check: *key.check(), salt };
        Encryptor { header, key: cipher(key, purpose, &header) }
    }

    pub fn header(&self) -> &EnvelopeHeader {
        &self.header
    }

    /// Encrypts `bytes` in place and returns the tag, which is stored behind them. `counter` must
    /// not have been used with this encryptor before.
    pub fn encrypt(&self, counter: u64, context: &[u64], bytes: &mut [u8]) -> [u8; TAG_LEN] {
        let aad = Aad::from(associated_data(&self.header, context));
        let tag = self.key.seal_in_place_separate_tag(nonce(counter), aad, bytes);
        let tag = tag.expect("pieces are far below the limit of 64 GiB");
        tag.as_ref().try_into().expect("the tag of this cipher has sixteen bytes")
    }
}

impl Decryptor {
    pub(crate) fn new(key: &Key, purpose: Purpose, header: &EnvelopeHeader) -> Decryptor {
        Decryptor { header: *header, key: cipher(key, purpose, header) }
    }

    /// Decrypts `piece`, a ciphertext and its tag, in place, and returns the plaintext.
    pub fn decrypt<'a>(
        &self,
        counter: u64,
        context: &[u64],
        piece: &'a mut [u8],
    ) -> Result<&'a [u8], DecryptError> {
        let aad = Aad::from(associated_data(&self.header, context));
        let plaintext = self.key.open_in_place(nonce(counter), aad, piece).map_err(|_| DecryptError)?;
        Ok(plaintext)
    }
}

impl std::fmt::Debug for Encryptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Encryptor({})", self.header.key)
    }
}

impl std::fmt::Debug for Decryptor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Decryptor({})", self.header.key)
    }
}

fn cipher(key: &Key, purpose: Purpose, header: &EnvelopeHeader) -> LessSafeKey {
    let derived = key.derive(purpose.context(), &header.salt);
    LessSafeKey::new(
        UnboundKey::new(&AES_256_GCM, &derived[..]).expect("the key has the length of this cipher"),
    )
}

fn nonce(counter: u64) -> Nonce {
    let mut nonce = [0; NONCE_LEN];
    nonce[..8].copy_from_slice(&counter.to_le_bytes());
    Nonce::assume_unique_for_key(nonce)
}

/// The header, then the numbers of the context. Each caller passes a fixed count of them, so the
/// encoding is unambiguous.
fn associated_data(header: &EnvelopeHeader, context: &[u64]) -> Vec<u8> {
    let mut out = Vec::with_capacity(ENVELOPE_HEADER_LEN + context.len() * 8);
    out.extend_from_slice(&header.encode());
    context.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
    out
}

/// Fills `out` with random bytes from the operating system.
pub(crate) fn random(out: &mut [u8]) {
    aws_lc_rs::rand::fill(out).expect("the operating system has randomness");
}
