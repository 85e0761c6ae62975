//! Reading a data file, and distrusting all of it.

use std::path::{Path, PathBuf};

use bytes::Buf;
use vetch_encryption::{Decryptor, ENVELOPE_HEADER_LEN, EncryptionKeys, EnvelopeHeader, Purpose, TAG_LEN};
use vetch_journal::{Disk, DiskFile};
use vetch_store::Record;

use super::{
    BLOCK_HEADER_LEN, ENCRYPTED_HEADER_LEN, FOOTER_COUNTER, HEADER_LEN, TRAILER_LEN, Totals, WrittenFile,
    block_context, block_crc, encryption_header, footer, footer_context, header,
};
use crate::directory;
use crate::error::Damage;

/// An open data file whose header and footer are good. Blocks are checked when they are read.
#[derive(Debug)]
pub(crate) struct DataReader {
    file: Box<dyn DiskFile>,
    path: PathBuf,
    id: u64,
    /// None: the file is plain.
    decryptor: Option<Decryptor>,
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
    pub(crate) fn open(
        disk: &dyn Disk,
        dir: &Path,
        expected: WrittenFile,
        keys: &EncryptionKeys,
    ) -> Result<DataReader, Damage> {
        let path = dir.join(directory::data_name(expected.id));
        let unreadable =
            |what: &str, error: std::io::Error| Damage::new(&path, 0, format!("cannot {what}: {error}"));
        let file = disk.open(&path).map_err(|error| unreadable("be opened", error))?;
        let len = file.len().map_err(|error| unreadable("be measured", error))?;
        if len != expected.size {
            let reason = format!("the file has {len} bytes, the manifest says {}", expected.size);
            return Err(Damage::new(&path, len.min(expected.size), reason));
        }
        let decryptor = check_header(&*file, &path, expected, keys)?;
        let (lengths, totals) = read_footer(&*file, &path, expected)?;
        let (header_len, tag_len) = lengths_of(expected);
        if let (Some(decryptor), Some(encryption)) = (&decryptor, expected.encryption) {
            let context = footer_context(expected.id, &lengths, &totals);
            let altered = |_| Damage::new(&path, len - TRAILER_LEN as u64, "the footer was altered");
            decryptor.decrypt(FOOTER_COUNTER, &context, &mut encryption.tag.clone()).map_err(altered)?;
        }
        let mut offset = header_len as u64;
        let mut blocks = Vec::with_capacity(lengths.len());
        for len in lengths {
            let len = len as usize + BLOCK_HEADER_LEN;
            blocks.push(Block { offset, len });
            offset += len as u64;
        }
        let end = len - (blocks.len() * 4 + tag_len + TRAILER_LEN) as u64;
        if offset != end {
            return Err(Damage::new(&path, end, "the blocks do not fill the file"));
        }
        Ok(DataReader { file, path, id: expected.id, decryptor, blocks, totals })
    }

    /// Like [`DataReader::open`], but drops the file from the page cache first.
    pub(crate) fn open_uncached(
        disk: &dyn Disk,
        dir: &Path,
        expected: WrittenFile,
        keys: &EncryptionKeys,
    ) -> Result<DataReader, Damage> {
        if let Ok(file) = disk.open(&dir.join(directory::data_name(expected.id))) {
            file.forget();
        }
        DataReader::open(disk, dir, expected, keys)
    }

    /// Drops the file from the page cache.
    pub(crate) fn forget(&self) {
        self.file.forget();
    }

