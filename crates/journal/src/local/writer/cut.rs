//! Cut: drops entries that are not committed from the end, because a leader has others in their
//! place.
//!
//! Newest first, so that what a crash leaves is the journal as it was, shorter by some of what was
//! to go, or with a torn end that `tail` knows:
//! * a segment behind the new end is removed and the directory synced before anything before it is
//!   touched, so there is never a gap between segments;
//! * in the segment of the new end the records of one write after the other are zeroed and synced.
//!
//! A segment that has lost all its records stays only if it bears the number of the entry that
//! comes next; then it is used as one that a failed append left empty. What is zeroed was never
//! committed: a committed byte never changes.

use std::io;

use bytes::Bytes;
use vetch_base::Seq;
use vetch_seeded_bugs::Bug;

use super::{Active, LocalJournal};
use crate::contract::JournalError;
use crate::disk::DiskFile;
use crate::entry::{Entry, EntryError, Tip, entry_len, hash_entry};
use crate::local::entries::entries_of;
use crate::local::header::Header;
use crate::local::raw::{RawPlace, RawReader, RawRecord};
use crate::local::segment::Segment;

/// What a cut did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// Entries that are gone.
    pub entries: u64,
    /// Bytes of records that were zeroed.
    pub bytes: u64,
    /// Segments that were removed.
    pub segments: usize,
    pub syncs: u64,
}

/// Records to zero that were written together, and so may be torn together.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    from: u64,
    to: u64,
    first_seq: Seq,
}

/// What a cut will leave, read before anything is changed.
struct Plan {
    tip: Tip,
    /// In the segment that stays, oldest first.
    stretches: Vec<Stretch>,
}

impl LocalJournal {
    /// Drops every entry behind `to`, durably. Entries up to `committed` are never dropped. A
    /// failure while files are changed ends the writer; the next start finds some of the entries.
    pub fn cut(&mut self, to: Seq, committed: Seq) -> Result<Cut, JournalError> {
        self.check_poison()?;
        assert!(to >= committed, "a committed entry is never cut: {to} is before {committed}");
        assert!(to <= self.tip.seq, "nothing lies behind the tip");
        if to == self.tip.seq {
            return Ok(Cut::default());
        }
        let keep = self.segments.partition_point(|segment| segment.first_seq <= to.next());
        assert!(keep > 0, "entries before the first segment were committed");
        let plan = self.plan_cut(to, keep - 1)?;
        let path = self.dir.join(&self.segments[keep - 1].name);
        let opened = self.disk.open_write(&path).and_then(|file| Ok((file.len()?, file)));
        let (len, file) = opened.map_err(JournalError::io("opening", &path))?;
        let mut cut = Cut { entries: self.tip.seq.since(to), ..Cut::default() };
        self.published.cut(to);
        let done = self.remove_behind(keep, &mut cut).and_then(|()| {
            plan.stretches.iter().rev().try_for_each(|stretch| self.zero(file.as_ref(), *stretch, &mut cut))
        });
        if let Err(error) = done {
            return Err(self.poison(&format!("cutting {}", path.display()), &error));
        }
        let offset = plan.stretches.first().expect("an entry is dropped").from;
        if offset == 0 {
            self.segments[keep - 1].key = None;
        }
        self.active = Some(Active { path, file, len, offset });
        self.tip = plan.tip;
        Ok(cut)
    }

    /// Reads what is to go, and the tip before it.
    fn plan_cut(&self, to: Seq, keep: usize) -> Result<Plan, JournalError> {
        let kept = &self.segments[keep];
        let holder = self.segments.partition_point(|segment| segment.first_seq <= to).checked_sub(1);
        let mut tip = if holder.is_none() { kept.before } else { None };
        let first = holder.map_or(kept.first_seq, |holder| self.segments[holder].first_seq);
        let place = RawPlace { segment: first, offset: 0, seq: first };
        let mut reader = RawReader::resume(self.disk.clone(), &self.dir, place);
        let mut stretches: Vec<Stretch> = Vec::new();
        while let Some(record) = reader.next_record(self.tip.seq)? {
            if record.place.seq <= to && to < record.last_seq {
                let (first, last) = (record.place.seq, record.last_seq);
                let reason = format!("entries {first} to {last} share a record, which {to} would split");
                return Err(JournalError::OutOfOrder(reason));
            }
            if record.last_seq == to {
                tip = Some(tip_after(entries_of(&record, &self.keys)?, &record)?);
            } else if record.place.seq > to {
                // The segments behind go as a whole.
                if record.place.segment != kept.first_seq {
                    break;
                }
                add(&mut stretches, &record);
            }
        }
        let lost = || {
            JournalError::corrupt(
                &kept.name,
                0,
                format!("the entry {to} before what is to be cut is missing"),
            )
        };
        Ok(Plan { tip: tip.ok_or_else(lost)?, stretches })
    }

    /// Removes the segments from this one on, newest first.
    fn remove_behind(&mut self, keep: usize, cut: &mut Cut) -> io::Result<()> {
        while self.segments.len() > keep {
            let gone = self.segments.pop().expect("there are more");
            self.active = None;
            self.disk.remove(&self.dir.join(gone.name))?;
            if self.must_sync() {
                self.disk.sync_dir(&self.dir)?;
            }
            cut.segments += 1;
            cut.syncs += 1;
        }
        Ok(())
    }

    fn zero(&self, file: &dyn DiskFile, stretch: Stretch, cut: &mut Cut) -> io::Result<()> {
        file.zero_fill(stretch.from, stretch.to)?;
        if self.must_sync() {
            file.sync_data()?;
        }
        cut.bytes += stretch.to - stretch.from;
        cut.syncs += 1;
        Ok(())
    }

    fn must_sync(&self) -> bool {
        !self.no_fsync && !vetch_seeded_bugs::on(Bug::CutNotSynced)
    }
}

fn add(stretches: &mut Vec<Stretch>, record: &RawRecord) {
    let (from, first_seq) = (record.place.offset, record.place.seq);
    let to = from + record.bytes.len() as u64;
    let header = Header::parse(&record.bytes).expect("the reader has parsed it");
    match stretches.last_mut() {
        Some(last) if header.shares_write_with(last.first_seq) => last.to = to,
        _ => stretches.push(Stretch { from, to, first_seq }),
    }
}

/// The tip after the last of these entries.
fn tip_after(mut entries: Bytes, record: &RawRecord) -> Result<Tip, JournalError> {
    let name = Segment::new(record.place.segment).name;
    let damaged =
        |error: EntryError| JournalError::corrupt(&name, record.place.offset, format!("bad entry: {error}"));
    loop {
        let bytes = entries.split_to(entry_len(&entries).map_err(damaged)?);
        if entries.is_empty() {
            let entry = Entry::decode(&bytes).map_err(damaged)?;
            return Tip::after(&entry, hash_entry(&bytes)).ok_or_else(|| {
                JournalError::corrupt(&name, record.place.offset, "bad entry: numbers beyond the last")
            });
        }
    }
}
