//! Members in memory. Messages and writes wait until the test moves them.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use vetch_base::{Epoch, Seq};
use vetch_cluster::{Event, Ticket};
use vetch_journal::{ChainedEntry, Draft, Kind, PartId, Tip};
use vetch_raft::{
    Body, Checkpoint, Command, Config, Core, EntrySource, LogEntry, Message, Persist, Start, Vote, bootstrap,
};

struct NoSource;

impl EntrySource for NoSource {
    fn read(&self, _: Seq, _: Seq, _: u64) -> Option<Vec<LogEntry>> {
        None
    }
}

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The state that members with these voters begin with.
pub(crate) fn beginning(voters: &[u64]) -> Checkpoint {
    let ([_, last], members) = bootstrap(voters, b"", 2).expect("there are voters");
    Checkpoint { tip: *last.tip(), members }
}

pub(crate) fn member(
    me: u64,
    checkpoint: Checkpoint,
    vote: Vote,
    tail: Vec<LogEntry>,
    now: Duration,
) -> Core {
    let start = Start { me, seed: me, vote, checkpoint, tail, source: Box::new(NoSource) };
    Core::new(Config::default(), start, now)
}

pub(crate) fn entry(tip: &mut Tip, value: &[u8]) -> ChainedEntry {
    let mut draft = Draft::new(Kind::Writes);
    draft.begin_part(PartId::default());
    draft.payload().extend_from_slice(value);
    draft.end_part(1);
    draft.chain(tip)
}

pub(crate) struct Group {
    pub(crate) cores: BTreeMap<u64, Core>,
    pub(crate) now: Duration,
    pub(crate) messages: VecDeque<Message>,
    pub(crate) writes: BTreeMap<u64, VecDeque<Persist>>,
    pub(crate) events: BTreeMap<u64, Vec<Event>>,
}

impl Group {
    pub(crate) fn new(voters: &[u64]) -> Group {
        let vote = Vote { term: Epoch::new(1), member: 0 };
        let core = |id: &u64| (*id, member(*id, beginning(voters), vote, Vec::new(), Duration::ZERO));
        Group {
            cores: voters.iter().map(core).collect(),
            now: Duration::ZERO,
            messages: VecDeque::new(),
            writes: BTreeMap::new(),
            events: BTreeMap::new(),
        }
    }

    /// A group that has a leader, with everything done.
    pub(crate) fn led(voters: &[u64]) -> (Group, u64) {
        let mut group = Group::new(voters);
        for _ in 0..60 {
            group.pass(ms(100));
            group.settle();
            if let Some(leader) = group.leader() {
                return (group, leader);
            }
        }
        panic!("there is no leader after six seconds");
    }

    pub(crate) fn leader(&self) -> Option<u64> {
        self.cores.iter().find(|(_, core)| core.is_leader()).map(|(id, _)| *id)
    }

    pub(crate) fn core(&mut self, id: u64) -> &mut Core {
        self.cores.get_mut(&id).expect("it is a member")
    }

    /// Time passes for all.
    pub(crate) fn pass(&mut self, time: Duration) {
        self.now += time;
        let now = self.now;
        self.cores.values_mut().for_each(|core| core.tick(now));
        self.collect();
    }

    /// Takes what members want done and report.
    pub(crate) fn collect(&mut self) {
        for (id, core) in &mut self.cores {
            for command in core.take_commands() {
                match command {
                    Command::Persist(write) => self.writes.entry(*id).or_default().push_back(write),
                    Command::Send(message) => self.messages.push_back(message),
                }
            }
            self.events.entry(*id).or_default().extend(core.take_events());
        }
    }

    /// Everything that this member gave its disk is synced.
    pub(crate) fn sync(&mut self, id: u64) {
        while let Some(write) = self.writes.entry(id).or_default().pop_front() {
            self.core(id).persisted(write.number);
            self.collect();
        }
    }

    /// Delivers all messages that `to` lets through; the others are lost.
    pub(crate) fn deliver(&mut self, to: impl Fn(&Message) -> bool) {
        while let Some(message) = self.messages.pop_front() {
            let now = self.now;
            if to(&message)
                && let Some(core) = self.cores.get_mut(&message.to)
            {
                core.receive(now, message).expect("sound messages");
                self.collect();
            }
        }
    }

    /// Everything that is under way arrives and is synced.
    pub(crate) fn settle(&mut self) {
        while !self.messages.is_empty() || self.writes.values().any(|writes| !writes.is_empty()) {
            self.deliver(|_| true);
            let ids: Vec<u64> = self.cores.keys().copied().collect();
            ids.into_iter().for_each(|id| self.sync(id));
        }
    }

    pub(crate) fn propose(&mut self, leader: u64, value: &[u8]) -> Ticket {
        let now = self.now;
        let core = self.core(leader);
        let entry = entry(&mut core.head(), value);
        let ticket = core.propose(now, &[entry]).expect("it leads");
        self.collect();
        ticket
    }

    pub(crate) fn is_committed(&self, at: u64, wanted: Ticket) -> bool {
        let is_it = |event: &Event| matches!(event, Event::Committed { ticket, .. } if *ticket == wanted);
        self.events[&at].iter().any(is_it)
    }

    pub(crate) fn sends(&self, from: u64, is_it: impl Fn(&Body) -> bool) -> bool {
        self.messages.iter().any(|message| message.from == from && is_it(&message.body))
    }
}
