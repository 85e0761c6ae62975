//! Recovery: checkpoints, those that members fetch from each other, and what has to be true when
//! all faults are over.

use std::time::Duration;

use vetch_base::Seq;
use vetch_raft::{Checkpoint, Core};
use vetch_seeded_bugs::Bug;

use super::judge::Judged;
use super::world::{Occurrence, World};

impl World {
    /// Some members take checkpoints, and trim what they cover.
    pub(super) fn checkpoint(&mut self) {
        for at in 0..self.members.len() {
            if !self.rng.percent(50) || !self.members[at].is_awake(self.now) {
                continue;
            }
            let (trims, all) = (self.rng.percent(70), self.rng.percent(60));
            let member = &mut self.members[at];
            let Some(core) = member.core.as_mut() else { continue };
            let checkpoint = Checkpoint { tip: core.applied(), members: core.members().clone() };
            let mut content = member.disk.content();
            content.save(checkpoint.clone());
            core.checkpointed(checkpoint.clone());
            if trims {
                let (low, high) = (content.floor().get(), checkpoint.tip.seq.get());
                let floor = Seq::new(if all { high } else { self.rng.between(low, high) });
                content.trim(floor);
                core.trimmed(floor);
                *self.coverage.entry("trimmed").or_default() += 1;
            }
        }
    }

    /// A member that is behind fetches a checkpoint from another one, if it is still of use when it
    /// is there.
    pub(super) fn fetch(&mut self, at: usize, first: Seq) -> Judged {
        let has = |from: &usize| {
            *from != at
                && self.members[*from].is_awake(self.now)
                && self.members[*from].disk.content().checkpoint.tip.seq >= first
        };
        let sources: Vec<usize> = (0..self.members.len()).filter(has).collect();
        if sources.is_empty() {
            let wait = self.soon(200);
            self.after(wait, at, Occurrence::Fetch(first));
            return Ok(());
        }
        let from = *self.rng.pick(&sources);
        let checkpoint = self.members[from].disk.content().checkpoint.clone();
        let Some(core) = self.members[at].core.as_mut() else { return Ok(()) };
        if !core.needs(&checkpoint.tip) && !vetch_seeded_bugs::on(Bug::CheckpointOverLog) {
            self.count("fetched for nothing");
            return self.stepped(at);
        }
        self.count("began behind a checkpoint");
        let member = &mut self.members[at];
        let writing = std::mem::take(&mut member.writing);
        let mut content = member.disk.content();
        writing.iter().for_each(|write| content.complete(write));
        content.begin_at(checkpoint);
        drop(content);
        member.end();
        self.start(at)
    }

    pub(super) fn make_peace(&mut self) {
        self.peace = true;
        self.trace(|_| "peace".into());
        self.cuts.clear();
        for at in 0..self.members.len() {
            if self.members[at].core.is_none() {
                self.after(Duration::from_millis(1), at, Occurrence::Start);
            }
        }
    }

    /// Whether a write was acknowledged since peace began, and every member holds all there is.
    pub(super) fn is_well(&self) -> bool {
        let Some(leader) = self.leader().and_then(|at| self.members[at].core.as_ref()) else { return false };
        let is_level = |core: &Core| core.applied() == leader.applied();
        let holds = |id: &u64| {
            let member = self.members.iter().find(|member| member.id == *id);
            member.and_then(|member| member.core.as_ref()).is_some_and(is_level)
        };
        let everybody = leader.members();
        self.settled > Seq::ZERO
            && leader.applied() == *self.judge.tip()
            && everybody.voters().union(everybody.learners()).all(holds)
    }

    /// A summary of all members, for debugging.
    pub(super) fn state(&self) -> String {
        let mut state = format!("committed {}, settled {}", self.judge.tip().seq, self.settled);
        for member in &self.members {
            let what = member.core.as_ref().map(|core| {
                format!(
                    "term {} leader {:?} leads {} applied {} committed {} head {} of {:?}",
                    core.term(),
                    core.leader(),
                    core.is_leader(),
                    core.applied().seq,
                    core.committed(),
                    core.head().seq,
                    core.members()
                )
            });
            state += &format!("; member {}: {}", member.id, what.unwrap_or_default());
        }
        state
    }
}
