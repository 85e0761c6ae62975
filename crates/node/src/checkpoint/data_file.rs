//! Data files: records sorted by key and revision, in checksummed blocks. Written once, never changed.
//!
//! A file ends with the lengths of its blocks, so that a reader finds any block without reading the ones before,
//! and several threads can decode one file. Every byte is under a checksum, and every checksum covers the file's
//! id, so bytes of another file or another place are not mistaken for these.
//!
//! Not here: which revisions a file covers and how much of it is alive. That is the manifest's to say.

use std::path::{Path, PathBuf};

use bytes::{Buf, BufMut};
use vetch_journal::{Disk, DiskFile};
use vetch_store::Record;

use super::directory;
use super::error::{CheckpointError, Damage};

const MAGIC: &[u8; 8] = b"VETCHDAT";
const END_MAGIC: &[u8; 8] = b"VETCHEND";
const VERSION: u32 = 1;
const HEADER_LEN: usize = 32;
const BLOCK_HEADER_LEN: usize = 12;
const TRAILER_LEN: usize = 64;
/// Blocks are handed to the disk in pieces of about this size.
const WRITE_BYTES: usize = 1 << 20;

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
pub(super) struct Written {
    pub(super) id: u64,
    pub(super) size: u64,
    pub(super) footer_crc: u32,
}

pub(super) struct DataWriter {
    file: Box<dyn DiskFile>,
    path: PathBuf,
    id: u64,
    block_bytes: usize,
    /// Bytes already given to the disk.
    flushed: u64,
    buf: Vec<u8>,
    /// Where the open block starts in `buf`.
    block_at: usize,
    block_count: u32,
    lengths: Vec<u32>,
    totals: Totals,
    last: Option<Record>,
}

impl DataWriter {
    pub(super) fn create(
        disk: &dyn Disk,
        dir: &Path,
        id: u64,
        block_bytes: usize,
    ) -> Result<DataWriter, CheckpointError> {
        let path = dir.join(directory::data_name(id));
        let file = disk.create(&path).map_err(CheckpointError::new("create", &path))?;
        let mut buf = Vec::with_capacity(WRITE_BYTES + 2 * block_bytes);
        buf.extend_from_slice(&header(id));
        buf.put_bytes(0, BLOCK_HEADER_LEN);
        Ok(DataWriter {
            file,
            path,
            id,
            block_bytes,
            flushed: 0,
            buf,
            block_at: HEADER_LEN,
            block_count: 0,
            lengths: Vec::new(),
            totals: Totals::default(),
            last: None,
        })
    }

    pub(super) fn push(&mut self, record: &Record) -> Result<(), CheckpointError> {
        let order = self.last.as_ref().map(|last| place(last).cmp(&place(record)));
        assert!(order.is_none_or(|order| order.is_lt()), "records are written in order");
        let is_new_key = self.last.as_ref().is_none_or(|last| last.key() != record.key());
        let revision = record.mod_revision();
        let first = self.totals.records == 0;
        self.totals = Totals {
            records: self.totals.records + 1,
            keys: self.totals.keys + u64::from(is_new_key),
            bytes: self.totals.bytes + record.saved_len() as u64,
            min_revision: if first { revision } else { self.totals.min_revision.min(revision) },
            max_revision: self.totals.max_revision.max(revision),
        };
        record.save(&mut self.buf);
        self.block_count += 1;
        self.last = Some(record.clone());
        if self.buf.len() - self.block_at - BLOCK_HEADER_LEN >= self.block_bytes {
            self.close_block();
            if self.buf.len() >= WRITE_BYTES {
                self.flush()?;
            }
            self.open_block();
        }
        Ok(())
    }

    fn open_block(&mut self) {
        self.block_at = self.buf.len();
        self.block_count = 0;
        self.buf.put_bytes(0, BLOCK_HEADER_LEN);
    }

