//! A simulated server: a member, the little that survives its crashes, and what its clients wait
//! for.

use std::collections::BTreeMap;
use std::time::Duration;

use vetch_fence::{Author, Index, Member, ReadId, Ticket};
use vetch_journal::{Hash, Position, Tip};

pub(super) struct Server {
    pub(super) node: u64,
    pub(super) life: u64,
    /// Nothing while it is down.
    pub(super) member: Option<Member>,
    /// Which history of the log it is connected to.
    pub(super) branch: usize,
    /// Counts connections to the log: what the log answers over one is lost with it.
    pub(super) connection: u64,
    pub(super) paused_until: Duration,
    /// How fast its clock runs, in percent.
    pub(super) pace: u32,
    /// On its disk.
    pub(super) checkpoint: Index,
    /// Hashes of the entries of each proposal that is not decided.
    pub(super) proposals: BTreeMap<Ticket, Vec<(u64, Hash)>>,
    /// Reads of clients here that have an index and wait until this server has come to it.
    pub(super) indexed: BTreeMap<ReadId, Index>,
    /// The entries it holds, by number; kept only on a log that breaks its contract, on others they
    /// are the oracle's.
    pub(super) history: Vec<Hash>,
    /// Why it stopped for good.
    pub(super) halted: Option<String>,
}

impl Server {
    pub(super) fn new(node: u64, start: Tip, pace: u32) -> Server {
        Server {
            node,
            life: 0,
            member: None,
            branch: 0,
            connection: 0,
            paused_until: Duration::ZERO,
            pace,
            checkpoint: Index { position: Position(0), tip: start },
            proposals: BTreeMap::new(),
            indexed: BTreeMap::new(),
            history: Vec::new(),
            halted: None,
        }
    }

    /// What its clock shows.
    pub(super) fn time(&self, now: Duration) -> Duration {
        now * self.pace / 100
    }

    pub(super) fn author(&self) -> Author {
        let forgets = vetch_seeded_bugs::on(vetch_seeded_bugs::Bug::LifeForgotten);
        Author { node: self.node, life: if forgets { 1 } else { self.life } }
    }

    /// Loses everything but its checkpoint.
    pub(super) fn crash(&mut self) {
        self.member = None;
        self.life += 1;
        self.proposals.clear();
        self.indexed.clear();
    }

    pub(super) fn is_leading(&self) -> bool {
        self.member.as_ref().is_some_and(Member::is_leading)
    }
}
