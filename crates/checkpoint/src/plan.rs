//! The plan of a run: which neighbouring files become one new file.
//!
//! Reasons to rewrite, in this order:
//! 1. Keys: a file does not use the current encryption key. First, because that work is finite:
//!    every run takes at least one such file.
//! 2. Garbage: less than [`USEFUL_PERCENT`] of a file would survive. This bounds disk use to a
//!    factor of the live bytes.
//! 3. Growth: at least [`FANOUT`] neighbours that together are at least twice the largest of them.
//!    A byte is then rewritten only into a file at least twice as large as its own, which is a
//!    logarithmic number of times.
//! 4. Count: more files than allowed, whatever it costs; then the cheapest neighbours are merged.
//!
//! Pure arithmetic over sizes; the records of the capture count as a file at the end that costs
//! nothing to read.

use std::ops::Range;

use super::CheckpointConfig;

#[cfg(test)]
mod tests;

const USEFUL_PERCENT: u64 = 60;
const FANOUT: usize = 4;

/// What planning knows of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct FileStats {
    /// Bytes to read when it is rewritten.
    pub(super) size: u64,
    /// Bytes that would be left of it.
    pub(super) useful: u64,
    /// Whether it does not use the current key.
    pub(super) is_stale: bool,
    /// False for a file known to be damaged, which is not rewritten.
    pub(super) is_readable: bool,
}

/// Neighbouring files that stay one node of the next checkpoint.
#[derive(Debug, Clone)]
struct Node {
    files: Range<usize>,
    useful: u64,
    /// Bytes still to be read for it; 0 once it will be written anyway.
    cost: u64,
    is_readable: bool,
    is_written: bool,
}

struct Planner<'a> {
    config: &'a CheckpointConfig,
    nodes: Vec<Node>,
    /// No merge makes a larger file, so that no later run has to read one.
    file_max: u64,
    budget: u64,
    spent: u64,
}

/// The groups of files to be written, in order. The index after the last file stands for
/// `fresh_bytes` of new records, which are always in the last group.
pub(super) fn choose(config: &CheckpointConfig, files: &[FileStats], fresh_bytes: u64) -> Vec<Range<usize>> {
    let useful: u64 = files.iter().map(|file| file.useful).sum();
    let mut planner = Planner {
        config,
        nodes: Vec::new(),
        file_max: config.rewrite_bytes.max(useful / 8),
        // A quarter of the store per run, so that old and new copies together stay small beside it,
        // but enough to keep pace with the garbage that new records make.
        budget: config.rewrite_bytes.min(useful / 4).max(fresh_bytes * 3).max(config.rewrite_floor),
        spent: 0,
    };
    planner.place_nodes(files, fresh_bytes);
    planner.take_stale(files);
    planner.take_garbage(files);
    planner.join_written();
    while planner.grow() {}
    if planner.nodes.len() > config.max_files {
        // Well below the limit, so that the next run does not reach it again.
        while planner.nodes.len() > config.max_files * 3 / 4 && planner.merge_cheapest() {}
    }
    planner.nodes.into_iter().filter(|node| node.is_written).map(|node| node.files).collect()
}

/// Only the new records, no rewriting.
pub(super) fn fresh_only(files: usize) -> Vec<Range<usize>> {
    std::iter::once(files..files + 1).collect()
}

impl Planner<'_> {
    fn place_nodes(&mut self, files: &[FileStats], fresh_bytes: u64) {
        self.nodes.extend(files.iter().enumerate().map(|(index, file)| Node {
            files: index..index + 1,
            useful: file.useful.max(self.config.small_file),
            cost: file.size,
            is_readable: file.is_readable,
            is_written: false,
        }));
        self.nodes.push(Node {
            files: files.len()..files.len() + 1,
            useful: fresh_bytes.max(self.config.small_file),
            cost: 0,
            is_readable: true,
            is_written: true,
        });
    }

    /// Whether `cost` more may be read. The first step of a run always may, or a large file would
    /// never be rewritten.
    fn affords(&self, cost: u64) -> bool {
        self.spent == 0 || self.spent + cost <= self.budget
    }

    fn take_garbage(&mut self, files: &[FileStats]) {
        let is_garbage =
            |file: &FileStats| file.is_readable && file.useful * 100 < file.size * USEFUL_PERCENT;
        let mut worst: Vec<usize> = (0..files.len()).filter(|&index| is_garbage(&files[index])).collect();
        worst.sort_by_key(|&index| files[index].useful * 1000 / files[index].size.max(1));
        for index in worst {
            if !self.nodes[index].is_written && self.affords(files[index].size) {
                self.spent += files[index].size;
                self.nodes[index].cost = 0;
                self.nodes[index].is_written = true;
            }
        }
    }

    fn take_stale(&mut self, files: &[FileStats]) {
        for (index, file) in files.iter().enumerate() {
            if file.is_stale && file.is_readable && self.affords(file.size) {
                self.spent += file.size;
                self.nodes[index].cost = 0;
                self.nodes[index].is_written = true;
            }
        }
    }

    /// Joins neighbours that are written anyway into one file, if it is not too large.
    fn join_written(&mut self) {
        let mut at = 0;
        while at + 1 < self.nodes.len() {
            let (left, right) = (&self.nodes[at], &self.nodes[at + 1]);
            if left.is_written && right.is_written && left.useful + right.useful <= self.file_max {
                self.merge(at..at + 2);
            } else {
                at += 1;
            }
        }
    }

    /// Merges the longest run of neighbours for which it pays. False if there is none.
    fn grow(&mut self) -> bool {
        let mut best: Option<(usize, u64, Range<usize>)> = None;
        for from in 0..self.nodes.len() {
            let (mut sum, mut largest, mut cost) = (0, 0, 0);
            for (upto, node) in self.nodes.iter().enumerate().skip(from) {
                sum += node.useful;
                largest = node.useful.max(largest);
                cost += node.cost;
                if !node.is_readable || sum > self.file_max {
                    break;
                }
                let count = upto + 1 - from;
                let pays = count >= FANOUT && sum >= 2 * largest && self.affords(cost);
                let is_better = best
                    .as_ref()
                    .is_none_or(|(best_count, best_cost, _)| (*best_count, cost) < (count, *best_cost));
                if pays && is_better {
                    best = Some((count, cost, from..upto + 1));
                }
            }
        }
        let Some((_, _, nodes)) = best else { return false };
        self.merge(nodes);
        true
    }

    /// Merges the two neighbours that make the smallest file. False if there are none.
    fn merge_cheapest(&mut self) -> bool {
        let pairs = self.nodes.windows(2).enumerate();
        let pairs = pairs.filter(|(_, pair)| pair.iter().all(|node| node.is_readable));
        let cheapest = pairs.min_by_key(|(_, pair)| pair[0].cost + pair[1].cost).map(|(at, _)| at);
        let Some(at) = cheapest else { return false };
        self.merge(at..at + 2);
        true
    }

    fn merge(&mut self, range: Range<usize>) {
        let merged = &self.nodes[range.clone()];
        let node = Node {
            files: merged[0].files.start..merged[merged.len() - 1].files.end,
            useful: merged.iter().map(|node| node.useful).sum(),
            cost: 0,
            is_readable: true,
            is_written: true,
        };
        self.spent += merged.iter().map(|node| node.cost).sum::<u64>();
        self.nodes.splice(range, [node]);
    }
}