    fn close_block(&mut self) {
        let offset = self.flushed + self.block_at as u64;
        let block = &mut self.buf[self.block_at..];
        let len = u32::try_from(block.len() - BLOCK_HEADER_LEN).expect("a block is far below 4 GiB");
        block[..4].copy_from_slice(&len.to_le_bytes());
        block[4..8].copy_from_slice(&self.block_count.to_le_bytes());
        let crc = block_crc(self.id, offset, block);
        block[8..12].copy_from_slice(&crc.to_le_bytes());
        self.lengths.push(len);
    }

    fn flush(&mut self) -> Result<(), CheckpointError> {
        self.file.write_at(self.flushed, &self.buf).map_err(CheckpointError::new("write", &self.path))?;
        self.flushed += self.buf.len() as u64;
        self.buf.clear();
        Ok(())
    }

    /// Writes the end of the file and makes its content durable. Its name is made durable by the caller.
    pub(super) fn finish(mut self) -> Result<Written, CheckpointError> {
        if self.block_count > 0 {
            self.close_block();
        } else {
            self.buf.truncate(self.block_at);
        }
        let footer = footer(self.id, &self.lengths, &self.totals);
        let footer_crc = (&footer[footer.len() - 4..]).get_u32_le();
        self.buf.extend_from_slice(&footer);
        self.flush()?;
        self.file.sync_data().map_err(CheckpointError::new("sync", &self.path))?;
        Ok(Written { id: self.id, size: self.flushed, footer_crc })
    }
}

/// The order of records in a file.
pub(super) fn place(record: &Record) -> (&[u8], i64, u32) {
    (record.key(), record.mod_revision(), record.sub())
}

fn header(id: u64) -> [u8; HEADER_LEN] {
    let mut header = Vec::with_capacity(HEADER_LEN);
    header.put_slice(MAGIC);
    header.put_u32_le(VERSION);
    header.put_u32_le(0);
    header.put_u64_le(id);
    header.put_u32_le(0);
    header.put_u32_le(crc32c::crc32c(&header));
    header.try_into().expect("the fields fill the header")
}

/// `block` with its header; the checksum's own place counts as absent.
fn block_crc(id: u64, offset: u64, block: &[u8]) -> u32 {
    let crc = crc32c::crc32c(&id.to_le_bytes());
    let crc = crc32c::crc32c_append(crc, &offset.to_le_bytes());
    let crc = crc32c::crc32c_append(crc, &block[..8]);
    crc32c::crc32c_append(crc, &block[BLOCK_HEADER_LEN..])
}

