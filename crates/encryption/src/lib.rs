//! Encryption at rest: a key ring from a file, and encryption of bytes with it.
//!
//! * `key_ring`: the key file. The first key encrypts new data, all of them decrypt.
//! * `keys`: the key ring of a running process, which can be replaced while it runs.
//! * `envelope`: encryption and decryption. A writer of a file asks for an [`Encryptor`], puts its
//!   [`EnvelopeHeader`] into the file in the clear and encrypts pieces, each under its own counter.
//!   A reader asks for a [`Decryptor`] for that header.
//!
//! The cipher is AES-256-GCM. The keys of the ring are never used with it directly: every encryptor
//! has its own key, derived by BLAKE3 from a key of the ring and 256 random bits that are stored in
//! the header. A counter may therefore be used once per encryptor rather than once per key, and no
//! key comes near the limit on its use. The header also names the key and holds its check value, a
//! hash that commits to the key, so a missing or wrong key is distinguished from damage before
//! anything is decrypted. The caller passes what a piece belongs to (file, place, neighbours) as
//! associated data.
//!
//! Guarantees: bytes that decrypt were encrypted with that key, for that purpose, in that place. No
//! key is ever in a `Debug` output or in an error. Keys are wiped from memory when they are
//! dropped.
//!
//! Not here: file layouts, when to re-encrypt, flags. docs/encryption.md says what this protects
//! against.

mod envelope;
mod key;
mod key_ring;
mod keys;

#[cfg(test)]
mod tests;

pub use envelope::{
    DecryptError, Decryptor, ENVELOPE_HEADER_LEN, Encryptor, EnvelopeHeader, Purpose, TAG_LEN,
};
pub use key::{CHECK_LEN, Key, KeyId};
pub use key_ring::{KEYS_MAX, KeyRing, KeyRingError, generate_key, read_key_file};
pub use keys::{EncryptionKeys, KeyError};
