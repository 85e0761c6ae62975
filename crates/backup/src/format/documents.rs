//! Documents: JSON that people can read, with a line behind it that says whether it still is what
//! was written.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::FORMAT;
use super::chunk::ChunkHeader;
use crate::error::BackupError;
use vetch_base::Seq;

const CHECKSUM: &str = "\nblake3 ";

/// Whose backup this is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    pub format: u64,
    pub cluster_id: String,
    pub member_id: String,
}

/// A full backup: one checkpoint, from which replaying journal leads to every later point.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Full {
    pub format: u64,
    /// The journal's id.
    pub journal: String,
    /// The last entry that the checkpoint contains.
    pub seq: Seq,
    pub revision: i64,
    pub compact_revision: i64,
    /// When this was written, in milliseconds since 1970. The checkpoint is older.
    pub time: u64,
    /// The checkpoint's manifest and data files. None of either: the state before the first entry.
    pub files: Vec<FileInfo>,
    /// The chunks that came since the full backup before, so that not every one of them has to be
    /// looked at.
    pub chunks: Vec<ChunkInfo>,
}

/// A file of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileInfo {
    /// In the checkpoint's directory.
    pub name: String,
    pub size: u64,
    /// BLAKE3 of all of it, as in the name of its object.
    pub hash: String,
}

/// What there is to know of a chunk without reading it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChunkInfo {
    pub first_seq: Seq,
    pub last_seq: Seq,
    pub segment: Seq,
    pub revision: Option<i64>,
    /// Times of the first and the last mark.
    pub times: Option<(u64, u64)>,
    /// Of the object.
    pub size: u64,
}

impl ChunkInfo {
    pub fn new(header: &ChunkHeader, size: u64) -> ChunkInfo {
        let times = header.marks.first().zip(header.marks.last());
        ChunkInfo {
            first_seq: header.first_seq,
            last_seq: header.last_seq,
            segment: header.segment,
            revision: header.revision,
            times: times.map(|(first, last)| (first.time, last.time)),
            size,
        }
    }
}

pub fn encode(document: &impl Serialize) -> Vec<u8> {
    let json = serde_json::to_string_pretty(document).expect("a document is plain data");
    let hash = blake3::hash(json.as_bytes()).to_hex();
    format!("{json}{CHECKSUM}{hash}\n").into_bytes()
}

/// Reads a document; `object` is its name, for the error.
pub fn decode<T: DeserializeOwned>(object: &str, bytes: &[u8]) -> Result<T, BackupError> {
    let damaged = |reason: String| BackupError::damaged(object, reason);
    let text = std::str::from_utf8(bytes).map_err(|_| damaged("it is not text".to_owned()))?;
    let parts = text.strip_suffix('\n').and_then(|text| text.rsplit_once(CHECKSUM));
    let (json, hash) = parts.ok_or_else(|| damaged("it is cut short".to_owned()))?;
    if blake3::hash(json.as_bytes()).to_hex().as_str() != hash {
        return Err(damaged("its hash does not match".to_owned()));
    }
    #[derive(Deserialize)]
    struct Versioned {
        format: u64,
    }
    let unreadable = |error: serde_json::Error| damaged(format!("it cannot be read: {error}"));
    let Versioned { format } = serde_json::from_str(json).map_err(unreadable)?;
    if format != FORMAT {
        return Err(BackupError::NotSupported { object: object.to_owned(), format });
    }
    serde_json::from_str(json).map_err(unreadable)
}
