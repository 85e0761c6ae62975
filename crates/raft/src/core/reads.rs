//! Reads: a leader gives a read the index of what is committed, once a majority confirmed that it
//! still led after the read had asked.
//!
//! One round is under way at a time; reads that ask meanwhile share the next one. A round is a
//! number in heartbeats: nothing is written.

use std::time::Duration;

use raft::{ReadState, StateRole};
use vetch_base::Seq;
use vetch_cluster::{Event, ReadId, Refusal};
use vetch_seeded_bugs::Bug;

use super::Core;

#[derive(Default)]
pub(super) struct Reads {
    waiting: Vec<ReadId>,
    /// The number of the round under way, and the reads that share it.
    round: Option<(u64, Vec<ReadId>)>,
    rounds: u64,
}

impl Reads {
    fn len(&self) -> usize {
        self.waiting.len() + self.round.as_ref().map_or(0, |(_, reads)| reads.len())
    }
}

impl Core {
    /// Requests an index for a read.
    pub fn read_index(&mut self, now: Duration, read: ReadId) -> Result<(), Refusal> {
        self.now = self.now.max(now);
        if !self.is_leader() {
            return Err(Refusal::NotLeader);
        }
        if self.reads.len() >= self.config.max_reads {
            return Err(Refusal::Busy);
        }
        if let Some(lease) = self.lease().filter(|lease| self.now < lease.until) {
            self.events.push(Event::ReadIndex { reads: vec![read], index: lease.index });
            return Ok(());
        }
        match &mut self.reads.round {
            Some((_, reads)) if vetch_seeded_bugs::on(Bug::RoundShared) => reads.push(read),
            _ => self.reads.waiting.push(read),
        }
        self.drive();
        Ok(())
    }

    /// Starts a round for the reads that wait. Returns whether one was started.
    pub(super) fn start_reads(&mut self) -> bool {
        let leads = self.node.raft.state == StateRole::Leader && self.leading.is_some();
        if !leads || self.reads.waiting.is_empty() || self.reads.round.is_some() {
            return false;
        }
        self.reads.rounds += 1;
        let round = self.reads.rounds;
        self.reads.round = Some((round, std::mem::take(&mut self.reads.waiting)));
        self.node.read_index(round.to_le_bytes().to_vec());
        true
    }

    pub(super) fn give_indexes(&mut self, states: Vec<ReadState>) {
        for state in states {
            let is_round = |(round, _): &mut (u64, Vec<ReadId>)| state.request_ctx == round.to_le_bytes();
            if let Some((_, reads)) = self.reads.round.take_if(is_round) {
                let index = self.index_at(Seq::new(state.index));
                self.events.push(Event::ReadIndex { reads, index });
            }
        }
    }

    /// This member does not lead: its reads are to ask who does.
    pub(super) fn lose_reads(&mut self) {
        let mut reads = std::mem::take(&mut self.reads.waiting);
        reads.extend(self.reads.round.take().into_iter().flat_map(|(_, reads)| reads));
        if !reads.is_empty() {
            self.events.push(Event::ReadIndexLost { reads });
        }
    }
}
