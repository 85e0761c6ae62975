//! A simulated member: its core, its disk, and what its clients wait for.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use vetch_cluster::{LogIndex, ReadId, Ticket};
use vetch_journal::{Hash, Tip};
use vetch_raft::{Config, Core, Persist, Start};

use super::disk::ModelDisk;

pub(super) struct Member {
    pub(super) id: u64,
    pub(super) incarnation: u64,
    /// `None` while the member is down.
    pub(super) core: Option<Core>,
    pub(super) disk: ModelDisk,
    /// Writes under way, and when the disk has done the last of them.
    pub(super) writing: VecDeque<Persist>,
    pub(super) busy_until: Duration,
    pub(super) paused_until: Duration,
    /// How fast its clock runs, in percent.
    pub(super) pace: u32,
    /// The tip after the last entry that it reported.
    pub(super) applied: Tip,
    /// The tips of each proposal that is not decided.
    pub(super) proposals: BTreeMap<Ticket, Vec<Tip>>,
    /// Those of them that change members, by their hash.
    pub(super) changes: BTreeSet<Hash>,
    /// Reads of clients here that wait until this member has reached their index.
    pub(super) indexed: BTreeMap<ReadId, LogIndex>,
}

impl Member {
    pub(super) fn new(id: u64, disk: ModelDisk, pace: u32) -> Member {
        let applied = disk.content().checkpoint.tip;
        Member {
            id,
            incarnation: 0,
            core: None,
            disk,
            writing: VecDeque::new(),
            busy_until: Duration::ZERO,
            paused_until: Duration::ZERO,
            pace,
            applied,
            proposals: BTreeMap::new(),
            changes: BTreeSet::new(),
            indexed: BTreeMap::new(),
        }
    }

    /// The time of its clock.
    pub(super) fn time(&self, now: Duration) -> Duration {
        now * self.pace / 100
    }

    /// When its clock shows this time, or a moment later.
    pub(super) fn real(&self, time: Duration) -> Duration {
        time * 100 / self.pace + Duration::from_nanos(1000)
    }

    /// Begins with what is on its disk.
    pub(super) fn start(&mut self, config: Config, seed: u64, now: Duration) {
        let content = self.disk.content();
        let start = Start {
            me: self.id,
            seed,
            vote: content.vote,
            checkpoint: content.checkpoint.clone(),
            tail: content.tail(),
            source: Box::new(self.disk.clone()),
        };
        self.applied = content.checkpoint.tip;
        drop(content);
        self.incarnation += 1;
        self.core = Some(Core::new(config, start, self.time(now)));
    }

    /// Ends without warning. What it had in memory is gone; the disk is the caller's.
    pub(super) fn end(&mut self) {
        self.core = None;
        self.incarnation += 1;
        self.proposals.clear();
        self.indexed.clear();
        self.writing.clear();
        self.busy_until = Duration::ZERO;
    }

    pub(super) fn is_leader(&self) -> bool {
        self.core.as_ref().is_some_and(Core::is_leader)
    }

    /// Whether it takes part now.
    pub(super) fn is_awake(&self, now: Duration) -> bool {
        self.core.is_some() && self.paused_until <= now
    }
}
