//! A run: new records and rewritten files become data files, then a manifest makes them the
//! checkpoint.
//!
//! The order makes it atomic. Data files are written and synced, then the directory with their
//! names, then the manifest gets its name, and only then are files removed. Whatever fails and
//! whenever power is lost, the newest manifest with its files is a complete checkpoint. The
//! leftovers of a failed run are removed at once if possible, by the next run otherwise.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use vetch_journal::write_atomically;
use vetch_store::Record;

use super::checkpointer::Checkpointer;
use super::data_file::{DataReader, DataWriter, WritePacing, by_place};
use super::directory::{self, manifest_name};
use super::error::{CheckpointError, Damage};
use super::manifest::{DataFile, Manifest};
use super::merge::{Blocks, InMemory, Merge, Source};
use super::pinned_tombstones::PinnedTombstones;
use super::plan::{self, FileStats};
use super::published::Published;
use super::tombstone_gc::{TombstoneGc, pinned_bytes};
use super::{Capture, Retained, RunReport};

/// Records per call of `retained`.
const RETAINED_BATCH: usize = 1024;

/// Why an attempt failed.
enum Failure {
    /// An old file is damaged: plan again without it.
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
    /// The caller ensures that the journal is durable up to `capture.tip`, that no compaction step
    /// runs between the capture and the end of the run, and that every earlier step was passed to
    /// [`Checkpointer::note_freed`]. `retained` says which of the given records the store still
    /// has.
    ///
    /// After an error the last checkpoint is unchanged, and the records of this capture are kept
    /// for the next run.
    pub fn run(&mut self, mut capture: Capture, retained: &Retained) -> Result<RunReport, CheckpointError> {
        self.take_dirty(&mut capture);
        let mut damaged = Vec::new();
        let mut may_rewrite = true;
        loop {
            let groups = if may_rewrite { self.plan() } else { plan::fresh_only(self.current.files.len()) };
            let rewrites = groups.iter().map(Range::len).sum::<usize>() > 1;
            let first_id = self.next_id;
            let number = self.take_number();
            match self.attempt(number, &capture, &groups, retained) {
                Ok(report) => return Ok(RunReport { damaged, ..report }),
                Err(failure) => {
                    self.undo(number, first_id);
                    match failure {
                        Failure::Unreadable(damage) => {
                            self.unreadable.insert(damage.file.clone());
                            damaged.push(damage);
                        }
                        // The new records alone need far less space, and once they are written the
                        // journal can be trimmed.
                        Failure::Failed(error) if error.is_no_space() && rewrites => may_rewrite = false,
                        Failure::Failed(error) => {
                            self.drop_freed_pending(retained);
                            return Err(error);
                        }
                    }
                }
            }
        }
    }

    /// Writes a checkpoint of `all` records of the store, without reading existing files: this
    /// replaces damaged ones. Otherwise like [`Checkpointer::run`]. Versions newer than the capture
    /// are left out.
    pub fn run_full(
        &mut self,
        mut capture: Capture,
        mut all: Vec<Record>,
    ) -> Result<RunReport, CheckpointError> {
        self.take_dirty(&mut capture);
        all.retain(|record| record.mod_revision() <= capture.mark.revision);
        all.sort_unstable_by_key(|record| (record.mod_revision(), record.sub()));
        let (first_id, number) = (self.next_id, self.take_number());
        let outcome = self.attempt_full(number, &capture, &all);
        if outcome.is_err() {
            self.undo(number, first_id);
        }
        outcome
    }

