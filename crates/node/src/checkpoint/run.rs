//! A run: new records and rewritten files become data files, then a manifest makes them the
//! checkpoint.
//!
//! Order is everything. Data files are written and synced, then their names, then the manifest
//! takes its name, and only then is anything removed. Whatever fails or whenever the power goes,
//! the newest manifest with its files is a whole checkpoint. What a failed run leaves is removed at
//! once if possible, by the next run otherwise.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use vetch_journal::write_atomically;
use vetch_store::Record;

use super::checkpointer::{Checkpointer, Published};
use super::data_file::{DataReader, DataWriter, Manner, by_place};
use super::directory::{self, manifest_name};
use super::error::{CheckpointError, Damage};
use super::graves::{Graves, Pins};
use super::manifest::{DataFile, Manifest};
use super::merge::{Blocks, InMemory, Merge, Source};
use super::plan::{self, Shape};
use super::{Capture, Report, Retained};

/// Records are shown to `retained` this many at a time.
const BATCH: usize = 1024;

/// Why an attempt ended.
enum Failure {
    /// An old file cannot be read: plan again without it.
    Unreadable(Damage),
    Failed(CheckpointError),
}

impl From<Damage> for Failure {
    fn from(damage: Damage) -> Failure {
        Failure::Unreadable(damage)
    }
}

impl From<CheckpointError> for Failure {
    fn from(error: CheckpointError) -> Failure {
        Failure::Failed(error)
    }
}

/// Files of the next checkpoint while they are being put together.
#[derive(Default)]
struct Layout {
    files: Vec<DataFile>,
    covered: i64,
}

impl Layout {
    /// The next interval ends at `last`. If no file is left of it, a neighbour covers it.
    fn push(&mut self, last: i64, file: Option<DataFile>) {
        match (file, self.files.last_mut()) {
            (Some(file), _) => self.files.push(DataFile { first: self.covered, last, ..file }),
            (None, Some(before)) => before.last = last,
            (None, None) => return,
        }
        self.covered = last;
    }
}

impl Checkpointer {
    /// Writes what `capture` adds to the last checkpoint and publishes the new one.
    ///
    /// The caller sees to it that the journal is durable up to `capture.tip`, that no compaction
    /// step runs between the capture and the end of the run, and that every step before was
    /// reported to [`Checkpointer::freed`]. `retained` says which of the given records the store
    /// still has.
    ///
    /// After an error the last checkpoint stands and the records of this capture are kept for the
    /// next run.
    pub fn run(&mut self, mut capture: Capture, retained: &Retained) -> Result<Report, CheckpointError> {
        self.take_dirty(&mut capture);
        let mut damaged = Vec::new();
        let mut may_rewrite = true;
        loop {
            let groups = if may_rewrite { self.plan() } else { plan::fresh_only(self.current.files.len()) };
            let rewrites = groups.iter().map(Range::len).sum::<usize>() > 1;
            let first_id = self.next_id;
            let number = self.take_number();
            match self.attempt(number, &capture, &groups, retained) {
                Ok(report) => return Ok(Report { damaged, ..report }),
                Err(failure) => {
                    self.undo(number, first_id);
                    match failure {
                        Failure::Unreadable(damage) => {
                            self.unreadable.insert(damage.file.clone());
                            damaged.push(damage);
                        }
                        // The new records alone need far less space, and they are what frees the
                        // journal.
                        Failure::Failed(error) if error.is_no_space() && rewrites => may_rewrite = false,
                        Failure::Failed(error) => {
                            self.thin_out_pending(retained);
                            return Err(error);
                        }
                    }
                }
            }
        }
    }

    /// Writes a checkpoint of `all` that the store holds, without a look at the files there are:
    /// how to get rid of a damaged one. Otherwise like [`Checkpointer::run`]. Younger versions than
    /// the capture's are left out.
    pub fn run_anew(
        &mut self,
        mut capture: Capture,
        mut all: Vec<Record>,
    ) -> Result<Report, CheckpointError> {
        self.take_dirty(&mut capture);
        all.retain(|record| record.mod_revision() <= capture.mark.revision);
        all.sort_unstable_by_key(|record| (record.mod_revision(), record.sub()));
        let (first_id, number) = (self.next_id, self.take_number());
        let outcome = self.attempt_anew(number, &capture, &all);
        if outcome.is_err() {
            self.undo(number, first_id);
        }
        outcome
    }

