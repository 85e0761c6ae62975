//! Records: the bytes of one file of the log, and the checksum that runs through all of its files.
//!
//! A record stands behind a length of eight bytes (56 bits of length; if the top bit is set, three
//! more bits of padding to a multiple of 8). It has a type, data, and the running CRC-32C of all
//! data so far. Every file begins with a record that states the checksum of the files before it,
//! and ends in zeros.

use prost::Message;

use super::WalError;

/// What a disk writes at once: a torn write leaves whole sectors of zeros.
const SECTOR: usize = 512;

#[derive(Clone, PartialEq, Message)]
pub(super) struct Record {
    #[prost(int64, tag = "1")]
    pub(super) kind: i64,
    #[prost(uint32, tag = "2")]
    pub(super) crc: u32,
    #[prost(bytes = "vec", tag = "3")]
    pub(super) data: Vec<u8>,
}

pub(super) const METADATA: i64 = 1;
pub(super) const ENTRY: i64 = 2;
pub(super) const STATE: i64 = 3;
const CRC: i64 = 4;
pub(super) const SNAPSHOT: i64 = 5;

/// Walks over the records of one file.
pub(super) struct Records<'f> {
    bytes: &'f [u8],
    /// Where the next record begins.
    pub(super) at: usize,
    /// No file follows: what a crash left of the last write is at the end of this one.
    is_last: bool,
    /// Of all data so far, in this file and in those before it; None before the first file that is
    /// read.
    pub(super) crc: Option<u32>,
}

impl<'f> Records<'f> {
    pub(super) fn new(bytes: &'f [u8], is_last: bool, crc: Option<u32>) -> Records<'f> {
        Records { bytes, at: 0, is_last, crc }
    }

    /// The next record that is not about checksums; None at the end of the file, or at what a crash
    /// left there.
    pub(super) fn next(&mut self) -> Result<Option<Record>, WalError> {
        while let Some(body) = self.body()? {
            let (from, end) = (self.at + 8, self.at + 8 + body.len());
            match self.decode(&body[..body.len() - padding(self.head())]) {
                Ok(record) => {
                    self.at = end;
                    if record.kind != CRC {
                        return Ok(Some(record));
                    }
                }
                // What a crash left of the last write is not part of the log, and was never
                // acknowledged.
                Err(_) if self.is_last && has_zero_sector(body, from) => return Ok(None),
                Err(reason) => return Err(reason),
            }
        }
        Ok(None)
    }

    fn head(&self) -> u64 {
        let head = self.bytes.get(self.at..self.at + 8);
        head.map_or(0, |head| u64::from_le_bytes(head.try_into().expect("eight bytes")))
    }

    /// The bytes of the next record with its padding; None if there is none.
    fn body(&self) -> Result<Option<&'f [u8]>, WalError> {
        let rest = &self.bytes[self.at..];
        let head = self.head();
        if rest.is_empty() || (rest.len() >= 8 && head == 0) {
            return Ok(None);
        }
        let len = usize::try_from(head & ((1 << 56) - 1)).unwrap_or(usize::MAX).saturating_add(padding(head));
        match rest.get(8..).and_then(|rest| rest.get(..len)) {
            Some(body) => Ok(Some(body)),
            None if self.is_last => Ok(None),
            None => Err(WalError::Truncated),
        }
    }

    fn decode(&mut self, body: &[u8]) -> Result<Record, WalError> {
        let record = Record::decode(body)?;
        if record.kind == CRC {
            if self.crc.is_some_and(|crc| crc != record.crc) {
                return Err(WalError::NotContinued);
            }
            self.crc = Some(record.crc);
            return Ok(record);
        }
        let expected = crc32c::crc32c_append(self.crc.unwrap_or(0), &record.data);
        if record.crc != expected {
            return Err(WalError::Checksum);
        }
        self.crc = Some(expected);
        Ok(record)
    }
}

fn padding(head: u64) -> usize {
    if head >> 63 == 1 { (head >> 56 & 7) as usize } else { 0 }
}

/// Whether one of the sectors that hold `bytes`, which lie at `offset` of a file, is zero
/// throughout.
fn has_zero_sector(bytes: &[u8], offset: usize) -> bool {
    let first = (SECTOR - offset % SECTOR).min(bytes.len());
    let (head, rest) = bytes.split_at(first);
    let parts = std::iter::once(head).chain(rest.chunks(SECTOR));
    parts.filter(|part| !part.is_empty()).any(|part| part.iter().all(|&byte| byte == 0))
}
