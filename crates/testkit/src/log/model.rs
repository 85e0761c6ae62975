//! The model log: the reference for every engine, and the log of the simulation. It can be told to
//! fail as real engines have failed: hold two histories at once, and lose a tail that it had
//! acknowledged.
//!
//! Delays, lost answers and doubled requests are not here: they happen between a server and its log
//! (`sim`).

use bytes::Bytes;
use vetch_cluster::Page;
use vetch_journal::Position;

/// The outcome of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Stored(Position),
    Refused { last: Position },
    Full,
}

/// One history of a log.
#[derive(Clone, Debug, Default)]
pub struct ModelLog {
    /// How many positions have been trimmed, from the first on.
    trimmed: u64,
    records: Vec<Bytes>,
    /// Whether it refuses appends behind another position than the last.
    pub checks_position: bool,
    /// Records that fit, if there is a limit.
    pub capacity: Option<usize>,
}

impl ModelLog {
    pub fn new(checks_position: bool) -> ModelLog {
        ModelLog { checks_position, ..ModelLog::default() }
    }

    pub fn last(&self) -> Position {
        Position(self.trimmed + self.records.len() as u64)
    }

    /// How many records it holds.
    pub fn held(&self) -> usize {
        self.records.len()
    }

    pub fn first(&self) -> Position {
        Position(self.trimmed + 1)
    }

    pub fn append(&mut self, after: Position, record: Bytes) -> Outcome {
        let last = self.last();
        if self.checks_position && after != last {
            return Outcome::Refused { last };
        }
        if self.capacity.is_some_and(|capacity| self.records.len() >= capacity) {
            return Outcome::Full;
        }
        self.records.push(record);
        Outcome::Stored(self.last())
    }

    /// At most `limit` records behind `after`, of a reader to whom the last `unseen` ones are not
    /// known yet.
    pub fn read(&self, after: Position, limit: usize, unseen: u64) -> Page {
        let end = Position(self.last().0.saturating_sub(unseen).max(self.trimmed));
        let from = after.0.max(self.trimmed);
        let upto = end.0.min(from + limit as u64);
        let record = |at: u64| (Position(at), self.records[(at - self.trimmed - 1) as usize].clone());
        let records = (from + 1..=upto).map(record).collect();
        Page { records, first: self.first(), end: (upto == end.0 || end.0 < from).then_some(end) }
    }

    /// Deletes the records below `floor`.
    pub fn trim(&mut self, floor: Position) {
        let gone = floor.0.saturating_sub(self.trimmed + 1).min(self.records.len() as u64);
        self.records.drain(..gone as usize);
        self.trimmed += gone;
    }

    /// A breach of contract: the last records are gone, acknowledged or not.
    pub fn lose(&mut self, count: usize) {
        self.records.truncate(self.records.len().saturating_sub(count));
    }
}
