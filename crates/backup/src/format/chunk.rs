//! A chunk: a row of journal records as they lay in one segment file, and what was known of them.
//!
//! ```text
//!  0 [8] "VETCHBKP" | 8 u32 format | 12 u32 length of the header | 16 header, JSON | records | [32] BLAKE3 of all before
//! ```

use bytes::{Buf, Bytes};
use serde::{Deserialize, Serialize};

use crate::error::BackupError;
use vetch_base::Seq;

/// Format of chunks.
pub const CHUNK_FORMAT: u32 = 1;

const MAGIC: &[u8; 8] = b"VETCHBKP";
const FIXED: usize = 16;
const HASH: usize = 32;
/// Far above any header: marks are bounded.
const MAX_HEADER: usize = 4 << 20;

/// What was durable, and when. Entries carry no time, so these are all that is known of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Milliseconds since 1970, of the clock of the machine that ran the node.
    pub time: u64,
    /// The newest durable entry.
    pub seq: Seq,
    /// After that entry.
    pub revision: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChunkHeader {
    /// The journal's id.
    pub journal: String,
    pub first_seq: Seq,
    pub last_seq: Seq,
    /// After the last entry, if that was known when the chunk was made.
    pub revision: Option<i64>,
    /// The segment the records are of, by the number in its name, its length, and where in it they
    /// begin.
    pub segment: Seq,
    pub segment_len: u64,
    pub offset: u64,
    /// Of entries up to the last, in order.
    pub marks: Vec<Mark>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    pub header: ChunkHeader,
    pub records: Bytes,
}

impl Chunk {
    pub fn encode(&self) -> Vec<u8> {
        let header = serde_json::to_vec(&self.header).expect("a header is plain data");
        let mut out = Vec::with_capacity(FIXED + header.len() + self.records.len() + HASH);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&CHUNK_FORMAT.to_le_bytes());
        let len = u32::try_from(header.len()).expect("marks are bounded");
        out.extend_from_slice(&len.to_le_bytes());
        out.extend_from_slice(&header);
        out.extend_from_slice(&self.records);
        out.extend_from_slice(blake3::hash(&out).as_bytes());
        out
    }

    /// Reads the chunk that `bytes` is, from end to end; `object` is its name, for the error.
    pub fn decode(object: &str, bytes: &Bytes) -> Result<Chunk, BackupError> {
        let damaged = |reason: &str| BackupError::damaged(object, reason);
        let body_len = bytes.len().checked_sub(HASH).filter(|&len| len >= FIXED);
        let body = bytes.slice(..body_len.ok_or_else(|| damaged("it is cut short"))?);
        if blake3::hash(&body).as_bytes() != &bytes[body.len()..] {
            return Err(damaged("its hash does not match"));
        }
        let header_len = header_len(object, &body)?;
        let records = FIXED + header_len;
        if records > body.len() {
            return Err(damaged("its header is cut short"));
        }
        let header: ChunkHeader = serde_json::from_slice(&body[FIXED..records])
            .map_err(|error| damaged(&format!("its header cannot be read: {error}")))?;
        if header.first_seq == Seq::ZERO || header.last_seq < header.first_seq {
            return Err(damaged("it holds no entries"));
        }
        Ok(Chunk { header, records: body.slice(records..) })
    }

    /// Reads the header alone, of as much as is there of a chunk. None: more is needed.
    pub fn peek(object: &str, beginning: &[u8]) -> Result<Option<ChunkHeader>, BackupError> {
        if beginning.len() < FIXED {
            return Err(BackupError::damaged(object, "it is cut short"));
        }
        let end = FIXED + header_len(object, beginning)?;
        let Some(header) = beginning.get(FIXED..end) else { return Ok(None) };
        let parsed = serde_json::from_slice(header);
        parsed
            .map(Some)
            .map_err(|error| BackupError::damaged(object, format!("its header cannot be read: {error}")))
    }
}

/// Length of the header that begins behind the fixed part.
pub fn header_len(object: &str, beginning: &[u8]) -> Result<usize, BackupError> {
    let mut fixed = beginning.get(..FIXED).ok_or_else(|| BackupError::damaged(object, "it is cut short"))?;
    if fixed[..8] != *MAGIC {
        return Err(BackupError::damaged(object, "it is not a piece of a journal"));
    }
    fixed.advance(8);
    let format = fixed.get_u32_le();
    if format != CHUNK_FORMAT {
        return Err(BackupError::NotSupported { object: object.to_owned(), format: format.into() });
    }
    let len = fixed.get_u32_le() as usize;
    if len > MAX_HEADER {
        return Err(BackupError::damaged(object, "its header is impossibly long"));
    }
    Ok(len)
}
