//! Data files: records sorted by key and revision, in checksummed blocks. Written once, never
//! changed.
//!
//! A file ends with the lengths of its blocks, so that a reader finds any block without reading
//! those before it, and several threads can decode one file. Every byte is under a checksum, and
//! every checksum covers the file's id, so bytes of another file or offset are detected.
//!
//! A file of version 2 is encrypted block by block, and a tag in the footer authenticates all of
//! it. Checksums cover the bytes as written, so damage is found without a key.
//!
//! Not here: which revisions a file covers and how much of it is live. The manifest says that.

mod reader;
mod writer;

use std::cmp::Ordering;

use bytes::BufMut;
use vetch_encryption::{CHECK_LEN, ENVELOPE_HEADER_LEN, EnvelopeHeader, KeyId, TAG_LEN};
use vetch_store::Record;

pub(super) use reader::DataReader;
pub(super) use writer::{DataWriter, WritePacing};

const MAGIC: &[u8; 8] = b"VETCHDAT";
const END_MAGIC: &[u8; 8] = b"VETCHEND";
const VERSION: u32 = 1;
const ENCRYPTED_VERSION: u32 = 2;
const HEADER_LEN: usize = 32;
/// After the header of an encrypted file: the envelope header and its checksum.
const ENCRYPTED_HEADER_LEN: usize = ENVELOPE_HEADER_LEN + 4;
const BLOCK_HEADER_LEN: usize = 12;
const TRAILER_LEN: usize = 64;
/// The encryption counter of the footer; blocks are counted from 0 and never reach it.
const FOOTER_COUNTER: u64 = u64::MAX;

/// Totals of a file, kept at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Totals {
    pub(super) records: u64,
    pub(super) keys: u64,
    /// Bytes of the records as saved.
    pub(super) bytes: u64,
    pub(super) min_revision: i64,
    pub(super) max_revision: i64,
}

/// A finished file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WrittenFile {
    pub(super) id: u64,
    pub(super) size: u64,
    pub(super) footer_crc: u32,
    pub(super) encryption: Option<FileEncryption>,
}

/// What a manifest stores of an encrypted file: its key, and the tag of its footer, which no other
/// file has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileEncryption {
    pub(super) key: KeyId,
    pub(super) check: [u8; CHECK_LEN],
    pub(super) tag: [u8; TAG_LEN],
}

/// The order of records in a file.
pub(super) fn by_place(a: &Record, b: &Record) -> Ordering {
    let moment = |record: &Record| (record.mod_revision(), record.sub());
    a.key().cmp(b.key()).then_with(|| moment(a).cmp(&moment(b)))
}

fn header(id: u64, is_encrypted: bool) -> [u8; HEADER_LEN] {
    let mut header = Vec::with_capacity(HEADER_LEN);
    header.put_slice(MAGIC);
    header.put_u32_le(if is_encrypted { ENCRYPTED_VERSION } else { VERSION });
    header.put_u32_le(0);
    header.put_u64_le(id);
    header.put_u32_le(0);
    header.put_u32_le(crc32c::crc32c(&header));
    header.try_into().expect("the fields fill the header")
}

/// The envelope header and its checksum, which follow the header of an encrypted file.
fn encryption_header(id: u64, envelope: &EnvelopeHeader) -> [u8; ENCRYPTED_HEADER_LEN] {
    let mut out = [0; ENCRYPTED_HEADER_LEN];
    out[..ENVELOPE_HEADER_LEN].copy_from_slice(&envelope.encode());
    let crc = crc32c::crc32c_append(crc32c::crc32c(&id.to_le_bytes()), &out[..ENVELOPE_HEADER_LEN]);
    out[ENVELOPE_HEADER_LEN..].copy_from_slice(&crc.to_le_bytes());
    out
}

/// What the tag of a block authenticates besides its records: the file, the offset and the counts.
fn block_context(id: u64, offset: u64, len: u32, count: u32) -> [u64; 4] {
    [id, offset, u64::from(len), u64::from(count)]
}

/// What the tag of a footer authenticates: the lengths of the blocks, and the totals.
fn footer_context(id: u64, lengths: &[u32], totals: &Totals) -> Vec<u64> {
    let Totals { records, keys, bytes, min_revision, max_revision } = *totals;
    let mut context =
        vec![id, records, keys, bytes, min_revision as u64, max_revision as u64, lengths.len() as u64];
    context.extend(lengths.iter().map(|&len| u64::from(len)));
    context
}

/// The checksum of `block` with its header, except for the bytes of the checksum itself.
fn block_crc(id: u64, offset: u64, block: &[u8]) -> u32 {
    let crc = crc32c::crc32c(&id.to_le_bytes());
    let crc = crc32c::crc32c_append(crc, &offset.to_le_bytes());
    let crc = crc32c::crc32c_append(crc, &block[..8]);
    crc32c::crc32c_append(crc, &block[BLOCK_HEADER_LEN..])
}

/// The lengths of the blocks, the tag if there is one, and the trailer.
fn footer(id: u64, lengths: &[u32], totals: &Totals, tag: Option<&[u8; TAG_LEN]>) -> Vec<u8> {
    let mut footer = Vec::with_capacity(lengths.len() * 4 + TAG_LEN + TRAILER_LEN);
    lengths.iter().for_each(|&len| footer.put_u32_le(len));
    footer.put_slice(tag.map_or(&[], |tag| &tag[..]));
    footer.put_u64_le(totals.records);
    footer.put_u64_le(totals.keys);
    footer.put_u64_le(totals.bytes);
    footer.put_i64_le(totals.min_revision);
    footer.put_i64_le(totals.max_revision);
    footer.put_u32_le(u32::try_from(lengths.len()).expect("far fewer than four billion blocks"));
    footer.put_u32_le(0);
    footer.put_slice(END_MAGIC);
    footer.put_u32_le(0);
    let crc = crc32c::crc32c_append(crc32c::crc32c(&id.to_le_bytes()), &footer);
    footer.put_u32_le(crc);
    footer
}
