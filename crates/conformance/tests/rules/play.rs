//! A play: members and a log, and nothing moves unless the test says so.

use std::time::Duration;

use vetch_conformance::model::{ModelLog, Outcome};
use vetch_fence::{Author, Command, Config, Event, Index, Member, News, Ticket, Void};
use vetch_journal::{Draft, Kind, PartId, Position, Tip};

pub(crate) struct Play {
    pub(crate) log: ModelLog,
    pub(crate) members: Vec<Member>,
    pub(crate) events: Vec<Vec<Event>>,
    pub(crate) now: Duration,
}

impl Play {
    /// Members that have read an empty log.
    pub(crate) fn new(members: usize, checks_position: bool) -> Play {
        let mut play = Play {
            log: ModelLog::new(checks_position),
            members: Vec::new(),
            events: vec![Vec::new(); members],
            now: Duration::ZERO,
        };
        let start = Index { position: Position(0), tip: Tip::genesis(2) };
        for node in 0..members {
            let me = Author { node: node as u64 + 1, life: 1 };
            play.members.push(Member::new(Config::default(), me, start, play.now));
        }
        play.settle();
        play
    }

    /// What a member wants now, taken away: it is lost unless it is delivered.
    pub(crate) fn take(&mut self, who: usize) -> Vec<Command> {
        let commands = self.members[who].take_commands();
        self.events[who].extend(self.members[who].take_events());
        commands
    }

    /// What the log says to a command.
    pub(crate) fn ask(&mut self, command: &Command) -> News {
        match command.clone() {
            Command::Read { after } => News::Records(self.log.read(after, 100, 0)),
            Command::Append { ticket, after, record } => match self.log.append(after, record) {
                Outcome::Stored(at) => News::Appended { ticket, at },
                Outcome::Refused { last } => News::Refused { ticket, last: Some(last) },
                Outcome::Full => News::Full { ticket },
            },
        }
    }

    pub(crate) fn tell(&mut self, who: usize, news: News) {
        self.members[who].on(self.now, news);
        self.events[who].extend(self.members[who].take_events());
    }

    pub(crate) fn deliver(&mut self, who: usize, command: &Command) {
        let news = self.ask(command);
        self.tell(who, news);
    }

    /// Delivers everything one member wants until it wants nothing.
    pub(crate) fn settle_one(&mut self, who: usize) {
        for command in self.take(who) {
            self.deliver(who, &command);
            self.settle_one(who);
        }
    }

    pub(crate) fn settle(&mut self) {
        (0..self.members.len()).for_each(|who| self.settle_one(who));
    }

    /// Time passes for everybody, and everything is delivered at once.
    pub(crate) fn pass(&mut self, millis: u64) {
        for _ in 0..millis / 10 {
            self.now += Duration::from_millis(10);
            for who in 0..self.members.len() {
                self.members[who].tick(self.now);
                self.settle_one(who);
            }
        }
    }

    /// Time passes for one member.
    pub(crate) fn tick(&mut self, who: usize, millis: u64) {
        self.now += Duration::from_millis(millis);
        self.members[who].tick(self.now);
    }

    /// Makes a member the writer.
    pub(crate) fn elect(&mut self, who: usize) {
        self.members[who].claim_now(self.now);
        self.settle_one(who);
        for _ in 0..200 {
            if self.members[who].is_leading() {
                break;
            }
            self.tick(who, 10);
            self.settle_one(who);
        }
        assert!(self.members[who].is_leading(), "{:?}", self.events[who]);
    }

    /// One write unit with this value.
    pub(crate) fn write(&mut self, who: usize, value: u8) -> Ticket {
        let mut tip = self.members[who].head();
        let mut draft = Draft::new(Kind::Writes);
        draft.begin_part(PartId { partition: 0, owner_epoch: tip.epoch, pseq: 1 });
        draft.payload().push(value);
        draft.end_part(1);
        let chained = draft.chain(&mut tip);
        self.members[who].propose(self.now, &[chained]).expect("it leads")
    }

    /// Everybody reads what there is.
    pub(crate) fn catch_up(&mut self, who: usize) {
        let page = self.log.read(Position(self.members[who].view().position().0.saturating_sub(1)), 1000, 0);
        self.tell(who, News::Records(page));
    }

    pub(crate) fn committed(&self, who: usize, ticket: Ticket) -> bool {
        self.events[who]
            .iter()
            .any(|event| matches!(event, Event::Committed { ticket: one, .. } if *one == ticket))
    }

    pub(crate) fn void(&self, who: usize, ticket: Ticket) -> bool {
        self.events[who].iter().any(|event| matches!(event, Event::Void { ticket: one } if *one == ticket))
    }

    pub(crate) fn skipped(&self, who: usize, void: Void) -> usize {
        let same = |event: &&Event| matches!(event, Event::Skipped { void: one, .. } if *one == void);
        self.events[who].iter().filter(same).count()
    }

    pub(crate) fn halted(&self, who: usize) -> bool {
        self.events[who].iter().any(|event| matches!(event, Event::Halted(_)))
    }

    pub(crate) fn tip(&self, who: usize) -> Tip {
        *self.members[who].view().tip()
    }
}

/// The appends among commands.
pub(crate) fn appends(commands: Vec<Command>) -> Vec<Command> {
    commands.into_iter().filter(|command| matches!(command, Command::Append { .. })).collect()
}
