//! Scrub: reads everything on disk again and again, so that rot is found while there is something
//! to mend it with.
//!
//! A pass is spread over the configured interval: at any time as much of it has been read as of the
//! interval has passed. It covers the files of both checkpoints and every journal segment but the
//! one being written.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use vetch_base::Seq;
use vetch_checkpoint::{Checkpointer, Damage, ScrubStep};
use vetch_journal::{ClosedSegment, Disk, JournalError, RawPlace, RawReader, closed_segments};

/// What is read at once, whatever the pass is behind by.
const STEP_BYTES: u64 = 4 << 20;

pub(crate) struct Scrub {
    disk: Arc<dyn Disk>,
    /// None: the journal has no files here.
    journal: Option<PathBuf>,
    /// Zero: off.
    interval: Duration,
    pass: Option<Pass>,
}

struct Pass {
    began: Duration,
    total: u64,
    done: u64,
    segments: VecDeque<ClosedSegment>,
    open: Option<(ClosedSegment, RawReader)>,
}

/// What a step came across.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Damaged checkpoint files. The checkpointer knows of them.
    pub(crate) checkpoint: Vec<Damage>,
    /// Damaged segments, each with the number of its last entry.
    pub(crate) journal: Vec<(Damage, Seq)>,
    /// A pass has ended.
    pub(crate) is_complete: bool,
    pub(crate) bytes: u64,
}

impl Scrub {
    pub(crate) fn new(disk: Arc<dyn Disk>, journal: Option<PathBuf>, interval: Duration) -> Scrub {
        Scrub { disk, journal, interval, pass: None }
    }

    /// Reads as much as is due at `now`.
    pub(crate) fn step(&mut self, now: Duration, checkpointer: &mut Checkpointer) -> Found {
        let mut found = Found::default();
        if self.interval.is_zero() {
            return found;
        }
        let pass = match self.pass.take() {
            Some(pass) => pass,
            None => self.begin(now, checkpointer),
        };
        self.run(pass, now, checkpointer, &mut found);
        found
    }

    fn begin(&self, now: Duration, checkpointer: &mut Checkpointer) -> Pass {
        let mut total = checkpointer.begin_scrub();
        let mut segments = VecDeque::new();
        if let Some(dir) = &self.journal {
            // A directory that cannot be listed is reported by the threads that write to it.
            let closed = closed_segments(&*self.disk, dir).unwrap_or_default();
            segments.extend(closed);
        }
        total += segments.iter().map(|segment| segment.bytes).sum::<u64>();
        Pass { began: now, total, done: 0, segments, open: None }
    }

    fn run(&mut self, mut pass: Pass, now: Duration, checkpointer: &mut Checkpointer, found: &mut Found) {
        let passed = (now - pass.began).as_secs_f64() / self.interval.as_secs_f64();
        let due = (pass.total as f64 * passed.min(1.0)) as u64;
        while found.bytes < STEP_BYTES && (pass.done < due || passed >= 1.0) {
            let read = match checkpointer.scrub() {
                ScrubStep::Read(bytes) => bytes,
                ScrubStep::Damaged(bytes, damage) => {
                    found.checkpoint.push(damage);
                    bytes
                }
                ScrubStep::Done => match self.read_journal(&mut pass, found) {
                    Some(bytes) => bytes,
                    None => {
                        pass.done = pass.total;
                        if passed >= 1.0 {
                            found.is_complete = true;
                            return;
                        }
                        break;
                    }
                },
            };
            pass.done += read;
            found.bytes += read;
        }
        self.pass = Some(pass);
    }

    /// One record of the journal, or the end of a segment. None: all were read.
    fn read_journal(&self, pass: &mut Pass, found: &mut Found) -> Option<u64> {
        let dir = self.journal.as_ref()?;
        let (segment, mut reader) = match pass.open.take() {
            Some(open) => open,
            None => {
                let segment = pass.segments.pop_front()?;
                let first = segment.first_seq;
                let place = RawPlace { segment: first, offset: 0, seq: first };
                let reader = RawReader::resume(Arc::clone(&self.disk), dir, place);
                reader.forget();
                (segment, reader)
            }
        };
        let before = reader.place().offset;
        match reader.next_record(segment.last_seq) {
            Ok(Some(record)) => {
                pass.open = Some((segment, reader));
                Some(record.bytes.len() as u64)
            }
            Ok(None) => {
                reader.forget();
                Some(segment.bytes.saturating_sub(before))
            }
            // Trimmed meanwhile.
            Err(_) if !self.is_there(dir, segment) => Some(segment.bytes.saturating_sub(before)),
            Err(error) => {
                found.journal.push((damage_of(dir, error), segment.last_seq));
                Some(segment.bytes.saturating_sub(before))
            }
        }
    }

    /// Whether this file is a journal segment that is still there.
    pub(crate) fn has_segment(&self, path: &Path) -> bool {
        let Some(dir) = self.journal.as_ref().filter(|dir| path.parent() == Some(dir)) else { return false };
        let names = self.disk.list(dir).unwrap_or_default();
        path.file_name().is_some_and(|name| names.iter().any(|other| **other == *name))
    }

    fn is_there(&self, dir: &Path, segment: ClosedSegment) -> bool {
        let closed = closed_segments(&*self.disk, dir).unwrap_or_default();
        closed.iter().any(|other| other.first_seq == segment.first_seq)
    }
}

fn damage_of(dir: &Path, error: JournalError) -> Damage {
    match error {
        JournalError::Corrupt(corrupt) => {
            Damage::new(&dir.join(corrupt.file), corrupt.offset, corrupt.reason)
        }
        error => Damage::new(dir, 0, error.to_string()),
    }
}
