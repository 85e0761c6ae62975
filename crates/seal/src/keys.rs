//! Keys: the ring that a running process uses, shared by everything that seals and opens.
//!
//! Replacing the ring takes effect with the next thing that is sealed. Whether it may be replaced,
//! because everything on disk can still be opened, is for whoever knows the disk to decide.

use std::fmt;
use std::sync::{Arc, RwLock};

use crate::envelope::{Head, Opener, Purpose, SALT_LEN, Sealer, random};
use crate::key::{CHECK_LEN, Key, KeyId};
use crate::ring::Ring;

/// A handle on the ring; clones share it.
#[derive(Clone, Default)]
pub struct Keys {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    ring: RwLock<Arc<Ring>>,
    salts: Salts,
}

/// Where the random part of a head comes from.
#[derive(Default)]
enum Salts {
    #[default]
    Random,
    /// The same place gets the same salt.
    Repeatable,
}

/// Why something sealed cannot be opened with the keys given.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error(
        "it is sealed with the key {id}, and no keys were given; name the file that has it by --encryption-key-file"
    )]
    NoKeys { id: KeyId },
    #[error(
        "it is sealed with the key {id}, which is not in the key file ({given}); put it back, behind the first key"
    )]
    Missing { id: KeyId, given: String },
    #[error("it is sealed with another key than the one that the key file calls {id}; give it the right one")]
    Wrong { id: KeyId },
}

impl Keys {
    /// No keys: nothing is sealed, and nothing sealed can be opened.
    pub fn none() -> Keys {
        Keys::default()
    }

    pub fn new(ring: Ring) -> Keys {
        Keys { shared: Arc::new(Shared { ring: RwLock::new(Arc::new(ring)), salts: Salts::Random }) }
    }

    /// Seals the same bytes in the same place the same way, which gives away what must stay secret:
    /// for tests of formats and for simulations, never for data.
    pub fn repeatable_for_tests(ring: Ring) -> Keys {
        Keys { shared: Arc::new(Shared { ring: RwLock::new(Arc::new(ring)), salts: Salts::Repeatable }) }
    }

    /// The ring of this moment.
    pub fn ring(&self) -> Arc<Ring> {
        self.shared.ring.read().expect("nothing panics under this lock").clone()
    }

    /// The name of the key that seals what is new; none: it is not sealed.
    pub fn current(&self) -> Option<KeyId> {
        self.ring().current().map(|key| key.id())
    }

    /// Uses another ring from now on.
    pub fn replace(&self, ring: Ring) {
        *self.shared.ring.write().expect("nothing panics under this lock") = Arc::new(ring);
    }

    /// A sealer for something new, or none if it is not to be sealed. `place` says where it will
    /// be, for tests.
    pub fn sealer(&self, purpose: Purpose, place: &[u64]) -> Option<Sealer> {
        self.ring().current().map(|key| Sealer::new(key, purpose, self.salt(place)))
    }

    /// What opens the things that were sealed under this head.
    pub fn opener(&self, purpose: Purpose, head: &Head) -> Result<Opener, KeyError> {
        let key = self.require(head.key, &head.check)?;
        Ok(Opener::new(&key, purpose, head))
    }

    /// The key of this name, if it is the one with this check value.
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

fn missing(ring: &Ring, id: KeyId) -> KeyError {
    let given: Vec<String> = ring.ids().map(|id| id.to_string()).collect();
    if given.is_empty() { KeyError::NoKeys { id } } else { KeyError::Missing { id, given: given.join(", ") } }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.ring(), f)
    }
}
