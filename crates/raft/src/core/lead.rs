//! Lead: what a leader is asked to do.

use std::time::Duration;

use raft::eraftpb::{Message as Pb, MessageType};
use vetch_cluster::{Refusal, Ticket};
use vetch_journal::{ChainedEntry, Kind};
use vetch_seeded_bugs::Bug;

use super::Core;
use crate::entry::LogEntry;
use crate::members::{Action, MemberChange, MembersError, conf_change, members_draft};
use crate::store::to_raft;

/// Why members are not changed now. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeRefusal {
    #[error(transparent)]
    Refused(#[from] Refusal),
    #[error(transparent)]
    Members(#[from] MembersError),
    #[error("the change before this one is not done")]
    Pending,
    #[error("a leader removes itself only after a leadership transfer")]
    Leader,
}

/// Why leadership is not transferred. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransferRefusal {
    #[error("this server is not the leader")]
    NotLeader,
    #[error("member {0} does not vote")]
    NoVoter(u64),
    #[error("member {0} leads already")]
    Leads(u64),
}

impl Core {
    /// Whether another proposal may be made now.
    pub fn may_propose(&self) -> bool {
        let raft = &self.node.raft;
        let has_room = (raft.uncommitted_size() as u64) < self.config.max_uncommitted;
        self.is_leader() && self.transfer.is_none() && has_room
    }

    /// Proposes entries chained one after another, the first of them on `head`.
    pub fn propose(&mut self, now: Duration, entries: &[ChainedEntry]) -> Result<Ticket, Refusal> {
        self.now = self.now.max(now);
        if !self.is_leader() {
            return Err(Refusal::NotLeader);
        }
        if !self.may_propose() {
            return Err(Refusal::Busy);
        }
        let mut tip = self.head();
        for entry in entries {
            if *entry.before() != tip || entry.kind() == Kind::NewEpoch || entry.is_reserved() {
                return Err(Refusal::OutOfOrder);
            }
            tip = *entry.after();
        }
        if entries.is_empty() {
            return Err(Refusal::OutOfOrder);
        }
        self.staged = entries.iter().map(LogEntry::from).collect();
        let mut proposal = Pb::default();
        proposal.set_msg_type(MessageType::MsgPropose);
        proposal.from = self.me;
        proposal.set_entries(self.staged.iter().map(to_raft).collect::<Vec<_>>().into());
        self.finish(|core| core.node.step(proposal)).map_err(|_| Refusal::Busy)
    }

    /// Proposes to change a member. One change at a time.
    pub fn propose_members(
        &mut self,
        now: Duration,
        change: MemberChange,
        context: &[u8],
    ) -> Result<Ticket, ChangeRefusal> {
        self.now = self.now.max(now);
        let is_early = vetch_seeded_bugs::on(Bug::ChangeTooEarly) && self.leader() == Some(self.me);
        if is_early {
            self.node.raft.pending_conf_index = 0;
        }
        if !self.is_leader() && !is_early {
            return Err(Refusal::NotLeader.into());
        }
        if !self.may_propose() && !is_early {
            return Err(Refusal::Busy.into());
        }
        if self.node.raft.has_pending_conf() {
            return Err(ChangeRefusal::Pending);
        }
        self.members.after(&[change])?;
        if change.member == self.me && change.action != Action::Voter {
            return Err(ChangeRefusal::Leader);
        }
        let entry = members_draft(&[change], context).chain(&mut self.head());
        self.staged = vec![LogEntry::from(&entry)];
        let proposed = self.finish(|core| core.node.propose_conf_change(Vec::new(), conf_change(&[change])));
        Ok(proposed.map_err(|_| Refusal::Busy)?)
    }

    /// Gives the staged entries to the crate, by `propose`, which takes all of them or none.
    fn finish(&mut self, propose: impl FnOnce(&mut Core) -> raft::Result<()>) -> Result<Ticket, raft::Error> {
        let last = self.staged.last().map_or(self.decided.seq, LogEntry::seq);
        let proposed = propose(self);
        let ticket = proposed.map(|()| {
            assert!(self.node.raft.raft_log.last_index() == last.get(), "the crate takes all or nothing");
            self.proposals.push(self.term(), last)
        });
        self.drive();
        self.staged.clear();
        ticket
    }

    /// Transfers leadership: proposals are refused until it is done, which is reported, or until
    /// an election timeout has passed. There is no lease any more in this epoch, because the
    /// target may campaign at any later time.
    pub fn transfer_leadership(&mut self, now: Duration, to: u64) -> Result<(), TransferRefusal> {
        self.now = self.now.max(now);
        if !self.is_leader() {
            return Err(TransferRefusal::NotLeader);
        }
        if to == self.me {
            return Err(TransferRefusal::Leads(to));
        }
        if !self.members.voters().contains(&to) {
            return Err(TransferRefusal::NoVoter(to));
        }
        if !vetch_seeded_bugs::on(Bug::LeaseKeptInTransfer) {
            self.beats.end_lease(self.term());
        }
        self.transfer = Some(to);
        self.node.transfer_leader(to);
        self.drive();
        Ok(())
    }
}
