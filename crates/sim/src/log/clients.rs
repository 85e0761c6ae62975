//! Clients: they write at the leader and read at any server.

use vetch_base::Seq;
use vetch_cluster::{LogIndex, ReadId};
use vetch_journal::{ChainedEntry, Draft, Hash, Kind, PartId, Tip};

use super::judge::Judged;
use super::plan::Breach;
use super::world::{Occurrence, Reader, World};

impl World {
    /// A client writes at a server that takes itself for the leader.
    pub(super) fn write(&mut self, at: usize) -> Judged {
        let (now, value) = (self.now, self.rng.draw());
        let count = self.rng.between(1, 3);
        let units: Vec<u32> = (0..count).map(|_| self.rng.between(0, 3) as u32).collect();
        let server = &mut self.servers[at];
        let (awake, now) = (server.paused_until <= now, server.time(now));
        let Some(replica) = server.replica.as_mut().filter(|replica| awake && replica.is_leader()) else {
            return Ok(());
        };
        let before = replica.log_state().position();
        let mut tip = replica.head();
        let entries: Vec<ChainedEntry> = units.iter().map(|units| entry(&mut tip, *units, value)).collect();
        if let Ok(ticket) = replica.propose(now, &entries) {
            let hashes: Vec<(Seq, Hash)> =
                entries.iter().map(|entry| (entry.seq(), entry.after().hash)).collect();
            server.proposals.insert(ticket, hashes);
        }
        self.stepped(at, before)
    }

    /// A leader begins a leadership transfer to any server, also to itself and to one that is down.
    pub(super) fn transfer_leadership(&mut self, at: usize, to: usize) -> Judged {
        let (now, to) = (self.now, self.servers[to].replica_id());
        let server = &mut self.servers[at];
        let (awake, now) = (server.paused_until <= now, server.time(now));
        let Some(replica) = server.replica.as_mut().filter(|_| awake) else { return Ok(()) };
        let before = replica.log_state().position();
        if let Ok(ticket) = replica.transfer_leadership(now, to) {
            let tip = replica.head();
            server.proposals.insert(ticket, vec![(tip.seq, tip.hash)]);
            self.count("transfer begun");
        }
        self.stepped(at, before)
    }

    /// A client reads at a server, which requests an index from a server that takes itself for the
    /// leader; it may have been replaced.
    pub(super) fn read(&mut self, at: usize) {
        if self.servers[at].replica.is_none() || self.servers[at].paused_until > self.now {
            return;
        }
        let leaders: Vec<usize> =
            (0..self.servers.len()).filter(|at| self.servers[*at].is_leader()).collect();
        if leaders.is_empty() {
            return;
        }
        let read = ReadId(self.rng.draw());
        let acknowledged = self.judge.last_known();
        self.readers.insert(read, Reader { at, incarnation: self.servers[at].incarnation, acknowledged });
        let (leader, wait) = (*self.rng.pick(&leaders), self.delay());
        self.after(wait, leader, Occurrence::ReadIndexRequest { read });
    }

    /// A leader sends an index to reads of other servers, or of its own.
    pub(super) fn send_index(&mut self, reads: &[ReadId], index: LogIndex) -> Judged {
        self.count("index given");
        if reads.len() > 1 {
            self.count("index for several reads");
        }
        for read in reads {
            let Some(reader) = self.readers.get(read).copied() else { continue };
            if self.plan.breach == Breach::None {
                self.judge.read(reader.acknowledged, index.tip.seq)?;
            }
            let wait = self.delay();
            self.schedule(
                self.now + wait,
                reader.at,
                reader.incarnation,
                Occurrence::ReadIndexReply { read: *read, index },
            );
        }
        Ok(())
    }

    /// Answers the reads whose index this server has reached.
    pub(super) fn answer_reads(&mut self, at: usize) -> Judged {
        let server = &mut self.servers[at];
        let Some(replica) = server.replica.as_mut().filter(|_| !server.indexed.is_empty()) else {
            return Ok(());
        };
        let indexed = std::mem::take(&mut server.indexed);
        let (done, waiting): (Vec<_>, Vec<_>) =
            indexed.into_iter().partition(|(_, index)| replica.reached(index));
        server.indexed.extend(waiting);
        let held = replica.log_state().tip().seq;
        for (read, index) in done {
            self.count("read answered");
            let Some(reader) = self.readers.remove(&read) else { continue };
            match self.plan.breach {
                Breach::None => {
                    self.judge.read(reader.acknowledged, held)?;
                    self.judge.seen(held);
                }
                _ => self.judge.read_of(&index, &self.servers[at].history)?,
            }
        }
        let events = self.servers[at].replica.as_mut().map(|replica| replica.take_events());
        events.into_iter().flatten().try_for_each(|event| self.event(at, event))
    }
}

/// An entry of this many write units.
fn entry(tip: &mut Tip, units: u32, value: u64) -> ChainedEntry {
    let mut draft = Draft::new(Kind::Writes);
    draft.begin_part(PartId { partition: 0, owner_epoch: tip.epoch.get(), pseq: tip.seq.next().get() });
    draft.payload().extend_from_slice(&value.to_le_bytes());
    draft.end_part(units);
    draft.chain(tip)
}
