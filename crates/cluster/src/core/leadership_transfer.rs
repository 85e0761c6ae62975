//! Leadership transfer: a leader names its successor, so that the successor need not wait for the
//! election timeout.
//!
//! The last entry of a leader may be a barrier that names another replica. Once it is committed,
//! the leader appends no more in this epoch, and the named replica campaigns as soon as it reads
//! it. The validity rule does not know of transfers: a successor that never campaigns, or campaigns
//! too late, costs an election timeout and nothing else. A replica is one incarnation of a server,
//! so an old name means nothing to the next incarnation.

use std::time::Duration;

use vetch_journal::{Draft, Entry, Kind, PartId, Payload};

use super::event::ReplicaEvent;
use super::leader::Refusal;
use super::record::ReplicaId;
use super::replica::Replica;
use super::role::Role;
use crate::log::Ticket;

const MARK: &[u8; 8] = b"HANDOVER";
const LEN: usize = MARK.len() + 16;

impl Replica {
    /// Begins a transfer. Nothing is started behind it: proposals are refused as `Busy` until it is
    /// decided. Once it is committed, `LeadershipTransferred` is reported and this replica follows.
    /// If it is dropped, this replica stays the leader.
    pub fn transfer_leadership(&mut self, now: Duration, to: ReplicaId) -> Result<Ticket, Refusal> {
        if !self.is_leader() {
            return Err(Refusal::NotLeader);
        }
        if self.transfer.is_some() || self.in_flight.len() >= self.config.max_in_flight {
            return Err(Refusal::Busy);
        }
        self.end_lease();
        let mut tip = self.head();
        let ticket = self.start_append(now, &[transfer_entry(to).chain(&mut tip)], true);
        self.transfer = Some(ticket);
        Ok(ticket)
    }

    /// An own append is committed. If it was the transfer, this replica's term is over.
    pub(crate) fn finish_transfer(&mut self, ticket: Ticket) {
        if self.transfer.take_if(|transfer| *transfer == ticket).is_none() {
            return;
        }
        assert!(self.in_flight.is_empty(), "nothing is appended behind a leadership transfer");
        self.role = Role::Follower;
        let reads = std::mem::take(&mut self.reads);
        if !reads.is_empty() {
            self.events.push(ReplicaEvent::ReadIndexLost { reads });
        }
        self.events.push(ReplicaEvent::LeadershipTransferred);
    }

    /// An entry of another leader was read, which may name this replica.
    pub(crate) fn campaign_if_named(&mut self, now: Duration, target: Option<ReplicaId>) {
        if target == Some(self.me) {
            self.campaign(now);
        }
    }
}

fn transfer_entry(successor: ReplicaId) -> Draft {
    let mut draft = Draft::with_capacity(Kind::Barrier, LEN);
    draft.begin_part(PartId::default());
    draft.payload().extend_from_slice(MARK);
    draft.payload().extend_from_slice(&successor.member.to_le_bytes());
    draft.payload().extend_from_slice(&successor.incarnation.to_le_bytes());
    draft.end_part(0);
    draft
}

/// The replica that an entry names as the next leader, if it is a leadership transfer.
pub fn transfer_target(entry: &Entry) -> Option<ReplicaId> {
    let Payload::Inline(payload) = &entry.parts.first()?.payload else { return None };
    if entry.kind != Kind::Barrier || payload.len() != LEN || !payload.starts_with(MARK) {
        return None;
    }
    let number = |at: usize| u64::from_le_bytes(payload[at..at + 8].try_into().expect("eight bytes"));
    Some(ReplicaId { member: number(MARK.len()), incarnation: number(MARK.len() + 8) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use vetch_journal::Tip;

    #[test]
    fn a_transfer_target_round_trips() {
        let named = ReplicaId { member: 3, incarnation: u64::MAX };
        let sealed = transfer_entry(named).chain(&mut Tip::genesis(2));
        assert_eq!(transfer_target(&Entry::decode(sealed.bytes()).unwrap()), Some(named));
        let plain = Draft::new(Kind::Barrier).chain(&mut Tip::genesis(2));
        assert_eq!(transfer_target(&Entry::decode(plain.bytes()).unwrap()), None);
    }
}
