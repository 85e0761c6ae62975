//! The key ring of a running process, shared by everything that encrypts and decrypts.
//!
//! A new ring is used from the next encryption on. The caller decides whether the ring may be
//! replaced, because it knows which keys the files on disk need.

use std::fmt;
use std::sync::{Arc, RwLock};

use crate::envelope::{Decryptor, Encryptor, EnvelopeHeader, Purpose, SALT_LEN, random};
use crate::key::{CHECK_LEN, Key, KeyId};
use crate::key_ring::KeyRing;

/// A handle on the key ring; clones share it.
#[derive(Clone, Default)]
pub struct EncryptionKeys {
    shared: Arc<SharedRing>,
}

#[derive(Default)]
struct SharedRing {
    ring: RwLock<Arc<KeyRing>>,
    salts: Salts,
}

/// Where the random part of a header comes from.
#[derive(Default)]
enum Salts {
    #[default]
    Random,
    /// The same place gets the same salt.
    Repeatable,
}

/// Why something cannot be decrypted with the given keys.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error(
        "it is encrypted with the key {id}, and no keys were given; name the file that has it by --encryption-key-file"
    )]
    NoKeys { id: KeyId },
    #[error(
        "it is encrypted with the key {id}, which is not in the key file ({given}); put it back, behind the first key"
    )]
    Missing { id: KeyId, given: String },
    #[error(
        "it is encrypted with another key than the one that the key file calls {id}; give it the right one"
    )]
    Wrong { id: KeyId },
}

impl EncryptionKeys {
    /// No keys: nothing is encrypted, and nothing can be decrypted.
    pub fn none() -> EncryptionKeys {
        EncryptionKeys::default()
    }

    pub fn new(ring: KeyRing) -> EncryptionKeys {
        EncryptionKeys {
            shared: Arc::new(SharedRing { ring: RwLock::new(Arc::new(ring)), salts: Salts::Random }),
        }
    }

    /// Salts depend on the place alone, so encryption is deterministic. That leaks which bytes are
    /// equal: only for tests of formats and for simulations, never for data.
    pub fn repeatable_for_tests(ring: KeyRing) -> EncryptionKeys {
        EncryptionKeys {
            shared: Arc::new(SharedRing { ring: RwLock::new(Arc::new(ring)), salts: Salts::Repeatable }),
        }
    }

    /// The current ring.
    pub fn ring(&self) -> Arc<KeyRing> {
        self.shared.ring.read().expect("nothing panics under this lock").clone()
    }

    /// The name of the key that encrypts new data; none if new data is not encrypted.
    pub fn current(&self) -> Option<KeyId> {
        self.ring().current().map(|key| key.id())
    }

    /// Uses another ring from now on.
    pub fn replace(&self, ring: KeyRing) {
        *self.shared.ring.write().expect("nothing panics under this lock") = Arc::new(ring);
    }

    /// An encryptor for new data, or none if new data is not encrypted. `place` says where it will
    /// be stored, for repeatable salts.
    pub fn encryptor(&self, purpose: Purpose, place: &[u64]) -> Option<Encryptor> {
        self.ring().current().map(|key| Encryptor::new(key, purpose, self.salt(place)))
    }

    /// Decrypts the pieces under this header.
    pub fn decryptor(&self, purpose: Purpose, header: &EnvelopeHeader) -> Result<Decryptor, KeyError> {
        let key = self.require(header.key, &header.check)?;
        Ok(Decryptor::new(&key, purpose, header))
    }

    /// The key of this name, if it has this check value.
    pub fn require(&self, id: KeyId, check: &[u8; CHECK_LEN]) -> Result<Arc<Key>, KeyError> {
        let key = self.find(id)?;
        if key.check() != check {
            return Err(KeyError::Wrong { id });
        }
        Ok(key)
    }

    /// The key of this name.
    pub fn find(&self, id: KeyId) -> Result<Arc<Key>, KeyError> {
        let ring = self.ring();
        ring.find(id).cloned().ok_or_else(|| missing(&ring, id))
    }

    fn salt(&self, place: &[u64]) -> [u8; SALT_LEN] {
        let mut salt = [0; SALT_LEN];
        match self.shared.salts {
            Salts::Random => random(&mut salt),
            Salts::Repeatable => {
                let place: Vec<u8> = place.iter().flat_map(|number| number.to_le_bytes()).collect();
                salt = *blake3::hash(&place).as_bytes();
            }
        }
        salt
    }
}

fn missing(ring: &KeyRing, id: KeyId) -> KeyError {
    let given: Vec<String> = ring.ids().map(|id| id.to_string()).collect();
    if given.is_empty() { KeyError::NoKeys { id } } else { KeyError::Missing { id, given: given.join(", ") } }
}

impl fmt::Debug for EncryptionKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.ring(), f)
    }
}
