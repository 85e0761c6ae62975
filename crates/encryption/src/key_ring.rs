//! The key ring: the keys of a key file, in its order.
//!
//! ```text
//! # The first key encrypts new data; the others decrypt old data.
//! k2 mVnKmrMH0wW0xGZ6eVQ1pVvLZS8iYBRwcyYH3iGbQPM=
//! k1 6Hj0eWkXk9TzE5t9S2Zq0oM8m1rjvF4cXr3uYd7nGxA=
//! ```
//!
//! A line `plain` in place of the first key says that new data is not encrypted; the keys behind it
//! still decrypt old data. Everything doubtful is refused: a file that others can read, a key of
//! the wrong length, a key that is text rather than random bytes, a duplicate name or key.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use crate::key::{Key, KeyId};

/// Limit on the keys of a ring.
pub const KEYS_MAX: usize = 64;

const SECRET_LEN: usize = 32;
/// Limit on the length of a key file.
const FILE_LEN_MAX: u64 = 16 << 10;
/// In place of the first key: new data is not encrypted.
const PLAIN: &str = "plain";
/// Of 32 random bytes about 30 differ; with fewer than this they are not random.
const DIFFERENT_BYTES_MIN: usize = 16;

/// The keys of a process.
#[derive(Debug, Default)]
pub struct KeyRing {
    keys: Vec<Arc<Key>>,
    /// Whether the first key encrypts new data.
    encrypts_new: bool,
}

/// Why a key file is refused. The text says what to do, and never shows a key.
#[derive(Debug, thiserror::Error)]
pub enum KeyRingError {
    #[error("cannot read the encryption key file {}: {source}", path.display())]
    Io { path: PathBuf, source: std::io::Error },
    #[error("the encryption key file {} is not a file", .0.display())]
    NotAFile(PathBuf),
    #[error(
        "the encryption key file {} has mode {mode:03o}: others may read it, or a group may change it; run 'chmod 600 {}'",
        path.display(), path.display()
    )]
    Permissions { path: PathBuf, mode: u32 },
    #[error("the encryption key file {} is longer than {FILE_LEN_MAX} bytes, which no key file is", .0.display())]
    TooLong(PathBuf),
    #[error("the encryption key file {}: {problem}", path.display())]
    Content { path: PathBuf, problem: Problem },
}

/// What is wrong with the content of a key file, and in which line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error("there is no key in it; make one with 'vetch keygen'")]
    Empty,
    #[error("line {0}: it must be the name of a key and the key in base64, with a space between")]
    Line(usize),
    #[error("line {0}: the name of a key has 1 to 16 letters, digits, dots, hyphens and underscores")]
    Name(usize),
    #[error("line {0}: the key is not base64")]
    Base64(usize),
    #[error("line {line}: the key has {len} bytes; it must have {SECRET_LEN}. 'vetch keygen' makes one")]
    Length { line: usize, len: usize },
    #[error("line {0}: the key is not random; make one with 'vetch keygen'")]
    Weak(usize),
    #[error("line {line}: the name {id} comes twice; every key needs a name of its own")]
    SameName { line: usize, id: KeyId },
    #[error("line {line}: the key {id} is the same as the key {other}")]
    SameKey { line: usize, id: KeyId, other: KeyId },
    #[error("line {0}: 'plain' may only stand in place of the first key")]
    PlainLater(usize),
    #[error("there are more than {KEYS_MAX} keys in it")]
    TooMany,
}

