//! Writing a data file.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::{Buf, BufMut};
use vetch_encryption::{EncryptionKeys, Encryptor, Purpose};
use vetch_journal::{Disk, DiskFile};
use vetch_store::Record;

use super::super::Late;
use super::super::directory;
use super::super::error::CheckpointError;
use super::{
    BLOCK_HEADER_LEN, FOOTER, FileEncryption, Totals, Written, block_bound, block_crc, by_place,
    encryption_header, footer, footer_bound, header,
};

/// Blocks are handed to the disk in pieces of about this size.
const WRITE_BYTES: usize = 1 << 20;
/// The longest time for which the disk is left to others behind a piece.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// How a file is written.
pub(in crate::checkpoint) enum Manner {
    /// Nobody else wants the disk: everything is made durable in the end.
    Alone,
    /// Beside the journal. Each piece is made durable by itself, because a sync of a whole file
    /// would hold up those of the journal for as long as all of it takes; then the disk is the
    /// journal's for twice as long as that took, unless it is [`Late`].
    Beside(Late),
}

pub(in crate::checkpoint) struct DataWriter {
    file: Box<dyn DiskFile>,
    path: PathBuf,
    id: u64,
    encryptor: Option<Encryptor>,
    block_bytes: usize,
    manner: Manner,
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
    pub(in crate::checkpoint) fn create(
        disk: &dyn Disk,
        dir: &Path,
        id: u64,
        block_bytes: usize,
        keys: &EncryptionKeys,
        manner: Manner,
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
            manner,
            flushed: 0,
            buf,
            block_at,
            block_count: 0,
            lengths: Vec::new(),
            totals: Totals::default(),
            last: None,
        })
    }

    pub(in crate::checkpoint) fn push(&mut self, record: &Record) -> Result<(), CheckpointError> {
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
                self.give_way()?;
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
            let bound = block_bound(self.id, offset, len, self.block_count);
            let tag = encryptor.encrypt(self.lengths.len() as u64, &bound, records);
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

    /// Behind a piece that is not the last.
    fn give_way(&self) -> Result<(), CheckpointError> {
        let Manner::Beside(is_late) = &self.manner else { return Ok(()) };
        let began = Instant::now();
        self.sync()?;
        if !is_late() {
            std::thread::sleep((began.elapsed() * 2).min(LONGEST_PAUSE));
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), CheckpointError> {
        self.file.sync_data().map_err(CheckpointError::new("sync", &self.path))
    }

    /// Writes the end of the file and makes its content durable. Its name is made durable by the
    /// caller.
    pub(in crate::checkpoint) fn finish(mut self) -> Result<Written, CheckpointError> {
        if self.block_count > 0 {
            self.close_block();
        } else {
            self.buf.truncate(self.block_at);
        }
        let encryption = self.encryptor.as_ref().map(|encryptor| {
            let tag = encryptor.encrypt(FOOTER, &footer_bound(self.id, &self.lengths, &self.totals), &mut []);
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
        Ok(Written { id: self.id, size: self.flushed, footer_crc, encryption })
    }
}
