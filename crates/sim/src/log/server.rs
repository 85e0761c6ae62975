//! A simulated server: a replica, its checkpoint on disk, and what its clients wait for.

use std::collections::BTreeMap;
use std::time::Duration;

use vetch_base::Seq;
use vetch_cluster::{LogIndex, ReadId, Replica, ReplicaId, Ticket};
use vetch_journal::{Hash, Position, Tip};

pub(super) struct Server {
    pub(super) member: u64,
    pub(super) incarnation: u64,
    /// `None` while the server is down.
    pub(super) replica: Option<Replica>,
    /// The history of the log that it is connected to.
    pub(super) branch: usize,
    /// Counts connections to the log: answers over an earlier one are lost.
    pub(super) connection: u64,
    pub(super) paused_until: Duration,
    /// How fast its clock runs, in percent.
    pub(super) pace: u32,
    /// The checkpoint on its disk.
    pub(super) checkpoint: LogIndex,
    /// Hashes of the entries of each proposal in flight.
    pub(super) proposals: BTreeMap<Ticket, Vec<(Seq, Hash)>>,
    /// Reads of clients here that wait until this server has reached their index.
    pub(super) indexed: BTreeMap<ReadId, LogIndex>,
    /// The entries it holds, by sequence number. Kept only on a log that breaks its contract; on
    /// others they are the oracle's.
    pub(super) history: Vec<Hash>,
    /// Why it halted.
    pub(super) halted: Option<String>,
}

impl Server {
    pub(super) fn new(member: u64, start: Tip, pace: u32) -> Server {
        Server {
            member,
            incarnation: 0,
            replica: None,
            branch: 0,
            connection: 0,
            paused_until: Duration::ZERO,
            pace,
            checkpoint: LogIndex { position: Position(0), tip: start },
            proposals: BTreeMap::new(),
            indexed: BTreeMap::new(),
            history: Vec::new(),
            halted: None,
        }
    }

    /// The time of its clock.
    pub(super) fn time(&self, now: Duration) -> Duration {
        now * self.pace / 100
    }

    pub(super) fn replica_id(&self) -> ReplicaId {
        let forgets = vetch_seeded_bugs::on(vetch_seeded_bugs::Bug::LifeForgotten);
        ReplicaId { member: self.member, incarnation: if forgets { 1 } else { self.incarnation } }
    }

    /// Loses everything but its checkpoint.
    pub(super) fn crash(&mut self) {
        self.replica = None;
        self.incarnation += 1;
        self.proposals.clear();
        self.indexed.clear();
    }

    pub(super) fn is_leader(&self) -> bool {
        self.replica.as_ref().is_some_and(Replica::is_leader)
    }
}