impl KeyRing {
    /// The keys in the text of a key file.
    pub fn parse(text: &str) -> Result<KeyRing, Problem> {
        let mut ring = KeyRing { keys: Vec::new(), encrypts_new: true };
        let mut is_first = true;
        for (number, line) in text.lines().enumerate().map(|(at, line)| (at + 1, line.trim())) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if line == PLAIN && !is_first {
                return Err(Problem::PlainLater(number));
            } else if line == PLAIN {
                ring.encrypts_new = false;
            } else {
                ring.add(number, line)?;
            }
            is_first = false;
        }
        if is_first { Err(Problem::Empty) } else { Ok(ring) }
    }

    fn add(&mut self, line: usize, text: &str) -> Result<(), Problem> {
        let mut words = text.split_ascii_whitespace();
        let (Some(name), Some(secret), None) = (words.next(), words.next(), words.next()) else {
            return Err(Problem::Line(line));
        };
        let id = KeyId::new(name).filter(|_| name != PLAIN).ok_or(Problem::Name(line))?;
        let key = Key::new(id, secret_of(line, secret)?);
        if self.find(id).is_some() {
            return Err(Problem::SameName { line, id });
        }
        if let Some(other) = self.keys.iter().find(|other| other.check() == key.check()) {
            return Err(Problem::SameKey { line, id, other: other.id() });
        }
        if self.keys.len() == KEYS_MAX {
            return Err(Problem::TooMany);
        }
        self.keys.push(Arc::new(key));
        Ok(())
    }

    /// The key that encrypts new data; none if new data is not encrypted.
    pub fn current(&self) -> Option<&Arc<Key>> {
        self.keys.first().filter(|_| self.encrypts_new)
    }

    pub fn find(&self, id: KeyId) -> Option<&Arc<Key>> {
        self.keys.iter().find(|key| key.id() == id)
    }

    /// The names of all keys, in order.
    pub fn ids(&self) -> impl Iterator<Item = KeyId> + '_ {
        self.keys.iter().map(|key| key.id())
    }
}

fn secret_of(line: usize, text: &str) -> Result<Zeroizing<[u8; SECRET_LEN]>, Problem> {
    let bytes = STANDARD.decode(text).map(Zeroizing::new).map_err(|_| Problem::Base64(line))?;
    let mut secret = Zeroizing::new([0; SECRET_LEN]);
    if bytes.len() != SECRET_LEN {
        return Err(Problem::Length { line, len: bytes.len() });
    }
    secret.copy_from_slice(&bytes);
    let mut sorted = secret.clone();
    sorted.sort_unstable();
    let different = 1 + sorted.windows(2).filter(|pair| pair[0] != pair[1]).count();
    let is_text = secret.iter().all(|byte| (b' '..=b'~').contains(byte));
    if different < DIFFERENT_BYTES_MIN || is_text { Err(Problem::Weak(line)) } else { Ok(secret) }
}

/// Reads a key file. Only its owner may change it; its owner and at most its group may read it.
pub fn read_key_file(path: &Path) -> Result<KeyRing, KeyRingError> {
    let failed = |source| KeyRingError::Io { path: path.to_path_buf(), source };
    let file = File::open(path).map_err(failed)?;
    let about = file.metadata().map_err(failed)?;
    if !about.is_file() {
        return Err(KeyRingError::NotAFile(path.to_path_buf()));
    }
    let mode = about.mode() & 0o777;
    if mode & 0o027 != 0 {
        return Err(KeyRingError::Permissions { path: path.to_path_buf(), mode });
    }
    // The whole capacity from the start: growing would leave a copy of the keys in memory.
    let mut text = Zeroizing::new(String::with_capacity(FILE_LEN_MAX as usize + 1));
    file.take(FILE_LEN_MAX + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > FILE_LEN_MAX {
        return Err(KeyRingError::TooLong(path.to_path_buf()));
    }
    KeyRing::parse(&text).map_err(|problem| KeyRingError::Content { path: path.to_path_buf(), problem })
}

/// A line of a key file with a new random key.
pub fn generate_key(id: KeyId) -> Zeroizing<String> {
    let mut secret = Zeroizing::new([0; SECRET_LEN]);
    crate::envelope::random(&mut secret[..]);
    let encoded = Zeroizing::new(STANDARD.encode(&secret[..]));
    Zeroizing::new(format!("{id} {}\n", *encoded))
}
