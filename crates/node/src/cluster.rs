//! Cluster: a node that shares its journal with other servers, as the rest of the node and its
//! callers see it.
//!
//! One server writes, the others apply what it wrote and stand by. What is asked before a read is
//! answered or a renewal is promised is in `read_index`.
//!
//! Servers talk to each other over the ports of clients. They know each other by a `Proof`: the
//! hash of an announcement in the journal, which only who can read the journal knows. Whoever can
//! has everything already.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};
use std::time::Duration;

use crossbeam_channel::{Sender, TrySendError};
use tokio::sync::{oneshot, watch};
use vetch_cluster::{LogIndex, Record};
use vetch_journal::{Draft, Entry, Hash, Kind, PartId, Payload, Tip};

pub use crate::batch_window::READ_BATCH_WINDOW;
use crate::error::NodeError;
use crate::handle::Node;
use crate::members::{Introduced, Member};
use crate::read_index::Reads;
pub use crate::read_index::{Question, Questions};
use crate::roster;
use crate::runtime::membership::Order;
use crate::state::NodeState;
use crate::sync::Mutex;

pub use crate::roster::{Peer, Report};

/// Announcements that are remembered as proofs: about a minute of them.
const PROOFS: usize = 64;

/// What a node on a shared journal is told at start.
#[derive(Debug, Clone)]
pub struct ClusterConfig {
    pub name: String,
    /// Where clients, and servers that pass requests on, reach this one.
    pub client_urls: Vec<String>,
    /// What members are told apart by in etcd; only shown here.
    pub peer_urls: Vec<String>,
    pub replication: vetch_cluster::Config,
}

/// Who writes, and how far this server has come.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClusterStatus {
    pub epoch: u64,
    /// Number of the last entry applied.
    pub index: u64,
    /// Whether this server is the writer.
    pub is_writer: bool,
    /// The writer, once it has said where it is.
    pub writer: Option<Writer>,
    /// Whether the journal has been read to its end since the start.
    pub caught_up: bool,
    /// The journal seems to have lost what was read from it.
    pub suspect: bool,
    /// Nothing was heard of the journal for a while, so nobody is known to write.
    pub silent: bool,
    /// This server is about to hand over to another one.
    pub handing_over: bool,
    /// What shows to a server of this cluster that another one is, too; 0 if it is not known yet.
    pub key: u64,
    /// The servers of this cluster, as far as the journal has been read.
    pub members: Arc<Vec<Member>>,
}

/// A server that writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Writer {
    pub member: u64,
    pub url: String,
}

pub(crate) struct Cluster {
    pub(crate) reads: Reads,
    pub(crate) status: watch::Sender<ClusterStatus>,
    /// What other servers tell this one while it writes.
    pub(crate) reports: Sender<Report>,
    pub(crate) board: Mutex<Board>,
    /// Where other servers reach this one.
    pub(crate) url: String,
    /// Bytes of effects that one request may have, so that they fit a record together with a batch;
    /// values that are written again without having been sent may be as many more.
    pub(crate) largest_request: usize,
    /// Number of the last record of the journal that was read.
    pub(crate) position: AtomicU64,
    /// The journal seems to have lost what this server holds: its state has to be on disk.
    pub(crate) alone: AtomicBool,
    /// The revision of the newest checkpoint.
    pub(crate) saved: AtomicI64,
    /// For the journal's thread.
    pub(crate) orders: Sender<Order>,
    pub(crate) me: Member,
}

/// What the parts of a node tell each other about the cluster.
#[derive(Default)]
pub(crate) struct Board {
    /// What this server needs the journal from, now that it has a checkpoint there.
    pub(crate) vote: Option<LogIndex>,
    pub(crate) peers: Vec<Peer>,
    proofs: VecDeque<Proof>,
}

