//! Members of a group, and the judge of what they report: every event is held against the contract
//! at the head of `vetch_cluster`'s `replicated_log.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use vetch_base::{Epoch, Seq};
use vetch_cluster::{Event, LogIndex, ReadId, Refusal, ReplicatedLog, Ticket};
use vetch_journal::{Draft, Hash, Kind, PartId, Payload, Position, Tip};

use super::super::{Cut, ReplicatedGroup};

/// Between two steps of every member.
const TICK: Duration = Duration::from_millis(5);
/// Longer than any engine takes to agree on a leader when nothing is wrong.
pub(super) const PEACE: Duration = Duration::from_secs(30);

pub(super) fn beginning() -> LogIndex {
    LogIndex { position: Position(0), tip: Tip::genesis(2) }
}

/// A write of one unit.
pub(super) fn write(payload: &str) -> Draft {
    let mut draft = Draft::new(Kind::Writes);
    draft.begin_part(PartId::default());
    draft.payload().extend_from_slice(payload.as_bytes());
    draft.end_part(1);
    draft
}

/// One member, and what it has reported in this life.
pub(super) struct Member {
    pub(super) log: Box<dyn ReplicatedLog>,
    /// What it proposed and was not told the outcome of.
    pub(super) undecided: BTreeMap<Ticket, Vec<Bytes>>,
    last_ticket: Option<Ticket>,
    /// The epoch that it leads.
    pub(super) leads: Option<Epoch>,
    pub(super) follows: Option<Epoch>,
    pub(super) last: Tip,
    /// The payloads of the writes that it was told of, by sequence number.
    pub(super) writes: BTreeMap<Seq, Bytes>,
    pub(super) indexes: BTreeMap<ReadId, LogIndex>,
    pub(super) lost_reads: BTreeSet<ReadId>,
    pub(super) behind: Option<Position>,
    pub(super) transferred: bool,
}

/// What is true of all members together.
#[derive(Default)]
struct Judge {
    entries: BTreeMap<Seq, Hash>,
    leaders: BTreeMap<Epoch, usize>,
    dropped: BTreeSet<Bytes>,
    /// The last entry that any member reported as committed.
    newest: Seq,
    /// What had been reported when each read asked.
    asked: BTreeMap<ReadId, Seq>,
}

pub(super) struct Members {
    pub(super) group: Box<dyn ReplicatedGroup>,
    pub(super) members: Vec<Option<Member>>,
    /// One that does nothing, although time passes for it.
    pub(super) paused: Option<usize>,
    judge: Judge,
}

impl Members {
    /// Starts all of them.
    pub(super) fn start(group: Box<dyn ReplicatedGroup>, count: usize) -> Members {
        let members = (0..count).map(|_| None).collect();
        let mut started = Members { group, members, paused: None, judge: Judge::default() };
        (0..count).for_each(|at| started.start_one(at, beginning()));
        started
    }

    pub(super) fn start_one(&mut self, at: usize, start: LogIndex) {
        self.members[at] = None;
        self.members[at] = Some(Member {
            log: self.group.start(at, start),
            undecided: BTreeMap::new(),
            last_ticket: None,
            leads: None,
            follows: None,
            last: start.tip,
            writes: BTreeMap::new(),
            indexes: BTreeMap::new(),
            lost_reads: BTreeSet::new(),
            behind: None,
            transferred: false,
        });
    }

    pub(super) fn stop(&mut self, at: usize) {
        self.members[at] = None;
    }

    pub(super) fn member(&mut self, at: usize) -> &mut Member {
        self.members[at].as_mut().expect("it was started")
    }

    /// Steps every member once and lets time pass.
    pub(super) fn tick(&mut self) {
        for at in 0..self.members.len() {
            let Some(member) = self.members[at].as_mut().filter(|_| self.paused != Some(at)) else {
                continue;
            };
            for event in member.log.step(Duration::ZERO) {
                self.judge.event(at, member, event);
            }
            self.judge.status(member);
        }
        self.group.pass(TICK);
    }

