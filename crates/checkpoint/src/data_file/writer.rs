//! Writing a data file.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::{Buf, BufMut};
use vetch_encryption::{EncryptionKeys, Encryptor, Purpose};
use vetch_journal::{Disk, DiskFile};
use vetch_store::Record;

use super::{
    BLOCK_HEADER_LEN, FOOTER_COUNTER, FileEncryption, Totals, WrittenFile, block_context, block_crc,
    by_place, encryption_header, footer, footer_context, header,
};
use crate::ShouldHurry;
use crate::directory;
use crate::error::CheckpointError;

/// Blocks are written in pieces of about this size.
const WRITE_BYTES: usize = 1 << 20;
/// Limit on the pause after a piece.
const YIELD_MAX: Duration = Duration::from_millis(50);

/// How a file is written.
pub(crate) enum WritePacing {
    /// No journal shares the disk: the file is synced once, at the end.
    Unpaced,
    /// A journal shares the disk. Each piece is synced by itself, because the sync of a whole file
    /// would delay those of the journal until all of it is written. Then the disk is left to the
    /// journal for twice as long as that took, unless [`ShouldHurry`] says otherwise.
    YieldToJournal(ShouldHurry),
}

pub(crate) struct DataWriter {
    file: Box<dyn DiskFile>,
    path: PathBuf,
    id: u64,
    encryptor: Option<Encryptor>,
    block_bytes: usize,
    pacing: WritePacing,
    /// Bytes already written.
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
    pub(crate) fn create(
        disk: &dyn Disk,
        dir: &Path,
        id: u64,
        block_bytes: usize,
        keys: &EncryptionKeys,
        pacing: WritePacing,
    ) -> Result<DataWriter, CheckpointError> {
        let path = dir.join(directory::data_name(id));
        let file = disk.create(&path).map_err(CheckpointError::new("create", &path))?;
        let mut buf = Vec::with_capacity(WRITE_BYTES + 2 * block_bytes);
        let encryptor = keys.encryptor(Purpose::DataFile, &[id]);
        buf.extend_from_slice(&header(id, encryptor.is_some()));
        if let Some(encryptor) = &encryptor {
            buf.extend_from_slice(&encryption_header(id, encryptor.header()));
        }
        let block_at = buf.len();
        buf.put_bytes(0, BLOCK_HEADER_LEN);
        Ok(DataWriter {
            file,
            path,
            id,
            encryptor,
            block_bytes,
            pacing,
            flushed: 0,
            buf,
            block_at,
            block_count: 0,
            lengths: Vec::new(),
            totals: Totals::default(),
            last: None,
        })
    }

    pub(crate) fn push(&mut self, record: &Record) -> Result<(), CheckpointError> {
        let order = self.last.as_ref().map(|last| by_place(last, record));
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
                self.yield_to_journal()?;
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
        if let Some(encryptor) = &self.encryptor {
            let records = &mut self.buf[self.block_at + BLOCK_HEADER_LEN..];
            let len = u32::try_from(records.len()).expect("a block is far below 4 GiB");
            let context = block_context(self.id, offset, len, self.block_count);
            let tag = encryptor.encrypt(self.lengths.len() as u64, &context, records);
            self.buf.extend_from_slice(&tag);
        }
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

    /// After every piece but the last.
    fn yield_to_journal(&self) -> Result<(), CheckpointError> {
        let WritePacing::YieldToJournal(should_hurry) = &self.pacing else { return Ok(()) };
        let began = Instant::now();
        self.sync()?;
        if !should_hurry() {
            std::thread::sleep((began.elapsed() * 2).min(YIELD_MAX));
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), CheckpointError> {
        self.file.sync_data().map_err(CheckpointError::new("sync", &self.path))
    }

    /// Writes the end of the file and syncs it. The caller syncs the directory.
    pub(crate) fn finish(mut self) -> Result<WrittenFile, CheckpointError> {
        if self.block_count > 0 {
            self.close_block();
        } else {
            self.buf.truncate(self.block_at);
        }
        let encryption = self.encryptor.as_ref().map(|encryptor| {
            let tag = encryptor.encrypt(
                FOOTER_COUNTER,
                &footer_context(self.id, &self.lengths, &self.totals),
                &mut [],
            );
            FileEncryption { key: encryptor.header().key, check: encryptor.header().check, tag }
        });
        let footer = footer(
            self.id,
            &self.lengths,
            &self.totals,
            encryption.as_ref().map(|encryption| &encryption.tag),
        );
        let footer_crc = (&footer[footer.len() - 4..]).get_u32_le();
        self.buf.extend_from_slice(&footer);
        self.flush()?;
        self.sync()?;
        Ok(WrittenFile { id: self.id, size: self.flushed, footer_crc, encryption })
    }
}