impl Board {
    pub(crate) fn remember(&mut self, tip: &Tip) {
        self.proofs.truncate(PROOFS - 1);
        self.proofs.push_front(Proof { seq: tip.seq, hash: tip.hash });
    }
}

/// Shows that somebody can read the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proof {
    pub seq: u64,
    pub hash: Hash,
}

impl Node {
    /// What this server has to tell the writer, and the proof that it may. None until an
    /// announcement was read, and on a journal of one's own.
    pub fn report(&self) -> Option<(Proof, Report)> {
        let cluster = self.state().cluster.as_ref()?;
        let board = cluster.board.lock();
        let proof = *board.proofs.front()?;
        Some((proof, self.state().report_of(cluster, board.vote)))
    }

    /// What shows to other servers that this one reads the journal: the newest announcement it
    /// knows.
    pub fn proof(&self) -> Option<Proof> {
        self.state().cluster.as_ref()?.board.lock().proofs.front().copied()
    }

    /// Takes what another server tells. False if this server does not know the proof.
    pub fn take_report(&self, proof: &Proof, report: Report) -> bool {
        let Some(cluster) = self.state().cluster.as_ref().filter(|_| self.is_known(proof)) else {
            return false;
        };
        // One that finds no room is told again soon.
        let _ = cluster.reports.try_send(report);
        true
    }

    /// Whether somebody who shows this can read the journal.
    pub fn is_known(&self, proof: &Proof) -> bool {
        let cluster = self.state().cluster.as_ref();
        cluster.is_some_and(|cluster| cluster.board.lock().proofs.contains(proof))
    }

    /// The servers on the same journal, this one among them, as the writer told last.
    pub fn peers(&self) -> Vec<Peer> {
        self.state().cluster.as_ref().map(|cluster| cluster.board.lock().peers.clone()).unwrap_or_default()
    }
}

impl NodeState {
    pub(crate) fn report_of(&self, cluster: &Cluster, vote: Option<LogIndex>) -> Report {
        let keep = self.retention.pinned_position();
        Report { member: self.identity.member_id, url: cluster.url.clone(), vote, keep }
    }
}

impl Cluster {
    /// Asks the journal's thread of the writer; whoever is not, does not answer.
    pub(crate) async fn order<T>(
        &self,
        patience: Duration,
        order: impl FnOnce(oneshot::Sender<T>) -> Order,
    ) -> Result<T, NodeError> {
        let (reply, answer) = oneshot::channel();
        match self.orders.try_send(order(reply)) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => return Err(NodeError::TooManyRequests),
            Err(TrySendError::Disconnected(_)) => return Err(NodeError::Stopped),
        }
        match tokio::time::timeout(patience, answer).await {
            Ok(answer) => answer.map_err(|_| NodeError::NotLeader),
            Err(_) => Err(NodeError::Timeout),
        }
    }
}

/// Members.
impl Node {
    /// This server as a member of its cluster; None on a journal of one's own.
    pub fn as_member(&self) -> Option<Member> {
        self.state().cluster.as_ref().map(|cluster| cluster.me.clone())
    }

    /// The servers of the cluster, as far as this one knows; with `newest`, as everybody knew when
    /// this was asked.
    pub async fn members(&self, newest: bool) -> Result<Arc<Vec<Member>>, NodeError> {
        let Some(cluster) = &self.state().cluster else { return Ok(Arc::default()) };
        if newest {
            self.state().confirm().await?;
        }
        Ok(Arc::clone(&cluster.status.borrow().members))
    }

    /// Lets a server in that has been asking for some time. Only the writer does.
    pub async fn introduce(&self, member: Member, asking: Duration) -> Result<Introduced, NodeError> {
        let node = self.state();
        let Some(cluster) = &node.cluster else { return Err(NodeError::NotLeader) };
        let patience = node.config.request_timeout;
        cluster.order(patience, |reply| Order::Introduce { member, asking, reply }).await
    }

