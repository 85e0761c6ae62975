//! Harness: replicas on a model log; every message is delivered by the test.

use std::time::Duration;

use vetch_cluster::{Command, Config, Ignored, LogEvent, LogIndex, Replica, ReplicaEvent, ReplicaId, Ticket};
use vetch_journal::{Draft, Kind, PartId, Position, Tip};
use vetch_testkit::log::model::{ModelLog, Outcome};

pub(crate) struct Harness {
    pub(crate) log: ModelLog,
    pub(crate) replicas: Vec<Replica>,
    pub(crate) events: Vec<Vec<ReplicaEvent>>,
    pub(crate) now: Duration,
}

impl Harness {
    /// Replicas that have read an empty log.
    pub(crate) fn new(replicas: usize, checks_position: bool) -> Harness {
        let mut harness = Harness {
            log: ModelLog::new(checks_position),
            replicas: Vec::new(),
            events: vec![Vec::new(); replicas],
            now: Duration::ZERO,
        };
        let start = LogIndex { position: Position(0), tip: Tip::genesis(2) };
        for at in 0..replicas {
            let me = ReplicaId { member: at as u64 + 1, incarnation: 1 };
            harness.replicas.push(Replica::new(Config::default(), me, start, harness.now));
        }
        harness.settle();
        harness
    }

    /// Takes a replica's commands. They are lost unless the test delivers them.
    pub(crate) fn take_commands(&mut self, who: usize) -> Vec<Command> {
        let commands = self.replicas[who].take_commands();
        self.events[who].extend(self.replicas[who].take_events());
        commands
    }

    /// Executes a command on the log and returns the log's answer.
    pub(crate) fn execute(&mut self, command: &Command) -> LogEvent {
        match command.clone() {
            Command::Read { after } => LogEvent::Records(self.log.read(after, 100, 0)),
            Command::Append { ticket, after, record } => match self.log.append(after, record) {
                Outcome::Stored(at) => LogEvent::Appended { ticket, at },
                Outcome::Refused { last } => LogEvent::Refused { ticket, last: Some(last) },
                Outcome::Full => LogEvent::Full { ticket },
            },
        }
    }

    pub(crate) fn handle(&mut self, who: usize, event: LogEvent) {
        self.replicas[who].handle(self.now, event);
        self.events[who].extend(self.replicas[who].take_events());
    }

    /// Executes a command and delivers the answer.
    pub(crate) fn deliver(&mut self, who: usize, command: &Command) {
        let event = self.execute(command);
        self.handle(who, event);
    }

    /// Delivers all commands of one replica until it has none.
    pub(crate) fn settle_one(&mut self, who: usize) {
        for command in self.take_commands(who) {
            self.deliver(who, &command);
            self.settle_one(who);
        }
    }

    pub(crate) fn settle(&mut self) {
        (0..self.replicas.len()).for_each(|who| self.settle_one(who));
    }

    /// Advances the time of all replicas; every command is delivered at once.
    pub(crate) fn pass(&mut self, millis: u64) {
        for _ in 0..millis / 10 {
            self.now += Duration::from_millis(10);
            for who in 0..self.replicas.len() {
                self.replicas[who].tick(self.now);
                self.settle_one(who);
            }
        }
    }

    /// Advances the time of one replica.
    pub(crate) fn tick(&mut self, who: usize, millis: u64) {
        self.now += Duration::from_millis(millis);
        self.replicas[who].tick(self.now);
    }

    /// Makes a replica the leader.
    pub(crate) fn elect(&mut self, who: usize) {
        self.replicas[who].campaign(self.now);
        self.settle_one(who);
        for _ in 0..200 {
            if self.replicas[who].is_leader() {
                break;
            }
            self.tick(who, 10);
            self.settle_one(who);
        }
        assert!(self.replicas[who].is_leader(), "{:?}", self.events[who]);
    }

    /// Proposes one write unit with this value.
    pub(crate) fn write(&mut self, who: usize, value: u8) -> Ticket {
        let mut tip = self.replicas[who].head();
        let mut draft = Draft::new(Kind::Writes);
        draft.begin_part(PartId { partition: 0, owner_epoch: tip.epoch.get(), pseq: 1 });
        draft.payload().push(value);
        draft.end_part(1);
        let sealed = draft.chain(&mut tip);
        self.replicas[who].propose(self.now, &[sealed]).expect("it is the leader")
    }

    /// Lets a replica read everything in the log.
    pub(crate) fn catch_up(&mut self, who: usize) {
        let position = self.replicas[who].log_state().position();
        let page = self.log.read(Position(position.0.saturating_sub(1)), 1000, 0);
        self.handle(who, LogEvent::Records(page));
    }

    pub(crate) fn committed(&self, who: usize, own: Ticket) -> bool {
        let same =
            |event: &ReplicaEvent| matches!(event, ReplicaEvent::Committed { ticket, .. } if *ticket == own);
        self.events[who].iter().any(same)
    }

    pub(crate) fn dropped(&self, who: usize, ticket: Ticket) -> bool {
        self.events[who].contains(&ReplicaEvent::Dropped { ticket })
    }

    /// How many records this replica ignored for this reason.
    pub(crate) fn ignored(&self, who: usize, reason: Ignored) -> usize {
        let same =
            |event: &&ReplicaEvent| matches!(event, ReplicaEvent::Ignored { why, .. } if *why == reason);
        self.events[who].iter().filter(same).count()
    }

    pub(crate) fn halted(&self, who: usize) -> bool {
        self.events[who].iter().any(|event| matches!(event, ReplicaEvent::Halted(_)))
    }

    pub(crate) fn tip(&self, who: usize) -> Tip {
        *self.replicas[who].log_state().tip()
    }
}

/// The appends among commands.
pub(crate) fn appends(commands: Vec<Command>) -> Vec<Command> {
    commands.into_iter().filter(|command| matches!(command, Command::Append { .. })).collect()
}
