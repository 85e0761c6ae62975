//! Members: which servers make up a cluster, where they are, and which part of the log each needs.
//!
//! All of it is published by the leader in entries without effects, so every server that reads the
//! log knows it.
//!
//! * `list`: the members, and who is admitted. `registry`: keeps that list for the journal thread
//!   of a node.
//! * `peer_table`: where servers are, how far each has a checkpoint, and how much of the log may be
//!   trimmed therefore.
//! * `announcement`: the entry in which the leader publishes its address and the peer table.
//!
//! No threads and no clock: the caller gives the time. `registry` writes one file.

pub mod announcement;
mod list;
mod peer_table;
mod registry;

use vetch_base::Seq;
use vetch_journal::{Hash, Tip};

pub use list::{Member, MemberList, Registration};
pub use peer_table::{Peer, PeerTable, Report};
pub use registry::{MemberCommand, MemberRegistry, Refused};

/// A leader and its address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leader {
    pub member: u64,
    pub url: String,
}

/// Proves that a server reads the log: an announcement in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proof {
    pub seq: Seq,
    pub hash: Hash,
}

impl From<&Tip> for Proof {
    /// `tip` is that of the announcement.
    fn from(tip: &Tip) -> Proof {
        Proof { seq: tip.seq, hash: tip.hash }
    }
}
