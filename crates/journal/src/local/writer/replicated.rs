//! Appends of a journal with several members, where what was written may have to be cut again.
//!
//! An entry that is not known to be committed is alone in its record, so that a cut never splits
//! one and never rewrites anything committed. Several such records are still one write and one
//! sync: their headers say so, and `tail` explains why that leaves a torn end as easy to judge.
//! Entries that are committed when they come share a record.

use vetch_base::Seq;
use vetch_encryption::{Encryptor, KeyId, Purpose};

use super::{LocalJournal, encryption, header, record};
use crate::contract::{Appended, JournalError};
use crate::entry::ChainedEntry;
use crate::local::header::InWrite;

/// Records in one write; their headers count the others in a byte.
const RECORDS_MAX: usize = 256;
/// Bytes of entries in one write, unless the first one alone has more.
const BYTES_MAX: usize = 4 << 20;

impl LocalJournal {
    /// Appends entries that are chained one after another, the first of them on the tip, and waits
    /// until all are durable. Those up to `committed` will never be cut.
    ///
    /// Entries become durable in their order, in as many writes as it takes. After an error that
    /// may be retried the tip says how far that came.
    pub fn append_replicated(
        &mut self,
        entries: &[ChainedEntry],
        committed: Seq,
    ) -> Result<Appended, JournalError> {
        self.check_poison()?;
        self.check_batch(entries)?;
        self.complete_begin()?;
        // The rules of the members say who writes, and no claim of this one.
        self.claimed = true;
        let mut sum: Option<Appended> = None;
        let mut rest = entries;
        while !rest.is_empty() {
            let (written, appended) = self.append_some(rest, committed)?;
            self.published.remember(&rest[..written]);
            rest = &rest[written..];
            sum = Some(sum.map_or(appended, |sum| sum.and(appended)));
        }
        sum.ok_or_else(|| JournalError::OutOfOrder("an empty batch".to_owned()))
    }

    /// One write and one sync, of the first of these entries. Returns how many.
    fn append_some(
        &mut self,
        entries: &[ChainedEntry],
        committed: Seq,
    ) -> Result<(usize, Appended), JournalError> {
        let shared = leading(entries, |entry| entry.seq() <= committed);
        if shared > 0 {
            return Ok((shared, self.append(&entries[..shared])?));
        }
        let first = self.encryptor_for(&entries[0]);
        let key = key_of(first.as_ref());
        let extent = |entry: &ChainedEntry| {
            let overhead = if key.is_some() { encryption::OVERHEAD as u64 } else { 0 };
            header::extent(entry.bytes().len() as u64 + overhead)
        };
        let rolled = self.make_room(extent(&entries[0]), key)?;
        let mut room = self.room();
        let count = leading(&entries[..entries.len().min(RECORDS_MAX)], |entry| {
            let fits = extent(entry) <= room;
            room = room.saturating_sub(extent(entry));
            fits
        });
        let mut encryptors = vec![first];
        for entry in &entries[1..count] {
            let encryptor = self.encryptor_for(entry);
            // Keys may change at any moment; records of one segment have the same.
            if key_of(encryptor.as_ref()) != key {
                break;
            }
            encryptors.push(encryptor);
        }
        let count = encryptors.len();
        self.build_alone(&entries[..count], &encryptors, key);
        let last = *entries[count - 1].after();
        let appended = self.write_out(count, last, rolled)?;
        self.stats.records += count as u64 - 1;
        Ok((count, appended))
    }

    /// Lays out a record for each entry.
    fn build_alone(
        &mut self,
        entries: &[ChainedEntry],
        encryptors: &[Option<Encryptor>],
        key: Option<KeyId>,
    ) {
        let mut place = self.place(key);
        let begin = place.offset;
        self.buf.clear();
        for (n, (entry, encryptor)) in entries.iter().zip(encryptors).enumerate() {
            let nth = |n: usize| u8::try_from(n).expect("a write has at most RECORDS_MAX records");
            let in_write = InWrite { before: nth(n), behind: nth(entries.len() - 1 - n) };
            place.offset = begin + self.buf.len() as u64;
            let entry = std::slice::from_ref(entry);
            record::build(&mut self.buf, place, in_write, entry, encryptor.as_ref());
        }
    }

    fn encryptor_for(&self, entry: &ChainedEntry) -> Option<Encryptor> {
        self.keys.encryptor(Purpose::JournalRecord, &[self.journal_id, entry.seq().get()])
    }
}

impl Appended {
    /// Both, one after the other.
    fn and(self, later: Appended) -> Appended {
        Appended {
            position: later.position,
            bytes: self.bytes + later.bytes,
            write: self.write + later.write,
            sync: self.sync + later.sync,
            rolled: self.rolled || later.rolled,
        }
    }
}

/// How many entries from the first on may go together, by their bytes and by `may`.
fn leading(entries: &[ChainedEntry], mut may: impl FnMut(&ChainedEntry) -> bool) -> usize {
    let mut bytes = 0;
    let fits = |entry: &&ChainedEntry| {
        let is_first = bytes == 0;
        bytes += entry.bytes().len();
        (is_first || bytes <= BYTES_MAX) && may(entry)
    };
    entries.iter().take_while(fits).count()
}

fn key_of(encryptor: Option<&Encryptor>) -> Option<KeyId> {
    encryptor.map(|encryptor| encryptor.header().key)
}
