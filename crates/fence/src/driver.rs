//! Driver: a member on a log, in the time it is given. Whoever owns it calls `step` again and
//! again.

use std::time::{Duration, Instant};

use crate::config::Config;
use crate::log::Log;
use crate::member::{Command, Event, Member};
use crate::record::Author;
use crate::view::Index;

/// At most this much news is taken in one step, so that time passes for the member even in a flood.
const NEWS_AT_ONCE: usize = 256;

pub struct Driver<L> {
    member: Member,
    log: L,
    clock: Clock,
}

/// Tells how long ago some fixed moment was, and never goes back.
pub type Clock = Box<dyn Fn() -> Duration + Send>;

impl<L: Log> Driver<L> {
    /// In real time.
    pub fn new(log: L, config: Config, me: Author, start: Index) -> Driver<L> {
        let began = Instant::now();
        Driver::timed(log, config, me, start, Box::new(move || began.elapsed()))
    }

    /// Begins behind `start`, which a checkpoint remembers. Records are as large as the log takes.
    pub fn timed(log: L, config: Config, me: Author, start: Index, clock: Clock) -> Driver<L> {
        let config = Config { max_record: log.max_record(), ..config };
        Driver { member: Member::new(config, me, start, clock()), log, clock }
    }

    pub fn now(&self) -> Duration {
        (self.clock)()
    }

    pub fn member(&self) -> &Member {
        &self.member
    }

    pub fn member_mut(&mut self) -> &mut Member {
        &mut self.member
    }

    pub fn log(&self) -> &L {
        &self.log
    }

    pub fn log_mut(&mut self) -> &mut L {
        &mut self.log
    }

    /// Carries out what the member wants, waits at most this long for news, and returns what it has
    /// to tell.
    pub fn step(&mut self, wait: Duration) -> Vec<Event> {
        self.carry_out();
        let mut wait = if self.member.has_events() { Duration::ZERO } else { wait };
        for _ in 0..NEWS_AT_ONCE {
            let Some(news) = self.log.next(wait) else { break };
            self.member.on((self.clock)(), news);
            wait = Duration::ZERO;
        }
        self.member.tick((self.clock)());
        self.carry_out();
        self.member.take_events()
    }

    fn carry_out(&mut self) {
        for command in self.member.take_commands() {
            match command {
                Command::Append { ticket, after, record } => self.log.append(ticket, after, record),
                Command::Read { after } => self.log.read(after),
            }
        }
    }
}
