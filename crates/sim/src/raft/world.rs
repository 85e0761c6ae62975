//! World: members, and the queue of what happens next.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use vetch_base::Seq;
use vetch_cluster::{Event, LogIndex, ReadId};
use vetch_journal::{Kind, Tip};
use vetch_raft::{Checkpoint, Command, Core, Members, Vote, bootstrap};
use vetch_testkit::random::Rng;

use super::disk::ModelDisk;
use super::judge::{Judge, Judged, violated};
use super::member::Member;
use super::plan::Plan;

/// Something that happens at one incarnation of a member, or anywhere.
pub(super) enum Occurrence {
    Tick,
    Message(Bytes),
    Synced(u64),
    /// Another member requests an index for a read, and the answer to that.
    ReadIndexRequest(ReadId),
    ReadIndexReply(ReadId, LogIndex),
    /// A member that is behind fetches a checkpoint at this entry or later.
    Fetch(Seq),
    Write,
    Read,
    Crash,
    Blackout,
    /// Power goes at this member, soon after something rare was written.
    Strike,
    Flap,
    /// A member that flaps is killed once more, and so many times after that.
    Again(u32),
    Start,
    Pause,
    Cut,
    Heal,
    Change,
    Transfer,
    Checkpoint,
}

#[derive(Clone, Copy)]
pub(super) struct Reader {
    pub(super) at: usize,
    pub(super) incarnation: u64,
    /// The last sequence number that was known when the read began.
    pub(super) known: Seq,
}

pub(super) struct World {
    pub(super) rng: Rng,
    pub(super) plan: Plan,
    pub(super) now: Duration,
    pub(super) members: Vec<Member>,
    /// Links that carry nothing, by sender and receiver.
    pub(super) cuts: BTreeSet<(u64, u64)>,
    pub(super) judge: Judge,
    pub(super) peace: bool,
    pub(super) coverage: BTreeMap<&'static str, u64>,
    pub(super) trace: Vec<String>,
    verbose: bool,
    queue: BTreeMap<(Duration, u64), (usize, u64, Occurrence)>,
    order: u64,
    /// Reads of clients that are not answered.
    pub(super) readers: BTreeMap<ReadId, Reader>,
    /// Whether the members change by the events that are being judged.
    changed: bool,
    /// The last entry that was acknowledged in peace.
    pub(super) settled: Seq,
}

impl World {
    pub(super) fn new(seed: u64, verbose: bool) -> World {
        let mut rng = Rng::split_mix(seed);
        let plan = Plan::draw(&mut rng);
        let voters: Vec<u64> = (1..=plan.voters).collect();
        let ([_, last], members) = bootstrap(&voters, b"", 2).expect("the first members are few");
        let start = Checkpoint { tip: *last.tip(), members };
        let member = |id: &u64| {
            let vote = Vote { term: start.tip.epoch, member: 0 };
            Member::new(*id, ModelDisk::new(start.clone(), vote), pace(&plan, *id, seed))
        };
        let mut world = World {
            now: Duration::ZERO,
            members: voters.iter().map(member).collect(),
            cuts: BTreeSet::new(),
            judge: Judge::new(start.tip),
            peace: false,
            coverage: BTreeMap::new(),
            trace: Vec::new(),
            verbose,
            queue: BTreeMap::new(),
            order: 0,
            readers: BTreeMap::new(),
            changed: false,
            settled: Seq::ZERO,
            rng,
            plan,
        };
        world.trace(|world| format!("{:?}", world.plan));
        world.begin();
        world
    }

    /// A member that is not part of anything yet.
    pub(super) fn join(&mut self, id: u64) {
        let nothing = Checkpoint { tip: Tip::genesis(2), members: Members::default() };
        let disk = ModelDisk::new(nothing, Vote::default());
        self.members.push(Member::new(id, disk, pace(&self.plan, id, id)));
        self.after(Duration::from_millis(1), self.members.len() - 1, Occurrence::Start);
    }

    pub(super) fn run(&mut self) -> Judged {
        let end = self.plan.trouble + self.plan.grace;
        while let Some(((at, _), (member, incarnation, occurrence))) = self.queue.pop_first() {
            self.now = self.now.max(at);
            if !self.peace && self.now >= self.plan.trouble {
                self.make_peace();
            }
            if self.now >= end {
                let grace = self.plan.grace;
                return violated(format!("{grace:?} after the last fault not all is well: {}", self.state()));
            }
            self.happen(member, incarnation, occurrence)?;
            if self.peace && self.is_well() {
                return Ok(());
            }
        }
        violated("nothing happens any more")
    }