    pub(super) fn pass(&mut self, time: Duration) {
        (0..time.as_millis() / TICK.as_millis()).for_each(|_| self.tick());
    }

    /// Ticks until it is so.
    pub(super) fn wait(&mut self, what: &str, mut is_so: impl FnMut(&mut Members) -> bool) {
        for _ in 0..PEACE.as_millis() / TICK.as_millis() {
            if is_so(self) {
                return;
            }
            self.tick();
        }
        panic!("not within {PEACE:?}: {what}");
    }

    /// The member that leads and can be reached.
    pub(super) fn leader(&mut self) -> usize {
        let mut leader = None;
        self.wait("a leader", |members| {
            leader = members.members.iter().position(|member| {
                member.as_ref().is_some_and(|member| member.leads.is_some() && member.log.may_propose())
            });
            leader.is_some()
        });
        leader.expect("it was waited for")
    }

    pub(super) fn propose(&mut self, at: usize, payloads: &[&str]) -> Result<Ticket, Refusal> {
        let drafts: Vec<Draft> = payloads.iter().map(|payload| write(payload)).collect();
        let member = self.member(at);
        let ticket = member.log.propose(&drafts.iter().collect::<Vec<_>>())?;
        assert!(member.leads.is_some(), "only a leader's proposal is taken");
        assert!(member.last_ticket.is_none_or(|last| last < ticket), "tickets grow");
        member.last_ticket = Some(ticket);
        let payloads = payloads.iter().map(|payload| Bytes::copy_from_slice(payload.as_bytes()));
        member.undecided.insert(ticket, payloads.collect());
        Ok(ticket)
    }

    /// Has this written by another leader than one that does not know that it was replaced.
    pub(super) fn write_all_but(&mut self, old: usize, payload: &str) {
        let at = (0..self.members.len()).find(|at| *at != old && self.member(*at).log.may_propose());
        let at = at.expect("another member leads");
        let ticket = self.propose(at, &[payload]).expect("it may propose");
        self.wait("a decision", |members| !members.member(at).undecided.contains_key(&ticket));
    }

    /// Has these written one after another by a leader, whichever leads.
    pub(super) fn write_all(&mut self, payloads: &[&str]) {
        for payload in payloads {
            let at = self.leader();
            let ticket = self.propose(at, &[payload]).expect("it may propose");
            self.wait("a decision", |members| !members.member(at).undecided.contains_key(&ticket));
        }
    }

    pub(super) fn read_index(&mut self, at: usize, id: u64) -> Result<(), Refusal> {
        let read = ReadId(id);
        self.judge.asked.insert(read, self.judge.newest);
        self.member(at).log.read_index(read)
    }

    pub(super) fn cut(&mut self, at: usize, cut: Option<Cut>) {
        self.group.cut(at, cut);
    }

    /// Waits until every member that runs has all that any was told of, and compares.
    pub(super) fn converge(&mut self) -> Vec<Bytes> {
        self.wait("all members have the same", |members| {
            let newest = members.judge.newest;
            members.members.iter().flatten().all(|member| member.log.status().index.tip.seq >= newest)
        });
        let mut all: Option<BTreeMap<Seq, Bytes>> = None;
        for member in self.members.iter().flatten() {
            let all = all.get_or_insert_with(|| member.writes.clone());
            assert_eq!(*all, member.writes, "members were told of different writes");
        }
        all.unwrap_or_default().into_values().collect()
    }
}

