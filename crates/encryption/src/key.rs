//! A key of the ring: its name, its secret, and a check value that identifies the key without
//! revealing it.

use std::fmt;

use zeroize::Zeroizing;

/// Bytes of a check value.
pub const CHECK_LEN: usize = 16;

const SECRET_LEN: usize = 32;
const CHECK_CONTEXT: &str = "vetch 2026-11 encryption at rest: check value of a key";

/// The name of a key: 1 to 16 letters, digits, dots, hyphens and underscores. In files it takes 16
/// bytes, filled up with zeros.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId([u8; KeyId::LEN]);

impl KeyId {
    pub const LEN: usize = 16;

    /// None: not a name.
    pub fn new(name: &str) -> Option<KeyId> {
        let fits = (1..=KeyId::LEN).contains(&name.len());
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        if !fits || !name.bytes().all(is_plain) {
            return None;
        }
        let mut id = [0; KeyId::LEN];
        id[..name.len()].copy_from_slice(name.as_bytes());
        Some(KeyId(id))
    }

    /// The name as it stands in a file. None: these bytes are no name.
    pub fn from_bytes(bytes: [u8; KeyId::LEN]) -> Option<KeyId> {
        let len = bytes.iter().position(|&byte| byte == 0).unwrap_or(KeyId::LEN);
        let id = KeyId::new(std::str::from_utf8(&bytes[..len]).ok()?)?;
        (id.0 == bytes).then_some(id)
    }

    pub fn bytes(&self) -> &[u8; KeyId::LEN] {
        &self.0
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.0.iter().take_while(|&&byte| byte != 0).map(|&byte| char::from(byte));
        name.into_iter().try_for_each(|letter| write!(f, "{letter}"))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A key. Wiped from memory when it is dropped.
pub struct Key {
    id: KeyId,
    secret: Zeroizing<[u8; SECRET_LEN]>,
    check: [u8; CHECK_LEN],
}

impl Key {
    pub(crate) fn new(id: KeyId, secret: Zeroizing<[u8; SECRET_LEN]>) -> Key {
        let derived = derive(CHECK_CONTEXT, &[&secret[..]]);
        let mut check = [0; CHECK_LEN];
        check.copy_from_slice(&derived[..CHECK_LEN]);
        Key { id, secret, check }
    }

    pub fn id(&self) -> KeyId {
        self.id
    }

    /// The same for the same secret, whatever its name, and of no use for finding it.
    pub fn check(&self) -> &[u8; CHECK_LEN] {
        &self.check
    }

    /// A key for one file or record: of this secret, for this context and salt alone.
    pub(crate) fn derive(&self, context: &'static str, salt: &[u8]) -> Zeroizing<[u8; SECRET_LEN]> {
        derive(context, &[&self.secret[..], salt])
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({})", self.id)
    }
}

/// The material has parts of fixed lengths, so that no two lists of parts read the same.
fn derive(context: &'static str, material: &[&[u8]]) -> Zeroizing<[u8; SECRET_LEN]> {
    use zeroize::Zeroize;
    let mut hasher = blake3::Hasher::new_derive_key(context);
    for part in material {
        hasher.update(part);
    }
    let mut out = Zeroizing::new([0; SECRET_LEN]);
    hasher.finalize_xof().fill(&mut out[..]);
    hasher.zeroize();
    out
}