    fn attempt_anew(
        &mut self,
        number: u64,
        capture: &Capture,
        all: &[Record],
    ) -> Result<Report, CheckpointError> {
        // Nothing of the old files is taken over, so no tombstone guards against anything in them.
        let graves = Graves::new(&[], |_| true);
        let (mut report, mut layout) = (Report { number, ..Report::default() }, Layout::default());
        let bytes: u64 = all.iter().map(|record| record.saved_len() as u64).sum();
        let largest = self.config.rewrite_bytes.max(bytes / 8).max(1);
        let mut rest = all;
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(whole_revisions(rest, largest));
            let mut piece = piece.to_vec();
            piece.sort_unstable_by(by_place);
            let last = behind.first().map_or(capture.mark.revision, |next| next.mod_revision() - 1);
            let mut output = Output::new(self, &graves);
            for batch in piece.chunks(BATCH) {
                output.write(batch, &|records: &[Record]| vec![true; records.len()])?;
            }
            let file = output.finish()?;
            report.written_bytes += file.map_or(0, |file| file.written.size);
            layout.push(last, file);
            rest = behind;
        }
        self.disk.sync_dir(&self.dir).map_err(CheckpointError::new("sync", &self.dir))?;
        self.publish(number, capture, layout.files, report)
    }

    /// What the store has given back since would not be written by the next run either. Tombstones
    /// stay for [`Graves`] to judge.
    fn thin_out_pending(&mut self, retained: &Retained) {
        let mut kept = retained(&self.pending).into_iter();
        self.pending.retain(|record| kept.next().unwrap_or(true) || record.is_tombstone());
    }

    fn take_dirty(&mut self, capture: &mut Capture) {
        let before = self.current.mark.revision;
        assert!(capture.mark.revision >= before, "a capture is not older than the last checkpoint");
        assert!(capture.tip.next_rev == capture.mark.revision + 1, "the tip leads to the captured state");
        let covered = before + 1..=capture.mark.revision;
        let fits = capture.dirty.iter().all(|record| covered.contains(&record.mod_revision()));
        assert!(fits, "new records are newer than the last checkpoint and not newer than the capture");
        self.pending.append(&mut capture.dirty);
        self.pending.sort_unstable_by(by_place);
        if let Some(swept) = capture.swept {
            assert!(swept <= capture.mark.compact_revision, "only what was asked for is compacted");
            self.swept = self.swept.max(swept);
        }
    }

    fn plan(&self) -> Vec<Range<usize>> {
        let files = &self.current.files;
        let key = self.keys.current();
        let shapes: Vec<Shape> = (files.iter().enumerate())
            .map(|(index, file)| Shape {
                size: file.written.size,
                useful: file.live + file.pins.held_bytes(files, index),
                is_stale: file.written.encryption.map(|encryption| encryption.key) != key,
                is_readable: !self.unreadable.contains(&self.data_path(file.written.id)),
            })
            .collect();
        let fresh: usize = self.pending.iter().map(Record::saved_len).sum();
        plan::choose(&self.config, &shapes, fresh as u64)
    }

    fn attempt(
        &mut self,
        number: u64,
        capture: &Capture,
        groups: &[Range<usize>],
        retained: &Retained,
    ) -> Result<Report, Failure> {
        let old = self.current.files.clone();
        let in_group = |index: usize| groups.iter().find(|group| group.contains(&index));
        let graves = Graves::new(&old, |index| in_group(index).is_some());
        let mut report = Report { number, ..Report::default() };
        let mut layout = Layout::default();
        let mut at = 0;
        while at <= old.len() {
            let Some(group) = in_group(at) else {
                layout.push(old[at].last, Some(old[at]));
                at += 1;
                continue;
            };
            let last = if group.end > old.len() { capture.mark.revision } else { old[group.end - 1].last };
            let file = self.write_group(&old, group.clone(), &graves, retained, &mut report)?;
            layout.push(last, file);
            at = group.end;
        }
        let files = layout.files;
        if files.iter().any(|file| old.iter().all(|before| before.written.id != file.written.id)) {
            self.disk.sync_dir(&self.dir).map_err(CheckpointError::new("sync", &self.dir))?;
        }
        self.publish(number, capture, files, report).map_err(Failure::Failed)
    }

    /// Writes the survivors of a group of files as one. None if there are none.
    fn write_group(
        &mut self,
        old: &[DataFile],
        group: Range<usize>,
        graves: &Graves,
        retained: &Retained,
        report: &mut Report,
    ) -> Result<Option<DataFile>, Failure> {
        let mut sources: Vec<Box<dyn Source>> = Vec::with_capacity(group.len());
        for file in &old[group.start..group.end.min(old.len())] {
            let reader = DataReader::open(&*self.disk, &self.dir, file.written, &self.keys)?;
            sources.push(Box::new(Blocks::new(reader)));
            report.rewritten_files += 1;
            report.rewritten_bytes += file.written.size;
        }
        if group.end > old.len() {
            sources.push(Box::new(InMemory(self.pending.clone())));
        }
        let mut merge = Merge::new(sources)?;
        let mut output = Output::new(self, graves);
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            let next = merge.next()?.map(|(record, _)| record);
            let is_end = next.is_none();
            batch.extend(next);
            if batch.len() == BATCH || is_end {
                output.write(&batch, retained)?;
                batch.clear();
            }
            if is_end {
                break;
            }
        }
        let file = output.finish()?;
        report.written_bytes += file.map_or(0, |file| file.written.size);
        Ok(file)
    }

    fn publish(
        &mut self,
        number: u64,
        capture: &Capture,
        files: Vec<DataFile>,
        report: Report,
    ) -> Result<Report, CheckpointError> {
        let manifest = Manifest {
            number,
            tip: capture.tip,
            position: capture.position,
            mark: capture.mark,
            next_id: self.next_id,
            files,
            unversioned: capture.unversioned.clone(),
        };
        let (bytes, key) = manifest.encode(&self.keys);
        let name = manifest_name(number);
        write_atomically(&*self.disk, &self.dir, &name, &bytes)
            .map_err(CheckpointError::new("publish", &self.dir.join(name)))?;
        let published = Published::new(&manifest, bytes.len() as u64, key);
        let before = std::mem::replace(&mut self.current, published);
        // One that is damaged is nothing to fall back to. The one before it may be, and the journal
        // still reaches back to it.
        let candidates = [Some(before).filter(|before| before.number.is_some()), self.older.take()];
        self.older = candidates.into_iter().flatten().find(|published| !self.is_damaged_here(published));
        self.begin_verify();
        self.holds.publish(&self.current);
        let new_records = std::mem::take(&mut self.pending).len() as u64;
        let (_, leftovers) = directory::remove_unneeded(&*self.disk, &self.dir, &self.needed());
        Ok(Report {
            new_records,
            written_bytes: report.written_bytes + bytes.len() as u64,
            files: self.current.files.len(),
            file_bytes: self.current.files.iter().map(|file| file.written.size).sum(),
            live_bytes: self.live_bytes(),
            leftovers: leftovers.map(|error: io::Error| error.to_string()),
            ..report
        })
    }

    /// Removes what an attempt left. Should the manifest have got its name, it goes first and
    /// durably, so that no manifest outlives its files; if even that fails, everything stays until
    /// the next run.
    fn undo(&self, number: u64, first_id: u64) {
        let manifest = self.dir.join(manifest_name(number));
        match self.disk.remove(&manifest) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Ok(()) if self.disk.sync_dir(&self.dir).is_ok() => {}
            _ => return,
        }
        let mut leftovers: Vec<_> = (first_id..self.next_id).map(|id| self.data_path(id)).collect();
        leftovers.push(self.dir.join(format!("{}.tmp", manifest_name(number))));
        for path in leftovers {
            // Most of these do not exist, and one that cannot be removed now is found by the next
            // run.
            let _ = self.disk.remove(&path);
        }
    }
}