    fn attempt_full(
        &mut self,
        number: u64,
        capture: &Capture,
        all: &[Record],
    ) -> Result<RunReport, CheckpointError> {
        // No old file is kept, so there is no put in one that a tombstone must outlive.
        let tombstone_gc = TombstoneGc::new(&[], |_| true);
        let (mut report, mut layout) = (RunReport { number, ..RunReport::default() }, Layout::default());
        let bytes: u64 = all.iter().map(|record| record.saved_len() as u64).sum();
        let largest = self.config.rewrite_bytes.max(bytes / 8).max(1);
        let mut rest = all;
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(whole_revisions(rest, largest));
            let mut piece = piece.to_vec();
            piece.sort_unstable_by(by_place);
            let last = behind.first().map_or(capture.mark.revision, |next| next.mod_revision() - 1);
            let mut output = Output::new(self, &tombstone_gc);
            for batch in piece.chunks(RETAINED_BATCH) {
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

    /// Drops records that the store has freed since: the next run would not write them either.
    /// Tombstones stay, because [`TombstoneGc`] decides about them.
    fn drop_freed_pending(&mut self, retained: &Retained) {
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
        let stats: Vec<FileStats> = (files.iter().enumerate())
            .map(|(index, file)| FileStats {
                size: file.written.size,
                useful: file.live + pinned_bytes(files, index),
                is_stale: file.written.encryption.map(|encryption| encryption.key) != key,
                is_readable: !self.unreadable.contains(&self.data_path(file.written.id)),
            })
            .collect();
        let fresh: usize = self.pending.iter().map(Record::saved_len).sum();
        plan::choose(&self.config, &stats, fresh as u64)
    }

    fn attempt(
        &mut self,
        number: u64,
        capture: &Capture,
        groups: &[Range<usize>],
        retained: &Retained,
    ) -> Result<RunReport, Failure> {
        let old = self.current.files.clone();
        let in_group = |index: usize| groups.iter().find(|group| group.contains(&index));
        let tombstone_gc = TombstoneGc::new(&old, |index| in_group(index).is_some());
        let mut report = RunReport { number, ..RunReport::default() };
        let mut layout = Layout::default();
        let mut at = 0;
        while at <= old.len() {
            let Some(group) = in_group(at) else {
                layout.push(old[at].last, Some(old[at]));
                at += 1;
                continue;
            };
            let last = if group.end > old.len() { capture.mark.revision } else { old[group.end - 1].last };
            let file = self.write_group(&old, group.clone(), &tombstone_gc, retained, &mut report)?;
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
        tombstone_gc: &TombstoneGc,
        retained: &Retained,
        report: &mut RunReport,
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
        let mut output = Output::new(self, tombstone_gc);
        let mut batch = Vec::with_capacity(RETAINED_BATCH);
        loop {
            let next = merge.next()?.map(|(record, _)| record);
            let is_end = next.is_none();
            batch.extend(next);
            if batch.len() == RETAINED_BATCH || is_end {
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
        report: RunReport,
    ) -> Result<RunReport, CheckpointError> {
        let manifest = Manifest {
            number,
            tip: capture.tip,
            position: capture.position,
            mark: capture.mark,
            next_id: self.next_id,
            files,
            unversioned: capture.unversioned.clone(),
        };
        assert!(manifest.check().is_ok(), "the files partition the revisions up to the mark");
        let before_tip = self.current.tip.seq;
        assert!(manifest.tip.seq >= before_tip, "a checkpoint never needs more of the journal than the last");
        let (bytes, key) = manifest.encode(&self.keys);
        let name = manifest_name(number);
        write_atomically(&*self.disk, &self.dir, &name, &bytes)
            .map_err(CheckpointError::new("publish", &self.dir.join(name)))?;
        let published = Published::new(&manifest, bytes.len() as u64, key);
        let before = std::mem::replace(&mut self.current, published);
        // A damaged checkpoint is no fallback. The one before it may be, and the journal still
        // reaches back to it.
        let candidates = [Some(before).filter(|before| before.number.is_some()), self.older.take()];
        self.older = candidates.into_iter().flatten().find(|published| !self.has_damage(published));
        self.begin_verify();
        self.pins.publish(&self.current);
        let new_records = std::mem::take(&mut self.pending).len() as u64;
        let (_, leftovers) = directory::remove_unreferenced(&*self.disk, &self.dir, &self.referenced());
        Ok(RunReport {
            new_records,
            written_bytes: report.written_bytes + bytes.len() as u64,
            files: self.current.files.len(),
            file_bytes: self.current.files.iter().map(|file| file.written.size).sum(),
            live_bytes: self.live_bytes(),
            leftovers: leftovers.map(|error: io::Error| error.to_string()),
            ..report
        })
    }

    /// Removes the leftovers of an attempt. If the manifest got its name, it is removed first and
    /// durably, so that no manifest outlives its files. If even that fails, everything stays until
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
            // Most of these do not exist, and the next run removes one that cannot be removed now.
            let _ = self.disk.remove(&path);
        }
    }
}

/// How many of these records, in order of revision, make a file of about `bytes` with whole
/// revisions.
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

/// A data file of the retained records. Created when the first record is kept.
struct Output<'a> {
    checkpointer: &'a mut Checkpointer,
    tombstone_gc: &'a TombstoneGc,
    writer: Option<DataWriter>,
    live: u64,
    pinned_tombstones: PinnedTombstones,
}

impl<'a> Output<'a> {
    fn new(checkpointer: &'a mut Checkpointer, tombstone_gc: &'a TombstoneGc) -> Output<'a> {
        Output {
            checkpointer,
            tombstone_gc,
            writer: None,
            live: 0,
            pinned_tombstones: PinnedTombstones::default(),
        }
    }

    fn write(&mut self, batch: &[Record], retained: &Retained) -> Result<(), CheckpointError> {
        let kept = retained(batch);
        assert!(kept.len() == batch.len(), "an answer for every record");
        for (record, is_retained) in batch.iter().zip(kept) {
            let bytes = record.saved_len() as u64;
            let (created, ended) = (record.create_revision(), record.mod_revision());
            if is_retained {
                let is_swept = record.is_tombstone() && ended < self.checkpointer.swept;
                assert!(!is_swept, "a tombstone below the compaction said to be complete is still retained");
                self.live += bytes;
            } else if record.is_tombstone() && !self.tombstone_gc.may_drop(created, ended) {
                self.pinned_tombstones.add(bytes, created, ended);
            } else {
                continue;
            }
            self.writer()?.push(record)?;
        }
        Ok(())
    }

    fn writer(&mut self) -> Result<&mut DataWriter, CheckpointError> {
        if self.writer.is_none() {
            let Checkpointer { disk, dir, next_id, config, keys, should_hurry, .. } = &mut *self.checkpointer;
            let pacing = WritePacing::YieldToJournal(Arc::clone(should_hurry));
            let id = *next_id;
            *next_id += 1;
            self.writer = Some(DataWriter::create(&**disk, dir, id, config.block_bytes, keys, pacing)?);
        }
        Ok(self.writer.as_mut().expect("made above"))
    }

    fn finish(self) -> Result<Option<DataFile>, CheckpointError> {
        let Some(writer) = self.writer else { return Ok(None) };
        let written = writer.finish()?;
        let Output { live, pinned_tombstones, .. } = self;
        Ok(Some(DataFile {
            written,
            first: 0,
            last: 0,
            live,
            clean_at: self.checkpointer.swept,
            pinned_tombstones,
        }))
    }
}
