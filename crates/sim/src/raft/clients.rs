//! Clients: they write at the leader and read at any member.

use vetch_cluster::{LogIndex, ReadId};
use vetch_journal::{ChainedEntry, Draft, Kind, PartId, Tip};

use super::judge::Judged;
use super::world::{Occurrence, Reader, World};

/// Entries that clients have under way at most.
const IN_FLIGHT_MAX: u64 = 64;

impl World {
    /// A client writes at a member that takes itself for the leader.
    pub(super) fn write(&mut self, at: usize) -> Judged {
        let count = self.rng.between(1, 3);
        let units: Vec<u32> = (0..count).map(|_| self.rng.between(0, 3) as u32).collect();
        let value = vec![self.rng.draw() as u8; self.rng.between(1, self.plan.value) as usize];
        let now = self.now;
        let member = &mut self.members[at];
        let (is_awake, now) = (member.is_awake(now), member.time(now));
        let Some(core) = member.core.as_mut().filter(|core| is_awake && core.is_leader()) else {
            return Ok(());
        };
        let mut tip = core.head();
        // Clients wait for their answers.
        if tip.seq.since(core.applied().seq) > IN_FLIGHT_MAX {
            return Ok(());
        }
        let entries: Vec<ChainedEntry> = units.iter().map(|units| entry(&mut tip, *units, &value)).collect();
        match core.propose(now, &entries) {
            Ok(ticket) => {
                let tips = entries.iter().map(|entry| *entry.after()).collect();
                member.proposals.insert(ticket, tips);
            }
            Err(_) => self.count("proposal refused"),
        }
        self.stepped(at)
    }

    /// A client reads at a member, which requests an index from one that takes itself for the
    /// leader; it may have been replaced. Every leader with a lease must be able to answer at once.
    pub(super) fn read(&mut self, at: usize) -> Judged {
        self.check_leases()?;
        if !self.members[at].is_awake(self.now) {
            return Ok(());
        }
        let leaders: Vec<usize> =
            (0..self.members.len()).filter(|at| self.members[*at].is_leader()).collect();
        if leaders.is_empty() {
            return Ok(());
        }
        let read = ReadId(self.rng.draw());
        let reader = Reader { at, incarnation: self.members[at].incarnation, known: self.judge.known() };
        self.readers.insert(read, reader);
        let (leader, wait) = (*self.rng.pick(&leaders), self.delay());
        self.after(wait, leader, Occurrence::ReadIndexRequest(read));
        Ok(())
    }

    pub(super) fn check_leases(&mut self) -> Judged {
        for at in 0..self.members.len() {
            let member = &self.members[at];
            if !member.is_awake(self.now) {
                continue;
            }
            let now = member.time(self.now);
            let lease = member.core.as_ref().and_then(|core| core.lease()).filter(|lease| now < lease.until);
            if let Some(lease) = lease {
                self.judge.lease(member.id, lease.index.tip.seq)?;
                self.count("lease read");
            }
        }
        Ok(())
    }

    /// A leader sends an index to reads of other members, or of its own.
    pub(super) fn send_index(&mut self, reads: &[ReadId], index: LogIndex) -> Judged {
        self.count(if reads.len() > 1 { "index for several reads" } else { "index given" });
        for read in reads {
            let Some(reader) = self.readers.get(read).copied() else { continue };
            self.judge.read(reader.known, index.tip.seq, false)?;
            let at = self.now + self.delay();
            self.schedule(at, reader.at, reader.incarnation, Occurrence::ReadIndexReply(*read, index));
        }
        Ok(())
    }

    /// Answers the reads whose index this member has reached.
    pub(super) fn answer_reads(&mut self, at: usize) -> Judged {
        let member = &mut self.members[at];
        let Some(core) = member.core.as_mut().filter(|_| !member.indexed.is_empty()) else { return Ok(()) };
        let indexed = std::mem::take(&mut member.indexed);
        let (done, waiting): (Vec<_>, Vec<_>) =
            indexed.into_iter().partition(|(_, index)| core.reached(index));
        member.indexed.extend(waiting);
        let held = core.applied().seq;
        for (read, _) in done {
            self.count("read answered");
            let Some(reader) = self.readers.remove(&read) else { continue };
            self.judge.read(reader.known, held, true)?;
        }
        Ok(())
    }
}

/// An entry of this many write units.
fn entry(tip: &mut Tip, units: u32, value: &[u8]) -> ChainedEntry {
    let mut draft = Draft::new(Kind::Writes);
    draft.begin_part(PartId { partition: 0, owner_epoch: tip.epoch.get(), pseq: tip.seq.next().get() });
    draft.payload().extend_from_slice(value);
    draft.end_part(units);
    draft.chain(tip)
}