/// How many of these records, which come in order of revision, make a file of about `bytes` with
/// whole revisions.
fn whole_revisions(records: &[Record], bytes: u64) -> usize {
    let (mut sum, mut at) = (0, 0);
    while at < records.len() {
        let is_new = at == 0 || records[at].mod_revision() != records[at - 1].mod_revision();
        if is_new && sum >= bytes {
            break;
        }
        sum += records[at].saved_len() as u64;
        at += 1;
    }
    at
}

/// A data file being filtered into existence; made when the first record is kept.
struct Output<'a> {
    checkpointer: &'a mut Checkpointer,
    graves: &'a Graves,
    writer: Option<DataWriter>,
    live: u64,
    pins: Pins,
}

impl<'a> Output<'a> {
    fn new(checkpointer: &'a mut Checkpointer, graves: &'a Graves) -> Output<'a> {
        Output { checkpointer, graves, writer: None, live: 0, pins: Pins::default() }
    }

    fn write(&mut self, batch: &[Record], retained: &Retained) -> Result<(), CheckpointError> {
        let kept = retained(batch);
        assert!(kept.len() == batch.len(), "every record is answered for");
        for (record, is_retained) in batch.iter().zip(kept) {
            let bytes = record.saved_len() as u64;
            let (created, ended) = (record.create_revision(), record.mod_revision());
            if is_retained {
                let is_swept = record.is_tombstone() && ended < self.checkpointer.swept;
                assert!(!is_swept, "a tombstone below the compaction said to be complete is still retained");
                self.live += bytes;
            } else if record.is_tombstone() && !self.graves.may_forget(created, ended) {
                self.pins.add(bytes, created, ended);
            } else {
                continue;
            }
            self.writer()?.push(record)?;
        }
        Ok(())
    }

    fn writer(&mut self) -> Result<&mut DataWriter, CheckpointError> {
        if self.writer.is_none() {
            let Checkpointer { disk, dir, next_id, config, keys, is_late, .. } = &mut *self.checkpointer;
            let manner = Manner::Beside(Arc::clone(is_late));
            let id = *next_id;
            *next_id += 1;
            self.writer = Some(DataWriter::create(&**disk, dir, id, config.block_bytes, keys, manner)?);
        }
        Ok(self.writer.as_mut().expect("made above"))
    }

    fn finish(self) -> Result<Option<DataFile>, CheckpointError> {
        let Some(writer) = self.writer else { return Ok(None) };
        let written = writer.finish()?;
        let Output { live, pins, .. } = self;
        Ok(Some(DataFile { written, first: 0, last: 0, live, clean_at: self.checkpointer.swept, pins }))
    }
}
