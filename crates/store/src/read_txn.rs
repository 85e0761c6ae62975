//! Transactions that only read: at one visible revision, in steps.
//!
//! The compares come first. Like a range, each goes on by key, so writers may be let in between two
//! steps. What a chosen branch reads is left to be run in steps by the caller.

use bytes::Bytes;

use crate::compare::{Found, branch, check_revision, holds_for_one};
use crate::error::StoreError;
use crate::exclusive::scan_part;
use crate::limits::AnswerBytes;
use crate::range::{RangeRun, resolve_revision};
use crate::request::*;
use crate::state::{Mark, Store};
use crate::validated::Validated;
use crate::work::Work;

/// A transaction that only reads, with its branch chosen.
pub struct ReadTxn {
    pub revision: i64,
    pub succeeded: bool,
    pub ranges: Vec<RangeRun>,
    /// What all of them may answer.
    pub allowance: AnswerBytes,
}

/// A transaction that only reads, whose branch is being chosen.
pub struct ReadTxnRun<'r> {
    request: &'r TxnRequest,
    mark: Mark,
    work: Work<'r>,
    /// Compares that hold.
    held: usize,
    /// Of the next one: what was found so far, and where to go on.
    found: Found,
    resume: Option<Bytes>,
}

impl<'r> ReadTxnRun<'r> {
    /// Begins at what is visible now.
    pub fn new(request: &'r Validated<TxnRequest>, store: &Store) -> ReadTxnRun<'r> {
        assert!(request.is_read_only(), "only reads are answered beside the sequencer");
        let work = Work::of(store);
        ReadTxnRun { request, mark: store.visible, work, held: 0, found: Found::default(), resume: None }
    }

    /// Whether versions of its revision may have been freed since it began: start again.
    pub fn is_overtaken(&self, store: &Store) -> bool {
        self.mark.revision < store.freed_to
    }

    /// The oldest revision that it may read.
    pub fn reads_from(&self) -> i64 {
        let ops = self.request.success.iter().chain(&self.request.failure);
        let revisions = ops.filter_map(|op| match op {
            RequestOp::Range(range) => resolve_revision(range.revision, self.mark).ok(),
            _ => None,
        });
        revisions.fold(self.mark.revision, i64::min)
    }

    /// Examines up to `budget` keys. None if that was not enough to choose a branch. Not for a run
    /// that was overtaken.
    pub fn step(&mut self, store: &Store, budget: usize) -> Result<Option<ReadTxn>, StoreError> {
        assert!(!self.is_overtaken(store), "the caller starts again");
        let mut left = budget.max(1);
        while let Some(compare) = self.request.compare.get(self.held) {
            if left == 0 {
                return Ok(None);
            }
            match self.decide(store, compare, &mut left)? {
                Some(true) => self.held += 1,
                Some(false) => return self.choose(store, false).map(Some),
                None => return Ok(None),
            }
        }
        self.choose(store, true).map(Some)
    }

    /// Whether the next compare holds; None if there are more keys in its range.
    fn decide(
        &mut self,
        store: &Store,
        compare: &Compare,
        left: &mut usize,
    ) -> Result<Option<bool>, StoreError> {
        let (at, range) = (self.mark.revision, &compare.range);
        if range.is_single() {
            *left -= 1;
            return holds_for_one(store, compare, at, &mut self.work).map(Some);
        }
        let from = self.resume.take();
        let (found, work) = (&mut self.found, &mut self.work);
        let mut look = |store: &Store, slot| found.look_at(store, compare, slot, at, work);
        let from = from.as_ref().unwrap_or(&range.key);
        let (seen, resume) = scan_part(store, range, from, *left, &mut look)?;
        *left -= seen;
        self.resume = resume;
        if self.resume.is_some() {
            return Ok(None);
        }
        Ok(Some(std::mem::take(&mut self.found).holds(compare)))
    }

    fn choose(&mut self, store: &Store, succeeded: bool) -> Result<ReadTxn, StoreError> {
        let ops = branch(self.request, succeeded);
        let ranges = ops.iter().map(|op| match op {
            RequestOp::Range(range) => {
                let at = check_revision(range.revision, self.mark)?;
                // A single range costs what it would cost alone. Others are counted as they are
                // read, but how many keys a range had in the past is found in one go.
                if ops.len() > 1 {
                    self.work.count(store, range, at)?;
                }
                Ok(RangeRun::at(range.clone(), self.mark.revision, at))
            }
            _ => unreachable!("a read-only branch holds ranges only"),
        });
        let ranges = ranges.collect::<Result<Vec<_>, StoreError>>()?;
        let allowance = store.answer_allowance(ranges.len());
        Ok(ReadTxn { revision: self.mark.revision, succeeded, ranges, allowance })
    }
}

impl Store {
    /// A transaction that only reads, at what is visible, in one go.
    pub fn read_txn(&self, request: &Validated<TxnRequest>) -> Result<TxnResponse, StoreError> {
        let mut run = ReadTxnRun::new(request, self);
        let txn = loop {
            if let Some(txn) = run.step(self, usize::MAX)? {
                break txn;
            }
        };
        let ReadTxn { revision, succeeded, ranges, mut allowance } = txn;
        let mut responses = Vec::with_capacity(ranges.len());
        for run in ranges {
            responses.push(ResponseOp::Range(run.complete(self, &mut allowance)?));
        }
        Ok(TxnResponse { revision, succeeded, responses })
    }
}
