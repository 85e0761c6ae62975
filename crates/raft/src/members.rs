//! Members: who replicates the log, and how that changes by entries of kind `Members`.
//!
//! ```text
//! payload   0 u8 version | 1 u8 changes | 2 changes... | n context
//! change    0 u8 what (1 voter, 2 learner, 3 removed) | 1 u64 member
//! ```
//!
//! An entry changes one member, so that the majorities before and after it overlap. Only the first
//! entry of a cluster, behind which there is no member yet, names several. The context is opaque: a
//! server keeps names and addresses there.

use std::collections::BTreeSet;

use bytes::{Buf, Bytes};
use raft::eraftpb::{ConfChangeSingle, ConfChangeType, ConfChangeV2, ConfState};
use vetch_base::Epoch;
use vetch_journal::{Draft, Entry, Kind, PartId, Payload, Tip};
use vetch_seeded_bugs::Bug;

use crate::entry::LogEntry;

const VERSION: u8 = 1;
const CHANGE_LEN: usize = 9;

/// What becomes of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Action {
    /// It votes and counts, from being a learner or from nothing.
    Voter = 1,
    /// It gets all entries and counts nowhere.
    Learner = 2,
    Removed = 3,
}

/// One change of one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberChange {
    pub member: u64,
    pub action: Action,
}

/// Why a change cannot be made. Every member decides alike.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MembersError {
    #[error("an entry of members cannot be read")]
    Malformed,
    #[error("members are changed one at a time")]
    NotOne,
    #[error("member {0} is not there")]
    Absent(u64),
    #[error("member {0} is there already")]
    Present(u64),
    #[error("the last voter cannot be removed")]
    LastVoter,
    #[error("zero is no member")]
    Zero,
}

/// The members at one place of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    voters: BTreeSet<u64>,
    learners: BTreeSet<u64>,
}

impl Members {
    pub fn new(
        voters: impl IntoIterator<Item = u64>,
        learners: impl IntoIterator<Item = u64>,
    ) -> Result<Members, MembersError> {
        let members =
            Members { voters: voters.into_iter().collect(), learners: learners.into_iter().collect() };
        if members.voters.contains(&0) || members.learners.contains(&0) {
            return Err(MembersError::Zero);
        }
        match members.voters.intersection(&members.learners).next() {
            Some(both) => Err(MembersError::Present(*both)),
            None => Ok(members),
        }
    }

    pub fn voters(&self) -> &BTreeSet<u64> {
        &self.voters
    }

    pub fn learners(&self) -> &BTreeSet<u64> {
        &self.learners
    }

    pub fn contains(&self, member: u64) -> bool {
        self.voters.contains(&member) || self.learners.contains(&member)
    }

    pub fn is_empty(&self) -> bool {
        self.voters.is_empty() && self.learners.is_empty()
    }

    /// The members after `changes`.
    pub fn after(&self, changes: &[MemberChange]) -> Result<Members, MembersError> {
        if changes.len() != 1 && !self.is_empty() {
            return Err(MembersError::NotOne);
        }
        let mut members = self.clone();
        changes.iter().try_for_each(|change| members.change(*change))?;
        if members.voters.is_empty() {
            return Err(MembersError::LastVoter);
        }
        Ok(members)
    }

    fn change(&mut self, change: MemberChange) -> Result<(), MembersError> {
        let MemberChange { member, action } = change;
        if member == 0 {
            return Err(MembersError::Zero);
        }
        match action {
            Action::Voter => {
                self.learners.remove(&member);
                if !self.voters.insert(member) {
                    return Err(MembersError::Present(member));
                }
            }
            Action::Learner if self.contains(member) => return Err(MembersError::Present(member)),
            Action::Learner => {
                self.learners.insert(member);
            }
            Action::Removed => {
                if !self.voters.remove(&member) && !self.learners.remove(&member) {
                    return Err(MembersError::Absent(member));
                }
            }
        }
        Ok(())
    }

    /// As the crate knows them.
    pub(crate) fn conf_state(&self) -> ConfState {
        let voters: Vec<u64> = self.voters.iter().copied().collect();
        let learners: Vec<u64> = self.learners.iter().copied().collect();
        ConfState::from((voters, learners))
    }
}

/// The entry that makes `changes`, before it has a place.
pub fn members_draft(changes: &[MemberChange], context: &[u8]) -> Draft {
    let mut draft = Draft::with_capacity(Kind::Members, 2 + changes.len() * CHANGE_LEN + context.len());
    draft.begin_part(PartId::default());
    let count = u8::try_from(changes.len()).expect("at most 255 members are changed at once");
    draft.payload().extend_from_slice(&[VERSION, count]);
    for change in changes {
        draft.payload().push(change.action as u8);
        draft.payload().extend_from_slice(&change.member.to_le_bytes());
    }
    draft.payload().extend_from_slice(context);
    draft.end_part(0);
    draft
}

/// The changes that an entry of kind `Members` makes, and its context.
pub fn members_of(entry: &Entry) -> Result<(Vec<MemberChange>, Bytes), MembersError> {
    let [part] = entry.parts.as_slice() else { return Err(MembersError::Malformed) };
    let Payload::Inline(payload) = &part.payload else { return Err(MembersError::Malformed) };
    let mut rest = payload.clone();
    if entry.kind != Kind::Members || rest.len() < 2 || rest.get_u8() != VERSION {
        return Err(MembersError::Malformed);
    }
    let count = usize::from(rest.get_u8());
    if rest.len() < count * CHANGE_LEN {
        return Err(MembersError::Malformed);
    }
    let mut changes = Vec::with_capacity(count);
    for _ in 0..count {
        let action = match rest.get_u8() {
            1 => Action::Voter,
            2 => Action::Learner,
            3 => Action::Removed,
            _ => return Err(MembersError::Malformed),
        };
        changes.push(MemberChange { member: rest.get_u64_le(), action });
    }
    Ok((changes, rest))
}

/// The first two entries of a cluster with these voters. Every one of them writes the same.
pub fn bootstrap(
    voters: &[u64],
    context: &[u8],
    next_rev: i64,
) -> Result<([LogEntry; 2], Members), MembersError> {
    let changes: Vec<MemberChange> =
        voters.iter().map(|member| MemberChange { member: *member, action: Action::Voter }).collect();
    let members = Members::default().after(&changes)?;
    let first = LogEntry::new_epoch(Epoch::ZERO.next(), &Tip::genesis(next_rev));
    let second = LogEntry::from(&members_draft(&changes, context).chain(&mut first.tip().clone()));
    Ok(([first, second], members))
}

/// As the crate knows it.
pub(crate) fn conf_change(changes: &[MemberChange]) -> ConfChangeV2 {
    let single = |change: &MemberChange| {
        let mut single = ConfChangeSingle { node_id: change.member, ..ConfChangeSingle::default() };
        single.set_change_type(match change.action {
            Action::Voter => ConfChangeType::AddNode,
            Action::Learner if vetch_seeded_bugs::on(Bug::LearnersCount) => ConfChangeType::AddNode,
            Action::Learner => ConfChangeType::AddLearnerNode,
            Action::Removed => ConfChangeType::RemoveNode,
        });
        single
    };
    let mut change = ConfChangeV2::default();
    change.set_changes(changes.iter().map(single).collect::<Vec<_>>().into());
    change
}
