//! Clients: they write at the writer and read anywhere.

use vetch_fence::{Index, ReadId};
use vetch_journal::{ChainedEntry, Draft, Hash, Kind, PartId, Tip};

use super::judge::Judged;
use super::plan::Breach;
use super::world::{Happening, Reader, World};

impl World {
    /// A client writes at a server, if that takes itself for the writer.
    pub(super) fn write(&mut self, at: usize) -> Judged {
        let (now, value) = (self.now, self.rng.draw());
        let count = self.rng.between(1, 3);
        let units: Vec<u32> = (0..count).map(|_| self.rng.between(0, 3) as u32).collect();
        let server = &mut self.servers[at];
        let (awake, now) = (server.paused_until <= now, server.time(now));
        let Some(member) = server.member.as_mut().filter(|member| awake && member.is_leading()) else {
            return Ok(());
        };
        let before = member.view().position();
        let mut tip = member.head();
        let entries: Vec<ChainedEntry> = units.iter().map(|units| entry(&mut tip, *units, value)).collect();
        if let Ok(ticket) = member.propose(now, &entries) {
            let hashes: Vec<(u64, Hash)> =
                entries.iter().map(|entry| (entry.seq(), entry.after().hash)).collect();
            server.proposals.insert(ticket, hashes);
        }
        self.stepped(at, before)
    }

    /// A writer names another server as the next one; also itself, and one that is down.
    pub(super) fn hand_over(&mut self, at: usize, to: usize) -> Judged {
        let (now, to) = (self.now, self.servers[to].author());
        let server = &mut self.servers[at];
        let (awake, now) = (server.paused_until <= now, server.time(now));
        let Some(member) = server.member.as_mut().filter(|_| awake) else { return Ok(()) };
        let before = member.view().position();
        if let Ok(ticket) = member.hand_over(now, to) {
            let tip = member.head();
            server.proposals.insert(ticket, vec![(tip.seq, tip.hash)]);
            self.count("hand-over begun");
        }
        self.stepped(at, before)
    }

    /// A client reads at a server, which asks whoever it takes for the writer; also one that is no
    /// longer.
    pub(super) fn read(&mut self, at: usize) {
        if self.servers[at].member.is_none() || self.servers[at].paused_until > self.now {
            return;
        }
        let writers: Vec<usize> =
            (0..self.servers.len()).filter(|at| self.servers[*at].is_leading()).collect();
        if writers.is_empty() {
            return;
        }
        let read = ReadId(self.rng.draw());
        let acknowledged = self.judge.last_known();
        self.readers.insert(read, Reader { at, life: self.servers[at].life, acknowledged });
        let (writer, wait) = (self.rng.pick(&writers), self.delay());
        self.after(wait, writer, Happening::Asked { read });
    }

    /// A writer found an index for reads of other servers, or of its own.
    pub(super) fn tell_index(&mut self, reads: &[ReadId], index: Index) -> Judged {
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
            self.schedule(self.now + wait, reader.at, reader.life, Happening::Indexed { read: *read, index });
        }
        Ok(())
    }

    /// Answers the reads whose index this server has come to.
    pub(super) fn answer_reads(&mut self, at: usize) -> Judged {
        let server = &mut self.servers[at];
        let Some(member) = server.member.as_mut().filter(|_| !server.indexed.is_empty()) else {
            return Ok(());
        };
        let indexed = std::mem::take(&mut server.indexed);
        let (done, waiting): (Vec<_>, Vec<_>) =
            indexed.into_iter().partition(|(_, index)| member.reached(index));
        server.indexed.extend(waiting);
        let held = member.view().tip().seq;
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
        let events = self.servers[at].member.as_mut().map(|member| member.take_events());
        events.into_iter().flatten().try_for_each(|event| self.event(at, event))
    }
}

/// An entry of this many write units.
fn entry(tip: &mut Tip, units: u32, value: u64) -> ChainedEntry {
    let mut draft = Draft::new(Kind::Writes);
    draft.begin_part(PartId { partition: 0, owner_epoch: tip.epoch, pseq: tip.seq + 1 });
    draft.payload().extend_from_slice(&value.to_le_bytes());
    draft.end_part(units);
    draft.chain(tip)
}