impl Judge {
    fn event(&mut self, at: usize, member: &mut Member, event: Event) {
        assert!(member.behind.is_none(), "nothing follows `Behind`: {event:?}");
        match event {
            Event::Applied { entry, tip } => {
                if let Some(payload) = written(&entry.parts) {
                    assert!(member.leads.is_none(), "a leader is told of another member's write");
                    self.hold(member, tip, vec![payload]);
                } else {
                    self.hold(member, tip, Vec::new());
                }
            }
            Event::Committed { ticket, tip } => {
                let payloads = self.decide(member, ticket);
                self.hold(member, tip, payloads);
            }
            Event::Dropped { ticket } => {
                let payloads = self.decide(member, ticket);
                self.dropped.extend(payloads);
            }
            Event::Leading { epoch, tip } => {
                assert!(member.undecided.is_empty(), "a ticket of an earlier epoch is undecided");
                let other = *self.leaders.entry(epoch).or_insert(at);
                assert_eq!(other, at, "epoch {epoch} has two leaders");
                assert_eq!((tip.epoch, tip.seq), (epoch, member.last.seq), "all before was reported");
                (member.leads, member.follows) = (Some(epoch), None);
            }
            Event::Following { epoch, .. } => {
                assert!(member.undecided.is_empty(), "a ticket of a leader that was replaced is undecided");
                (member.leads, member.follows) = (None, Some(epoch));
            }
            Event::LeadershipTransferred => {
                let undecided = std::mem::take(&mut member.undecided);
                assert!(undecided.len() == 1 && undecided.values().all(Vec::is_empty), "{undecided:?}");
                (member.leads, member.transferred) = (None, true);
            }
            Event::ReadIndex { reads, index } => {
                for read in reads {
                    let asked = self.asked.get(&read).expect("it was asked");
                    assert!(index.tip.seq >= *asked, "an index older than what had been committed");
                    member.indexes.insert(read, index);
                }
            }
            Event::ReadIndexLost { reads } => member.lost_reads.extend(reads),
            Event::Behind { first } => member.behind = Some(first),
            Event::NoLeader | Event::Full => {}
            Event::Suspect { .. } | Event::Halted(_) => panic!("on a log that keeps its contract: {event:?}"),
        }
    }

    /// An entry is committed; the last of those of a proposal, which have these payloads.
    fn hold(&mut self, member: &mut Member, tip: Tip, payloads: Vec<Bytes>) {
        assert!(tip.seq > member.last.seq, "entries are reported in order");
        assert!(tip.epoch >= member.last.epoch && tip.next_rev >= member.last.next_rev);
        let hash = *self.entries.entry(tip.seq).or_insert(tip.hash);
        assert_eq!(hash, tip.hash, "entry {} is not the same everywhere", tip.seq);
        member.last = tip;
        self.newest = self.newest.max(tip.seq);
        let before = payloads.len() as u64;
        for (number, payload) in payloads.into_iter().enumerate() {
            assert!(!self.dropped.contains(&payload), "what was dropped is committed: {payload:?}");
            let seq = Seq::new(tip.seq.get() + 1 + number as u64 - before);
            member.writes.insert(seq, payload);
        }
    }

    fn decide(&mut self, member: &mut Member, ticket: Ticket) -> Vec<Bytes> {
        let first = member.undecided.first_key_value().map(|(first, _)| *first);
        assert_eq!(first, Some(ticket), "tickets are decided once, in order");
        member.undecided.remove(&ticket).expect("it is the first")
    }

    /// What holds whenever all events were handled.
    fn status(&self, member: &Member) {
        let status = member.log.status();
        let tip = status.index.tip;
        assert!(tip.seq >= member.last.seq, "the index is not behind what was reported");
        assert!(tip.seq > member.last.seq || tip == member.last);
        assert_eq!(status.is_stopped, member.behind.is_some());
        let leads = member.leads.is_some();
        assert!(leads || !member.log.may_propose(), "only a leader may propose");
        if let Some(lease) = member.log.lease() {
            assert!(leads && member.undecided.is_empty() && lease.index == status.index);
            let holds = member.log.now() < lease.until;
            assert!(!holds || lease.index.tip.seq >= self.newest, "a lease on an old state");
        }
    }
}

/// The payload of a write.
fn written(parts: &[vetch_journal::Part]) -> Option<Bytes> {
    let part = parts.iter().find(|part| part.count > 0)?;
    match &part.payload {
        Payload::Inline(payload) => Some(payload.clone()),
        Payload::Ref(_) => panic!("no case proposes a payload outside"),
    }
}
