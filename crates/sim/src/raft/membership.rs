//! Membership: operators add, promote and remove members, and move leadership.

use vetch_raft::{Action, Core, MemberChange, Members};

use super::judge::Judged;
use super::world::World;

/// Voters and learners at most.
const MEMBERS_MAX: usize = 6;

impl World {
    /// An operator changes a member, at any moment.
    pub(super) fn change(&mut self) -> Judged {
        let leads = |at: &usize| {
            let member = &self.members[*at];
            member.is_awake(self.now)
                && member.core.as_ref().is_some_and(|core| core.leader() == Some(member.id))
        };
        let Some(at) = (0..self.members.len()).find(leads) else { return Ok(()) };
        let (id, now) = (self.members[at].id, self.members[at].time(self.now));
        let Some(members) = self.members[at].core.as_ref().map(|core| core.members().clone()) else {
            return Ok(());
        };
        let Some(change) = self.pick_change(id, &members) else { return Ok(()) };
        let Some(core) = self.members[at].core.as_mut() else { return Ok(()) };
        let proposed = core.propose_members(now, change, b"");
        let head = core.head();
        match proposed {
            Ok(ticket) => {
                self.members[at].proposals.insert(ticket, vec![head]);
                self.members[at].changes.insert(head.hash);
                self.count(match change.action {
                    Action::Voter => "voter proposed",
                    Action::Learner => "learner proposed",
                    Action::Removed => "removal proposed",
                });
                if !self.members.iter().any(|member| member.id == change.member) {
                    self.join(change.member);
                }
            }
            Err(_) => self.count("change refused"),
        }
        self.stepped(at)
    }

    fn pick_change(&mut self, leader: u64, members: &Members) -> Option<MemberChange> {
        let change = |member: u64, action: Action| Some(MemberChange { member, action });
        let learners: Vec<u64> = members.learners().iter().copied().collect();
        if !learners.is_empty() && self.rng.percent(40) {
            return change(*self.rng.pick(&learners), Action::Voter);
        }
        let all = members.voters().len() + learners.len();
        if all < MEMBERS_MAX && self.rng.percent(50) {
            // An id is never given twice.
            let id = self.members.iter().map(|member| member.id).max().unwrap_or(0) + 1;
            return change(id, if self.rng.percent(70) { Action::Learner } else { Action::Voter });
        }
        let others: Vec<u64> =
            members.voters().union(members.learners()).copied().filter(|member| *member != leader).collect();
        if others.is_empty() {
            return None;
        }
        change(*self.rng.pick(&others), Action::Removed)
    }

    /// A leader begins a transfer to any voter, also to one that is down.
    pub(super) fn transfer(&mut self) -> Judged {
        let Some(at) = self.leader().filter(|at| self.members[*at].is_awake(self.now)) else { return Ok(()) };
        let now = self.members[at].time(self.now);
        let voters: Vec<u64> = self.voters(at);
        let to = *self.rng.pick(&voters);
        let Some(core) = self.members[at].core.as_mut() else { return Ok(()) };
        if core.transfer_leadership(now, to).is_ok() {
            self.count("transfer begun");
        }
        self.stepped(at)
    }

    fn voters(&self, at: usize) -> Vec<u64> {
        let core: Option<&Core> = self.members[at].core.as_ref();
        core.map(|core| core.members().voters().iter().copied().collect()).unwrap_or_default()
    }
}