    pub(super) fn after(&mut self, wait: Duration, member: usize, occurrence: Occurrence) {
        let incarnation = self.members.get(member).map_or(0, |member| member.incarnation);
        self.schedule(self.now + wait, member, incarnation, occurrence);
    }

    pub(super) fn schedule(&mut self, at: Duration, member: usize, incarnation: u64, occurrence: Occurrence) {
        self.order += 1;
        self.queue.insert((at, self.order), (member, incarnation, occurrence));
    }

    fn happen(&mut self, at: usize, incarnation: u64, occurrence: Occurrence) -> Judged {
        match occurrence {
            // It arrives at whatever incarnation is there.
            Occurrence::Message(_) => self.at_member(at, self.members[at].incarnation, occurrence),
            Occurrence::Tick
            | Occurrence::Synced(_)
            | Occurrence::ReadIndexRequest(_)
            | Occurrence::ReadIndexReply(..)
            | Occurrence::Strike
            | Occurrence::Again(_)
            | Occurrence::Fetch(_) => self.at_member(at, incarnation, occurrence),
            other => self.trouble(at, other),
        }
    }

    fn at_member(&mut self, at: usize, incarnation: u64, occurrence: Occurrence) -> Judged {
        let now = self.now;
        let member = &mut self.members[at];
        if member.incarnation != incarnation || member.core.is_none() {
            return Ok(());
        }
        if member.paused_until > now {
            let until = member.paused_until;
            self.schedule(until, at, incarnation, occurrence);
            return Ok(());
        }
        let now = member.time(now);
        let Some(core) = member.core.as_mut() else { return Ok(()) };
        match occurrence {
            Occurrence::Message(bytes) => self.arrive(at, now, &bytes)?,
            Occurrence::Synced(number) => {
                // One thing after another, also what a pause has shuffled.
                while let Some(done) = member.writing.pop_front_if(|write| write.number <= number) {
                    member.disk.content().complete(&done);
                    core.persisted(done.number);
                }
            }
            Occurrence::ReadIndexRequest(read) => drop(core.read_index(now, read)),
            Occurrence::ReadIndexReply(read, index) => drop(member.indexed.insert(read, index)),
            Occurrence::Fetch(first) => return self.fetch(at, first),
            Occurrence::Strike => return self.strike(at),
            Occurrence::Again(times) => return self.flap(at, times),
            _ => {
                core.tick(now);
                let next = core.next_tick();
                let next = member.real(next).max(self.now + Duration::from_millis(1));
                self.schedule(next, at, incarnation, Occurrence::Tick);
            }
        }
        self.stepped(at)
    }

    /// After everything that happened at a member: judges its events, carries out its commands.
    pub(super) fn stepped(&mut self, at: usize) -> Judged {
        let member = &mut self.members[at];
        let (id, Some(core)) = (member.id, member.core.as_mut()) else { return Ok(()) };
        let (commands, events) = (core.take_commands(), core.take_events());
        self.changed = events.iter().any(|event| match event {
            Event::Applied { entry, .. } => entry.kind == Kind::Members,
            Event::Committed { ticket, .. } => {
                member.proposals.get(ticket).is_some_and(|tips| member.changes.contains(&tips[0].hash))
            }
            _ => false,
        });
        if core.leader() == Some(id) {
            let epoch = core.term();
            self.judge.leads(id, epoch)?;
        }
        for event in events {
            self.event(at, event)?;
        }
        for command in commands {
            self.command(at, command);
        }
        self.answer_reads(at)
    }

