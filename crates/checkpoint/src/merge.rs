//! Merge: several sorted runs of records as one.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use vetch_store::Record;

use super::data_file::{DataReader, by_place};
use super::error::Damage;

/// Sorted records, a batch at a time.
pub(super) trait Source {
    /// The next batch, or nothing at the end. A batch is not empty.
    fn next_batch(&mut self) -> Result<Option<Vec<Record>>, Damage>;
}

impl Source for Box<dyn Source> {
    fn next_batch(&mut self) -> Result<Option<Vec<Record>>, Damage> {
        (**self).next_batch()
    }
}

/// A data file read block by block.
pub(super) struct Blocks {
    reader: DataReader,
    next: usize,
    scratch: Vec<u8>,
}

impl Blocks {
    pub(super) fn new(reader: DataReader) -> Blocks {
        Blocks { reader, next: 0, scratch: Vec::new() }
    }
}

impl Source for Blocks {
    fn next_batch(&mut self) -> Result<Option<Vec<Record>>, Damage> {
        if self.next == self.reader.blocks() {
            return Ok(None);
        }
        self.next += 1;
        self.reader.read_block(self.next - 1, &mut self.scratch).map(Some)
    }
}

/// Records in memory.
pub(super) struct InMemory(pub(super) Vec<Record>);

impl Source for InMemory {
    fn next_batch(&mut self) -> Result<Option<Vec<Record>>, Damage> {
        let records = std::mem::take(&mut self.0);
        Ok((!records.is_empty()).then_some(records))
    }
}

pub(super) struct Merge<S> {
    runs: Vec<Run<S>>,
    heads: BinaryHeap<RunHead>,
}

struct Run<S> {
    source: S,
    batch: std::vec::IntoIter<Record>,
}

struct RunHead {
    record: Record,
    run: usize,
}

impl<S: Source> Merge<S> {
    pub(super) fn new(sources: impl IntoIterator<Item = S>) -> Result<Merge<S>, Damage> {
        let runs: Vec<Run<S>> =
            sources.into_iter().map(|source| Run { source, batch: Vec::new().into_iter() }).collect();
        let mut merge = Merge { heads: BinaryHeap::with_capacity(runs.len()), runs };
        for run in 0..merge.runs.len() {
            if let Some(record) = merge.runs[run].next()? {
                merge.heads.push(RunHead { record, run });
            }
        }
        Ok(merge)
    }

    /// The next record in order, and the index of the source it came from.
    pub(super) fn next(&mut self) -> Result<Option<(Record, usize)>, Damage> {
        let Some(mut head) = self.heads.peek_mut() else { return Ok(None) };
        let run = head.run;
        let record = match self.runs[run].next()? {
            Some(following) => std::mem::replace(&mut head.record, following),
            None => PeekMut::pop(head).record,
        };
        Ok(Some((record, run)))
    }
}

impl<S: Source> Run<S> {
    fn next(&mut self) -> Result<Option<Record>, Damage> {
        if let Some(record) = self.batch.next() {
            return Ok(Some(record));
        }
        let Some(batch) = self.source.next_batch()? else { return Ok(None) };
        self.batch = batch.into_iter();
        Ok(self.batch.next())
    }
}

/// Reversed, because the heap returns the greatest and the merge needs the smallest.
impl Ord for RunHead {
    fn cmp(&self, other: &RunHead) -> Ordering {
        by_place(&other.record, &self.record)
    }
}

impl PartialOrd for RunHead {
    fn partial_cmp(&self, other: &RunHead) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for RunHead {
    fn eq(&self, other: &RunHead) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for RunHead {}
