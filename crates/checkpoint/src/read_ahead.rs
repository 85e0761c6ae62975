//! Read-ahead: several threads read, check and decode the blocks of all files, a bounded number
//! ahead of the merge.
//!
//! The merge requests blocks in the order it needs them; each request carries the channel for its
//! result. A worker never waits for the merge, and the merge waits only for the block it needs
//! next, so there is no deadlock.

use std::collections::VecDeque;
use std::thread::Scope;

use crossbeam_channel::{Receiver, Sender, bounded};
use vetch_store::Record;

use super::data_file::DataReader;
use super::error::Damage;
use super::merge::Source;

/// Decoded blocks in memory, over all files; each file has at least [`BLOCKS_AHEAD_MIN`].
const BLOCKS_AHEAD_MAX: usize = 64;
const BLOCKS_AHEAD_MIN: usize = 2;

type DecodedBlock = Result<Vec<Record>, Damage>;

struct Task<'a> {
    reader: &'a DataReader,
    block: usize,
    result: Sender<DecodedBlock>,
}

/// One file whose blocks workers decode.
pub(super) struct ReadAhead<'a> {
    reader: &'a DataReader,
    /// None if there are no workers: blocks are decoded by the caller when it needs them.
    tasks: Option<Sender<Task<'a>>>,
    /// The next block to request.
    next: usize,
    /// Results of requested blocks, in block order.
    pending: VecDeque<Receiver<DecodedBlock>>,
    scratch: Vec<u8>,
}

/// Starts `threads` workers, or none, and returns a source for each file. The workers end when the
/// sources are dropped.
pub(super) fn start<'scope, 'a: 'scope>(
    scope: &'scope Scope<'scope, '_>,
    threads: usize,
    readers: &'a [DataReader],
) -> Vec<ReadAhead<'a>> {
    let ahead = (BLOCKS_AHEAD_MAX / readers.len().max(1)).max(BLOCKS_AHEAD_MIN);
    let (tasks, queue) = bounded::<Task<'a>>(ahead * readers.len().max(1));
    for _ in 0..threads {
        let queue = queue.clone();
        scope.spawn(move || work(&queue));
    }
    let tasks = (threads > 0).then_some(tasks);
    let source = |reader| {
        let pending = VecDeque::with_capacity(ahead);
        let mut source = ReadAhead { reader, tasks: tasks.clone(), next: 0, pending, scratch: Vec::new() };
        (0..ahead).for_each(|_| source.request());
        source
    };
    readers.iter().map(source).collect()
}

fn work(queue: &Receiver<Task<'_>>) {
    let mut scratch = Vec::new();
    for task in queue {
        // The receiver is gone if another block was found damaged.
        let _ = task.result.send(task.reader.read_block(task.block, &mut scratch));
    }
}

impl ReadAhead<'_> {
    fn request(&mut self) {
        let Some(tasks) = &self.tasks else { return };
        if self.next == self.reader.blocks() {
            return;
        }
        let (result, pending) = bounded(1);
        self.pending.push_back(pending);
        let task = Task { reader: self.reader, block: self.next, result };
        tasks.send(task).expect("workers live as long as there are sources");
        self.next += 1;
    }
}

impl Source for ReadAhead<'_> {
    fn next_batch(&mut self) -> Result<Option<Vec<Record>>, Damage> {
        if self.tasks.is_none() && self.next < self.reader.blocks() {
            self.next += 1;
            return self.reader.read_block(self.next - 1, &mut self.scratch).map(Some);
        }
        let Some(pending) = self.pending.pop_front() else { return Ok(None) };
        let batch = pending.recv().expect("a worker answers every task")?;
        self.request();
        Ok(Some(batch))
    }
}