    pub(crate) fn block_bytes(&self, index: usize) -> u64 {
        self.blocks[index].len as u64
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn totals(&self) -> &Totals {
        &self.totals
    }

    pub(crate) fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// Reads, checks and decodes one block. `scratch` is room for its bytes, to be given again for
    /// the next one.
    pub(crate) fn read_block(&self, index: usize, scratch: &mut Vec<u8>) -> Result<Vec<Record>, Damage> {
        let Block { offset, len } = self.blocks[index];
        scratch.resize(scratch.len().max(len), 0);
        let block = &mut scratch[..len];
        read_exactly(&*self.file, &self.path, offset, block)?;
        let damage = |reason: &str| Damage::new(&self.path, offset, format!("block {index}: {reason}"));
        let mut head = &block[..BLOCK_HEADER_LEN];
        let (said, count, crc) = (head.get_u32_le(), head.get_u32_le(), head.get_u32_le());
        if crc != block_crc(self.id, offset, block) {
            return Err(damage("checksum does not match"));
        }
        if said as usize != len - BLOCK_HEADER_LEN {
            return Err(damage("its length is not the one the footer says"));
        }
        let mut rest = &block[BLOCK_HEADER_LEN..];
        if let Some(decryptor) = &self.decryptor {
            let context = block_context(self.id, offset, said.saturating_sub(TAG_LEN as u32), count);
            let opened = decryptor.decrypt(index as u64, &context, &mut block[BLOCK_HEADER_LEN..]);
            rest = opened.map_err(|altered| damage(&altered.to_string()))?;
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

/// Bytes before the first block, and between the lengths of the blocks and the trailer.
fn lengths_of(expected: WrittenFile) -> (usize, usize) {
    if expected.encryption.is_some() { (HEADER_LEN + ENCRYPTED_HEADER_LEN, TAG_LEN) } else { (HEADER_LEN, 0) }
}

/// Checks the header; for an encrypted file, returns what opens its blocks.
fn check_header(
    file: &dyn DiskFile,
    path: &Path,
    expected: WrittenFile,
    keys: &EncryptionKeys,
) -> Result<Option<Decryptor>, Damage> {
    let mut found = [0; HEADER_LEN];
    read_exactly(file, path, 0, &mut found)?;
    if found != header(expected.id, expected.encryption.is_some()) {
        return Err(Damage::new(path, 0, "the header is not the one of this file"));
    }
    let Some(encryption) = expected.encryption else { return Ok(None) };
    let damage = |reason: String| Damage::new(path, HEADER_LEN as u64, reason);
    let mut found = [0; ENCRYPTED_HEADER_LEN];
    read_exactly(file, path, HEADER_LEN as u64, &mut found)?;
    let envelope = found.first_chunk::<ENVELOPE_HEADER_LEN>().and_then(EnvelopeHeader::parse);
    let envelope = envelope.filter(|envelope| found == encryption_header(expected.id, envelope));
    let envelope =
        envelope.ok_or_else(|| damage("checksum of the envelope header does not match".to_owned()))?;
    if (envelope.key, envelope.check) != (encryption.key, encryption.check) {
        return Err(damage("it is not encrypted with the key that the manifest names".to_owned()));
    }
    // That the key is there is known since the manifest was read.
    keys.decryptor(Purpose::DataFile, &envelope).map(Some).map_err(|error| damage(error.to_string()))
}

fn read_footer(
    file: &dyn DiskFile,
    path: &Path,
    expected: WrittenFile,
) -> Result<(Vec<u32>, Totals), Damage> {
    let trailer_at = (expected.size.checked_sub(TRAILER_LEN as u64))
        .ok_or_else(|| Damage::new(path, 0, "too short to hold a footer"))?;
    let mut trailer = [0; TRAILER_LEN];
    read_exactly(file, path, trailer_at, &mut trailer)?;
    let blocks = u64::from((&trailer[40..44]).get_u32_le());
    let damage = |reason: &str| Damage::new(path, trailer_at, reason);
    let (header_len, tag_len) = lengths_of(expected);
    let index_at = trailer_at.checked_sub(blocks * 4 + tag_len as u64).filter(|&at| at >= header_len as u64);
    let index_at = index_at.ok_or_else(|| damage("the footer counts more blocks than fit"))?;
    let mut index = vec![0; (trailer_at - index_at) as usize];
    read_exactly(file, path, index_at, &mut index)?;
    let tag = index.split_off(index.len() - tag_len);
    if expected.encryption.is_some_and(|encryption| encryption.tag != *tag) {
        return Err(Damage::new(path, index_at, "the footer's tag is not the one the manifest names"));
    }
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
    let built = footer(
        expected.id,
        &lengths,
        &totals,
        expected.encryption.as_ref().map(|encryption| &encryption.tag),
    );
    if built[index.len() + tag_len..] != trailer[..] {
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
