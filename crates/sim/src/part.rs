//! A part of a node, as the world schedules it: on the root if it never touches the disk, else on a
//! fiber.

use vetch_node::stepped::Step;

use crate::fiber::{Fiber, Note};

/// Which part, and its index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    Sequencer,
    Journal,
    Housekeeping,
    FanOut,
    LeaseThread,
}

impl Which {
    pub(crate) const ALL: [Which; 5] =
        [Which::Sequencer, Which::Journal, Which::Housekeeping, Which::FanOut, Which::LeaseThread];
}

enum Runner {
    Root(Box<dyn FnMut() -> Step>),
    Fiber(Fiber<Step>),
    /// It ended and was dropped, as the others must be able to see.
    Ended,
}

pub(crate) struct Part {
    runner: Runner,
    /// In the middle of a turn, waiting for the disk until then.
    pub(crate) waits_until: Option<u64>,
    /// There may be something to do.
    pub(crate) poked: bool,
    /// It is looked at again by then, poked or not.
    pub(crate) next_look: u64,
    /// It gets no time before.
    pub(crate) paused_until: u64,
}

/// What a part did when it was run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Did {
    Step(Step),
    /// It waits for the disk.
    Waits,
    /// It panicked.
    Lost,
}

impl Part {
    pub(crate) fn on_root(step: impl FnMut() -> Step + 'static) -> Part {
        Part::with(Runner::Root(Box::new(step)))
    }

    pub(crate) fn on_fiber(name: &str, step: impl FnMut() -> Step + Send + 'static) -> Part {
        Part::with(Runner::Fiber(Fiber::new(name, step)))
    }

    fn with(runner: Runner) -> Part {
        Part { runner, waits_until: None, poked: true, next_look: 0, paused_until: 0 }
    }

    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.runner, Runner::Ended)
    }

    /// When it can next run, unless another part wakes it earlier.
    pub(crate) fn due(&self) -> Option<u64> {
        if self.has_ended() {
            return None;
        }
        let due = self.waits_until.unwrap_or(if self.poked { 0 } else { self.next_look });
        Some(due.max(self.paused_until))
    }

    pub(crate) fn run(&mut self, now: u64) -> Did {
        let step = match &mut self.runner {
            Runner::Ended => Step::Ended,
            Runner::Root(step) => step(),
            Runner::Fiber(fiber) => match fiber.resume() {
                Note::Waits { nanos } => {
                    self.waits_until = Some(now + nanos);
                    return Did::Waits;
                }
                Note::Turn(step) => step,
                Note::Lost => return Did::Lost,
            },
        };
        self.waits_until = None;
        if step == Step::Ended {
            self.runner = Runner::Ended;
        }
        Did::Step(step)
    }

    /// Lets it come to the end of its turn, on a disk that refuses everything. False if it never
    /// does.
    pub(crate) fn finish(&mut self) -> bool {
        for _ in 0..10_000 {
            if self.waits_until.is_none() {
                self.runner = Runner::Ended;
                return true;
            }
            if self.run(0) == Did::Lost {
                return false;
            }
        }
        false
    }
}
