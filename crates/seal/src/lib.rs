//! Seal: encryption at rest. A ring of keys from a file, and bytes sealed with them.
//!
//! * `ring`: the key file. The first key seals what is new, the others open what is old.
//! * `keys`: the ring that a running process uses, which can be replaced while it runs.
//! * `envelope`: sealing and opening. Whoever writes a file asks for a [`Sealer`], puts its
//!   [`Head`] into the file in the clear and seals pieces, each with a number of its own; whoever
//!   reads it asks for an [`Opener`] with that head.
//!
//! How: AES-256-GCM. The keys of the ring are never used for it directly: every sealer has a key of
//! its own, derived by BLAKE3 from the ring's key and 256 random bits that stand in the head. So a
//! number may be used once per sealer and not once per key, and no limit on the life of a key comes
//! near. The head also names the ring's key and holds a check value of it, a hash that commits to
//! the key: a missing or a wrong key is told apart from damage, before anything is opened. What a
//! piece belongs to (file, place, neighbours) is the caller's to bind as associated data.
//!
//! Guarantees: what opens was sealed with that key, for that purpose, in that place; no key is ever
//! in a `Debug` output or in an error. Keys are wiped from memory when they are dropped.
//!
//! Not here: layouts of files, when to seal anew, flags. docs/encryption.md says what all of this
//! protects from.

mod envelope;
mod key;
mod keys;
mod ring;

#[cfg(test)]
mod tests;

pub use envelope::{Altered, HEAD_LEN, Head, Opener, Purpose, Sealer, TAG_LEN};
pub use key::{CHECK_LEN, Key, KeyId};
pub use keys::{KeyError, Keys};
pub use ring::{MAX_KEYS, Ring, RingError, generate, read};
