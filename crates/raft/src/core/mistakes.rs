//! Mistakes of the crate, made around it: seeded bugs that alter what it is given or has decided.
//! Without the feature `seeded` nothing here is called.

use raft::StateRole;
use vetch_seeded_bugs::{Bug, on};

use super::Core;
use crate::message::{Body, Message};

impl Core {
    /// The message as a crate with a mistake would take it.
    pub(super) fn altered(&self, mut message: Message) -> Message {
        match &mut message.body {
            Body::Accepted { .. } if on(Bug::StaleAcks) => message.term = message.term.max(self.term()),
            Body::CampaignNow if on(Bug::StaleTransfer) => message.term = message.term.max(self.term()),
            Body::Vote { pre, .. } if on(Bug::PreVotesCount) => {
                *pre &= self.node.raft.state != StateRole::Candidate;
            }
            _ => {}
        }
        message
    }

    /// Commits what a crate with a mistake would after this message.
    pub(super) fn commit_too_much(&mut self, message: &Message) {
        let leads = self.node.raft.state == StateRole::Leader;
        let commit = match &message.body {
            Body::Append { commit, .. } if on(Bug::CommitBeyondMatch) => commit.get(),
            Body::Accepted { .. } if on(Bug::OldTermCommitted) && leads => self.held_by_a_majority(),
            _ => return,
        };
        let log = &mut self.node.raft.raft_log;
        let commit = commit.min(log.last_index());
        log.commit_to(commit);
    }

    fn held_by_a_majority(&self) -> u64 {
        let progress = self.node.raft.prs();
        let matched = |member: &u64| progress.get(*member).map_or(0, |progress| progress.matched);
        let mut matched: Vec<u64> = self.members.voters().iter().map(matched).collect();
        matched.sort_unstable();
        matched[(matched.len() - 1) / 2]
    }
}