    fn event(&mut self, at: usize, event: Event) -> Judged {
        self.trace(|world| format!("member {} {event:?}", world.members[at].id));
        let id = self.members[at].id;
        match event {
            Event::Applied { entry, tip, .. } => {
                if entry.kind == Kind::Members {
                    self.count("members changed");
                }
                self.applied(at, &tip)?;
            }
            Event::Committed { ticket, tip, .. } => {
                let tips = self.members[at].proposals.remove(&ticket).unwrap_or_default();
                let (done, lost): (Vec<Tip>, Vec<Tip>) = tips.iter().partition(|one| one.seq <= tip.seq);
                done.iter().try_for_each(|tip| self.applied(at, tip))?;
                if !lost.is_empty() {
                    self.count("committed in part");
                }
                self.judge.dropped(&lost)?;
                self.judge.acknowledged(&tip);
                if self.peace {
                    self.settled = self.settled.max(tip.seq);
                }
                self.count("committed");
            }
            Event::Dropped { ticket } => {
                let tips = self.members[at].proposals.remove(&ticket).unwrap_or_default();
                self.judge.dropped(&tips)?;
                self.count("dropped");
            }
            Event::Leading { tip, .. } => {
                self.count("elected");
                self.applied(at, &tip)?;
            }
            Event::ReadIndex { reads, index } => self.send_index(&reads, index)?,
            Event::ReadIndexLost { .. } => self.count("index lost"),
            Event::Following { .. } => self.count("followed"),
            Event::NoLeader => self.count("without a leader"),
            Event::LeadershipTransferred => self.count("leadership transferred"),
            Event::Behind { first } => {
                self.count("behind the trim");
                let wait = self.soon(100);
                self.after(wait, at, Occurrence::Fetch(Seq::new(first.0)));
            }
            Event::Halted(divergence) => return violated(format!("member {id} halted: {divergence}")),
            Event::Suspect { .. } | Event::Full => {
                return violated(format!("member {id} reports what it cannot know"));
            }
        }
        Ok(())
    }

    /// A member has reported this entry as committed. It must be synced there, and a leader must
    /// not have counted a member that does not have it.
    fn applied(&mut self, at: usize, tip: &Tip) -> Judged {
        let member = &mut self.members[at];
        let before = std::mem::replace(&mut member.applied, *tip);
        self.judge.applied(member.id, &before, tip)?;
        let member = &self.members[at];
        if !member.disk.content().holds(tip.seq, &tip.hash) {
            return violated(format!(
                "member {} applied entry {} that it has not synced",
                member.id, tip.seq
            ));
        }
        let Some(core) = member.core.as_ref().filter(|core| core.is_leader()) else { return Ok(()) };
        let holds = |voter: &&u64| {
            let holder = self.members.iter().find(|member| member.id == **voter);
            holder.is_some_and(|holder| holder.disk.content().holds(tip.seq, &tip.hash))
        };
        // It was committed among those before the change, if there is one in the same step.
        let voters = core.members().voters();
        if voters.iter().filter(holds).count() <= voters.len() / 2 && !self.changed {
            return violated(format!("entry {} was committed without a majority", tip.seq));
        }
        Ok(())
    }

    fn command(&mut self, at: usize, command: Command) {
        match command {
            Command::Persist(write) => {
                let slow = !self.peace && self.rng.percent(self.plan.slow);
                let took =
                    if slow { self.rng.between(50_000, 1_500_000) } else { self.rng.between(50, 3000) };
                let now = self.now;
                let member = &mut self.members[at];
                member.busy_until = member.busy_until.max(now) + Duration::from_micros(took);
                let (until, incarnation, number) = (member.busy_until, member.incarnation, write.number);
                let is_rare = write.cut.is_some() || write.vote.is_some();
                if write.cut.is_some() {
                    *self.coverage.entry("cut").or_default() += 1;
                }
                self.members[at].writing.push_back(write);
                self.schedule(until, at, incarnation, Occurrence::Synced(number));
                if is_rare && !self.peace && self.rng.percent(self.plan.strikes) {
                    let soon = until + Duration::from_micros(self.rng.skewed(0, 1_000_000));
                    self.schedule(soon, at, incarnation, Occurrence::Strike);
                }
            }
            Command::Send(message) => self.send(message),
        }
    }

    /// The member that others would take for the leader: of those that do themselves, the one of
    /// the highest term.
    pub(super) fn leader(&self) -> Option<usize> {
        let term = |at: &usize| self.members[*at].core.as_ref().map(Core::term);
        (0..self.members.len()).filter(|at| self.members[*at].is_leader()).max_by_key(term)
    }

    pub(super) fn count(&mut self, what: &'static str) {
        *self.coverage.entry(what).or_default() += 1;
    }

    pub(super) fn trace(&mut self, what: impl FnOnce(&World) -> String) {
        if self.verbose {
            let line = format!("{:>10.3}ms {}", self.now.as_secs_f64() * 1000.0, what(self));
            self.trace.push(line);
        }
    }
}

fn pace(plan: &Plan, id: u64, seed: u64) -> u32 {
    plan.paces[(id + seed) as usize % plan.paces.len()]
}
