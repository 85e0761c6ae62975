//! The surroundings that clients and the world share during one run.

use std::cell::{Cell, RefCell};

use crate::coverage::{Coverage, Rare};
use crate::knowledge::Knowledge;
use crate::plan::Plan;
use crate::recorder::Recorder;
use crate::time::Clock;
use crate::trace::{Trace, say};

/// What clients are to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Load,
    /// No more writes; watchers are to reach this revision, then end.
    Settle(i64),
}

pub(crate) struct Env {
    pub(crate) plan: Plan,
    pub(crate) clock: Clock,
    pub(crate) trace: Trace,
    pub(crate) coverage: Coverage,
    pub(crate) recorder: RefCell<Recorder>,
    pub(crate) knowledge: RefCell<Knowledge>,
    pub(crate) phase: Cell<Phase>,
    /// A checkpoint is being written right now; the disk is full right now.
    pub(crate) in_checkpoint: Cell<bool>,
    pub(crate) disk_full: Cell<bool>,
    /// There is space again, and nothing has been written since.
    pub(crate) space_again: Cell<bool>,
    violations: RefCell<Vec<String>>,
}

impl Env {
    pub(crate) fn new(plan: Plan, clock: Clock, trace: Trace, coverage: Coverage) -> Env {
        Env {
            plan,
            clock,
            trace,
            coverage,
            recorder: RefCell::default(),
            knowledge: RefCell::default(),
            phase: Cell::new(Phase::Load),
            in_checkpoint: Cell::new(false),
            disk_full: Cell::new(false),
            space_again: Cell::new(false),
            violations: RefCell::default(),
        }
    }

    pub(crate) fn now(&self) -> u64 {
        self.clock.now()
    }

    pub(crate) fn hit(&self, what: Rare) {
        self.coverage.hit(what);
    }

    /// Something that must never happen did.
    pub(crate) fn violation(&self, what: String) {
        say!(self.trace, "VIOLATION {what}");
        self.violations.borrow_mut().push(what);
    }

    pub(crate) fn violations(&self) -> Vec<String> {
        self.violations.borrow().clone()
    }

    pub(crate) fn is_sound(&self) -> bool {
        self.violations.borrow().is_empty()
    }
}
