//! Record: what one append writes. A header, then encoded entries back to back, then zeros up to a
//! whole sector.
//!
//! ```text
//!  0 [4] "VJRN" | 4 u16 version | 6 u8 before, u8 behind in the same write | 8 u64 journal id | 16 u64 first seq | 24 u32 entries
//! 28 u32 payload length | 32 u32 crc32c of payload | 36 u32 sectors that are all zero
//! 40 u32 sectors in the segment | 44 u32 crc32c of bytes 0..44 | 48 payload
//! ```
//!
//! The count of all-zero sectors tells a torn write (more of them than written) from a flipped bit
//! (not more), even when a payload has long runs of zeros. The segment's length makes a truncated
//! file visible.
//!
//! Version 2 differs in its payload alone: it is encrypted (`encryption`). Everything in the header
//! is about the bytes as written.
//!
//! Versions 3 and 4 are the same for a record that was written and synced together with others: its
//! header counts those before and behind it, so that `tail` can tell what no sync had covered.

use vetch_encryption::Encryptor;

use super::encryption;
use super::header::{Header, InWrite, Place, RECORD_HEADER_LEN, SECTOR, extent, zero_sectors};
use crate::entry::ChainedEntry;

/// Lays out one record of `entries` behind what is in `buf`, which is whole sectors.
pub(super) fn build(
    buf: &mut Vec<u8>,
    place: Place,
    in_write: InWrite,
    entries: &[ChainedEntry],
    encryptor: Option<&Encryptor>,
) {
    let start = buf.len();
    let first = entries.first().expect("a record has at least one entry").seq();
    let count =
        u32::try_from(entries.len()).expect("an entry has more than one byte and payloads are bounded");
    let entries_len: usize = entries.iter().map(|entry| entry.bytes().len()).sum();
    buf.reserve(extent((entries_len + encryption::OVERHEAD) as u64) as usize);
    buf.resize(start + RECORD_HEADER_LEN, 0);
    if let Some(encryptor) = encryptor {
        buf.extend_from_slice(&encryptor.header().encode());
    }
    for entry in entries {
        buf.extend_from_slice(entry.bytes());
    }
    if let Some(encryptor) = encryptor {
        encryption::encrypt(buf, start, encryptor, &place, first, count);
    }
    let payload_len = buf.len() - start - RECORD_HEADER_LEN;
    let payload_crc = crc32c::crc32c(&buf[start + RECORD_HEADER_LEN..]);
    buf.resize(start + extent(payload_len as u64) as usize, 0);
    let header = Header {
        is_encrypted: encryptor.is_some(),
        place: in_write,
        journal_id: place.journal_id,
        first_seq: first,
        entries: count,
        payload_len: u32::try_from(payload_len).expect("checked against MAX_PAYLOAD"),
        payload_crc,
        // The first sector is never zero: the header begins it.
        zero_sectors: zero_sectors(&buf[start + SECTOR..]),
        segment_sectors: u32::try_from(place.segment_len / SECTOR as u64).expect("segments are below 2 TiB"),
    };
    buf[start..start + RECORD_HEADER_LEN].copy_from_slice(&header.encode());
}
