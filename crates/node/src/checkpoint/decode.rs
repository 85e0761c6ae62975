//! Decoding ahead: blocks of all files read, checked and decoded on several threads, a bounded
//! number ahead.
//!
//! The merge asks for blocks in the order it needs them; each request carries the way back for its
//! answer. A worker never waits for the merge, and the merge waits only for the one block it needs
//! next, so nothing can get stuck.

use std::collections::VecDeque;
use std::thread::Scope;

use crossbeam_channel::{Receiver, Sender, bounded};
use vetch_store::Record;

use super::data_file::DataReader;
use super::error::Damage;
use super::merge::Source;

/// Decoded blocks in memory at once, over all files; each file has at least [`LEAST_AHEAD`].
const BLOCKS_AHEAD: usize = 64;
const LEAST_AHEAD: usize = 2;

type Answer = Result<Vec<Record>, Damage>;

struct Task<'a> {
    reader: &'a DataReader,
    block: usize,
    answer: Sender<Answer>,
}

/// One file whose blocks are decoded elsewhere.
pub(super) struct Ahead<'a> {
    reader: &'a DataReader,
    /// None: blocks are decoded when they are asked for, by whoever asks.
    tasks: Option<Sender<Task<'a>>>,
    /// The next block to ask for.
    next: usize,
    /// Answers on their way, in block order.
    coming: VecDeque<Receiver<Answer>>,
    scratch: Vec<u8>,
}

/// Starts `threads` workers, or none, and returns a source for each file. The workers end when the
/// sources are dropped.
pub(super) fn start<'scope, 'a: 'scope>(
    scope: &'scope Scope<'scope, '_>,
    threads: usize,
    readers: &'a [DataReader],
) -> Vec<Ahead<'a>> {
    let ahead = (BLOCKS_AHEAD / readers.len().max(1)).max(LEAST_AHEAD);
    let (tasks, queue) = bounded::<Task<'a>>(ahead * readers.len().max(1));
    for _ in 0..threads {
        let queue = queue.clone();
        scope.spawn(move || work(&queue));
    }
    let tasks = (threads > 0).then_some(tasks);
    let source = |reader| {
        let coming = VecDeque::with_capacity(ahead);
        let mut source = Ahead { reader, tasks: tasks.clone(), next: 0, coming, scratch: Vec::new() };
        (0..ahead).for_each(|_| source.ask());
        source
    };
    readers.iter().map(source).collect()
}

fn work(queue: &Receiver<Task<'_>>) {
    let mut scratch = Vec::new();
    for task in queue {
        // Nobody waits for the answer any more if another block was found damaged.
        let _ = task.answer.send(task.reader.read_block(task.block, &mut scratch));
    }
}

impl Ahead<'_> {
    fn ask(&mut self) {
        let Some(tasks) = &self.tasks else { return };
        if self.next == self.reader.blocks() {
            return;
        }
        let (answer, coming) = bounded(1);
        self.coming.push_back(coming);
        let task = Task { reader: self.reader, block: self.next, answer };
        tasks.send(task).expect("workers live as long as there are sources");
        self.next += 1;
    }
}

impl Source for Ahead<'_> {
    fn next_batch(&mut self) -> Result<Option<Vec<Record>>, Damage> {
        if self.tasks.is_none() && self.next < self.reader.blocks() {
            self.next += 1;
            return self.reader.read_block(self.next - 1, &mut self.scratch).map(Some);
        }
        let Some(coming) = self.coming.pop_front() else { return Ok(None) };
        let batch = coming.recv().expect("a worker answers every task")?;
        self.ask();
        Ok(Some(batch))
    }
}