fn footer(id: u64, lengths: &[u32], totals: &Totals) -> Vec<u8> {
    let mut footer = Vec::with_capacity(lengths.len() * 4 + TRAILER_LEN);
    lengths.iter().for_each(|&len| footer.put_u32_le(len));
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

/// An open data file whose header and footer are good. Blocks are checked when they are read.
#[derive(Debug)]
pub(super) struct DataReader {
    file: Box<dyn DiskFile>,
    path: PathBuf,
    id: u64,
    blocks: Vec<Block>,
    totals: Totals,
}

#[derive(Debug, Clone, Copy)]
struct Block {
    offset: u64,
    /// Header included.
    len: usize,
}

impl DataReader {
    /// Opens the file that `expected` describes; anything else under that name is damage.
    pub(super) fn open(disk: &dyn Disk, dir: &Path, expected: Written) -> Result<DataReader, Damage> {
        let path = dir.join(directory::data_name(expected.id));
        let unreadable =
            |what: &str, error: std::io::Error| Damage::new(&path, 0, format!("cannot {what}: {error}"));
        let file = disk.open(&path).map_err(|error| unreadable("be opened", error))?;
        let len = file.len().map_err(|error| unreadable("tell its length", error))?;
        if len != expected.size {
            let reason = format!("the file has {len} bytes, the manifest says {}", expected.size);
            return Err(Damage::new(&path, len.min(expected.size), reason));
        }
        check_header(&*file, &path, expected.id)?;
        let (lengths, totals) = read_footer(&*file, &path, expected)?;
        let mut offset = HEADER_LEN as u64;
        let mut blocks = Vec::with_capacity(lengths.len());
        for len in lengths {
            let len = len as usize + BLOCK_HEADER_LEN;
            blocks.push(Block { offset, len });
            offset += len as u64;
        }
        let end = len - (blocks.len() * 4 + TRAILER_LEN) as u64;
        if offset != end {
            return Err(Damage::new(&path, end, "the blocks do not fill the file"));
        }
        Ok(DataReader { file, path, id: expected.id, blocks, totals })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn totals(&self) -> &Totals {
        &self.totals
    }

    pub(super) fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Reads, checks and decodes one block.
    pub(super) fn read_block(&self, index: usize) -> Result<Vec<Record>, Damage> {
        let Block { offset, len } = self.blocks[index];
        let mut block = vec![0; len];
        read_exactly(&*self.file, &self.path, offset, &mut block)?;
        let damage = |reason: &str| Damage::new(&self.path, offset, format!("block {index}: {reason}"));
        let mut head = &block[..BLOCK_HEADER_LEN];
        let (said, count, crc) = (head.get_u32_le(), head.get_u32_le(), head.get_u32_le());
        if crc != block_crc(self.id, offset, &block) {
            return Err(damage("checksum does not match"));
        }
        let mut rest = &block[BLOCK_HEADER_LEN..];
        if said as usize != rest.len() {
            return Err(damage("its length is not the one the footer says"));
        }
        // A record takes more bytes than the count could lie about.
        let mut records = Vec::with_capacity((count as usize).min(rest.len()));
        for _ in 0..count {
            records.push(Record::restore(&mut rest).map_err(|error| damage(&error.to_string()))?);
        }
        if !rest.is_empty() {
            return Err(damage("bytes behind the last record"));
        }
        Ok(records)
    }
}

fn check_header(file: &dyn DiskFile, path: &Path, id: u64) -> Result<(), Damage> {
    let mut found = [0; HEADER_LEN];
    read_exactly(file, path, 0, &mut found)?;
    if found != header(id) {
        return Err(Damage::new(path, 0, "the header is not the one of this file"));
    }
    Ok(())
}

fn read_footer(file: &dyn DiskFile, path: &Path, expected: Written) -> Result<(Vec<u32>, Totals), Damage> {
    let trailer_at = (expected.size.checked_sub(TRAILER_LEN as u64))
        .ok_or_else(|| Damage::new(path, 0, "too short to hold a footer"))?;
    let mut trailer = [0; TRAILER_LEN];
    read_exactly(file, path, trailer_at, &mut trailer)?;
    let blocks = u64::from((&trailer[40..44]).get_u32_le());
    let damage = |reason: &str| Damage::new(path, trailer_at, reason);
    let index_at = (trailer_at.checked_sub(blocks * 4)).filter(|&at| at >= HEADER_LEN as u64);
    let index_at = index_at.ok_or_else(|| damage("the footer counts more blocks than fit"))?;
    let mut index = vec![0; (trailer_at - index_at) as usize];
    read_exactly(file, path, index_at, &mut index)?;
    let lengths: Vec<u32> = index.chunks_exact(4).map(|mut len| len.get_u32_le()).collect();
    let mut fields = &trailer[..];
    let totals = Totals {
        records: fields.get_u64_le(),
        keys: fields.get_u64_le(),
        bytes: fields.get_u64_le(),
        min_revision: fields.get_i64_le(),
        max_revision: fields.get_i64_le(),
    };
    // Building the footer again and comparing leaves no byte of it unchecked.
    let built = footer(expected.id, &lengths, &totals);
    if built[index.len()..] != trailer[..] {
        return Err(Damage::new(path, index_at, "checksum of the footer does not match"));
    }
    if trailer[TRAILER_LEN - 4..] != expected.footer_crc.to_le_bytes() {
        return Err(damage("the footer is not the one the manifest names"));
    }
    Ok((lengths, totals))
}

fn read_exactly(file: &dyn DiskFile, path: &Path, offset: u64, buf: &mut [u8]) -> Result<(), Damage> {
    let n = file
        .read_at(offset, buf)
        .map_err(|error| Damage::new(path, offset, format!("unreadable: {error}")))?;
    if n < buf.len() {
        return Err(Damage::new(path, offset + n as u64, "the file ends too early"));
    }
    Ok(())
}
