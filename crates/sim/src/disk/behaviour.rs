//! How a disk behaves: how long its operations take, and which faults are armed.

use std::path::Path;

use vetch_journal::Op;

use crate::time::{MICRO, MILLI, SECOND};
use vetch_testkit::random::Rng;

/// Chances, in percent, and times.
#[derive(Debug, Clone)]
pub struct Behaviour {
    /// An operation takes time at all.
    pub pause: u64,
    /// Control is given back after an operation, and after a sync.
    pub pause_after: u64,
    pub pause_after_sync: u64,
    pub read_pause: u64,
    /// A write of several sectors happens in two pieces.
    pub split: u64,
    /// Longest time of a sync and of everything else.
    pub sync_nanos: u64,
    pub other_nanos: u64,
    /// An operation takes seconds.
    pub stall: u64,
}

impl Default for Behaviour {
    /// A quick disk that never gives control back.
    fn default() -> Behaviour {
        Behaviour {
            pause: 0,
            pause_after: 0,
            pause_after_sync: 0,
            read_pause: 0,
            split: 0,
            sync_nanos: MILLI,
            other_nanos: 100 * MICRO,
            stall: 0,
        }
    }
}

impl Behaviour {
    /// A disk that works, at a pace of its own.
    pub fn usual(rng: &mut Rng) -> Behaviour {
        Behaviour {
            pause: *rng.pick(&[20, 50, 90]),
            pause_after: *rng.pick(&[0, 5, 20]),
            pause_after_sync: *rng.pick(&[10, 40]),
            read_pause: *rng.pick(&[0, 5, 30]),
            split: *rng.pick(&[0, 20, 60]),
            sync_nanos: *rng.pick(&[200 * MICRO, 2 * MILLI, 20 * MILLI]),
            other_nanos: *rng.pick(&[20 * MICRO, 200 * MICRO, 2 * MILLI]),
            stall: 0,
        }
    }

    pub(super) fn latency(&self, rng: &mut Rng, op: Op) -> Option<u64> {
        if rng.percent(self.stall) {
            return Some(rng.between(SECOND, 6 * SECOND));
        }
        if op != Op::SyncData && !rng.percent(self.pause) {
            return None;
        }
        let most = if op == Op::SyncData { self.sync_nanos } else { self.other_nanos };
        Some(rng.between(MICRO, most))
    }
}

/// Which operations a blow is meant for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    Any,
    /// Anything of the journal, or of checkpoints.
    Journal,
    Checkpoint,
    /// Writes and syncs of the journal's files.
    Append,
    /// Syncs of the journal's files only.
    JournalSync,
    /// Reads of checkpoint files.
    Read,
}

/// What happens to the operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blow {
    PowerLoss,
    /// The process is killed right before the operation.
    Kill,
    Error,
}

#[derive(Debug, Clone)]
pub struct Armed {
    pub target: Target,
    /// How many of the operations it is meant for are spared first.
    pub spares: u64,
    pub blow: Blow,
}

impl Armed {
    /// Whether it falls on a read; counts the read otherwise.
    pub(super) fn falls_on_read(&mut self, path: &Path) -> bool {
        let meant =
            self.target == Target::Read && path.components().any(|part| part.as_os_str() == "checkpoint");
        let falls = meant && self.spares == 0;
        self.spares = self.spares.saturating_sub(u64::from(meant));
        falls
    }

    /// Whether it falls now; counts the operation otherwise.
    pub(super) fn falls_on(&mut self, op: Op, path: &Path) -> bool {
        let below = |name: &str| path.components().any(|part| part.as_os_str() == name);
        let meant = match self.target {
            Target::Any => true,
            Target::Read => false,
            Target::Journal => below("journal"),
            Target::Checkpoint => below("checkpoint"),
            Target::Append => below("journal") && matches!(op, Op::Write | Op::SyncData),
            Target::JournalSync => below("journal") && op == Op::SyncData,
        };
        if !meant {
            return false;
        }
        let falls = self.spares == 0;
        self.spares = self.spares.saturating_sub(1);
        falls
    }
}