    /// Removes a server for good; it stops if it is alive. False if there is none of this number.
    /// Only the writer does.
    pub async fn remove_member(&self, id: u64) -> Result<bool, NodeError> {
        let node = self.state();
        let Some(cluster) = &node.cluster else { return Err(NodeError::NotLeader) };
        cluster.order(node.config.request_timeout, |reply| Order::Remove { id, reply }).await
    }

    /// Ends the node because it may not be part of the cluster.
    pub fn leave(&self, why: &str) {
        self.state().fail(format!("this server is not let into the cluster: {why}"));
    }
}

/// An entry without effect in which the writer says where it is, and which servers there are.
pub(crate) fn announcement(writer: &Writer, peers: &[Peer]) -> Draft {
    let mut draft = Draft::new(Kind::Barrier);
    draft.begin_part(PartId::default());
    draft.payload().extend_from_slice(&writer.member.to_le_bytes());
    draft.payload().extend_from_slice(writer.url.as_bytes());
    draft.end_part(0);
    draft.begin_part(PartId::default());
    roster::encode(peers, draft.payload());
    draft.end_part(0);
    draft
}

/// The servers that an announcement tells of.
pub(crate) fn announced_peers(entry: &Entry) -> Option<Vec<Peer>> {
    let Payload::Inline(payload) = &entry.parts.get(1)?.payload else { return None };
    roster::decode(payload)
}

/// What a record of the journal tells who cannot read all of it: the servers there are, and the
/// proof of having seen it.
pub fn glimpse(record: &bytes::Bytes) -> Option<(Proof, Vec<Peer>)> {
    let record = Record::decode(record).ok()?;
    let mut entries = record.entries().iter().rev();
    entries.find_map(|(entry, hash)| {
        let Writer { member, url } = announced(entry)?;
        let mut peers = announced_peers(entry)?;
        // Who writes is the last to be bothered.
        peers.retain(|peer| peer.member != member);
        peers.push(Peer { member, url, vote: None });
        Some((Proof { seq: entry.seq, hash: *hash }, peers))
    })
}

/// What an entry announces, if it is an announcement.
pub(crate) fn announced(entry: &Entry) -> Option<Writer> {
    let Payload::Inline(payload) = &entry.parts.first()?.payload else { return None };
    if entry.kind != Kind::Barrier {
        return None;
    }
    let (member, url) = payload.split_first_chunk()?;
    // Entries without effect tell of other things, too.
    let url = String::from_utf8(url.to_vec()).ok().filter(|url| url.starts_with("http"))?;
    Some(Writer { member: u64::from_le_bytes(*member), url })
}

#[cfg(test)]
mod tests {
    use super::*;
    use vetch_journal::Tip;

    #[test]
    fn an_announcement_is_read_as_it_was_made() {
        let writer = Writer { member: 7, url: "http://10.0.0.1:2379".into() };
        let mut tip = Tip { epoch: 3, seq: 9, hash: [1; 32], next_rev: 5 };
        let peers = vec![
            Peer { member: 7, url: "http://10.0.0.1:2379".into(), vote: None },
            Peer { member: 8, url: "b".into(), vote: None },
        ];
        let chained = announcement(&writer, &peers).chain(&mut tip);
        let entry = Entry::decode(chained.bytes()).unwrap();
        assert_eq!(announced(&entry), Some(writer));
        assert_eq!(announced_peers(&entry), Some(peers));
        let (proof, seen) = glimpse(chained.bytes()).unwrap();
        assert_eq!((proof.seq, proof.hash), (tip.seq, tip.hash));
        assert_eq!(seen.iter().map(|peer| peer.member).collect::<Vec<_>>(), [8, 7]);
        assert_eq!(tip.next_rev, 5, "it takes no revision");
        let plain = Draft::new(Kind::Barrier).chain(&mut tip);
        assert_eq!(announced(&Entry::decode(plain.bytes()).unwrap()), None);
    }
}
