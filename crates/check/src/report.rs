//! Report: how much was judged, so that a run in which nothing happened can be refused.

use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Report {
    pub operations: usize,
    pub outcomes: Outcomes,
    /// The newest revision that was seen.
    pub revisions: i64,
    /// Revisions made by requests whose outcome was unknown.
    pub unknown_done: usize,
    /// Revisions made by leases that ran out.
    pub expiries: usize,
    /// Reads and other requests without effect that were compared with the specification.
    pub reads: usize,
    pub compactions: usize,
    pub leases: usize,
    pub watches: usize,
    pub events: usize,
    pub progress: usize,
    /// Watches that compaction ended.
    pub compacted_watches: usize,
    pub hashes: usize,
    /// Answers about the keys of leases.
    pub leased: usize,
    /// Lists of leases, alarms and members, and status.
    pub listed: usize,
    /// Requests of users, and those of them that were not permitted.
    pub accesses: usize,
    pub refused_accesses: usize,
    /// Whether the history says that it is complete, and is.
    pub finished: bool,
}

/// Operations by what became of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outcomes {
    pub answered: usize,
    pub refused: usize,
    pub not_done: usize,
    pub unknown: usize,
}

impl fmt::Display for Outcomes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Outcomes { answered, refused, not_done, unknown } = self;
        write!(f, "answered {answered}, refused {refused}, not done {not_done}, unknown {unknown}")
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "operations {} ({})", self.operations, self.outcomes)?;
        writeln!(
            f,
            "revisions {} (by unknown outcomes {}, by expiry {}), reads {}, compactions {}, leases {}",
            self.revisions, self.unknown_done, self.expiries, self.reads, self.compactions, self.leases
        )?;
        writeln!(
            f,
            "watches {} (ended by compaction {}), events {}, progress {}",
            self.watches, self.compacted_watches, self.events, self.progress
        )?;
        write!(
            f,
            "hashes {}, keys of leases {}, lists {}, by users {} (not permitted {}), final state {}",
            self.hashes,
            self.leased,
            self.listed,
            self.accesses,
            self.refused_accesses,
            if self.finished { "judged" } else { "not recorded" }
        )
    }
}
