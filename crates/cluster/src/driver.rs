//! Driver: a replica on a log, in real time. Its owner calls `step` in a loop.

use std::time::{Duration, Instant};

use crate::core::{Command, Config, Event, LogIndex, Replica, ReplicaId};
use crate::log::Log;

/// Log events handled in one step, so that the replica's timers run even under a flood of them.
const LOG_EVENTS_MAX: usize = 256;

pub struct Driver<L> {
    replica: Replica,
    log: L,
    clock: Clock,
}

/// Returns the time since some fixed moment. Never goes back.
pub type Clock = Box<dyn Fn() -> Duration + Send>;

impl<L: Log> Driver<L> {
    /// With the clock of the operating system.
    pub fn new(log: L, config: Config, me: ReplicaId, start: LogIndex) -> Driver<L> {
        let began = Instant::now();
        Driver::with_clock(log, config, me, start, Box::new(move || began.elapsed()))
    }

    /// Begins behind `start`, which a checkpoint remembers. Records are as large as the log takes.
    pub fn with_clock(log: L, config: Config, me: ReplicaId, start: LogIndex, clock: Clock) -> Driver<L> {
        let config = Config { max_record: log.max_record(), ..config };
        Driver { replica: Replica::new(config, me, start, clock()), log, clock }
    }

    pub fn now(&self) -> Duration {
        (self.clock)()
    }

    pub fn replica(&self) -> &Replica {
        &self.replica
    }

    pub fn replica_mut(&mut self) -> &mut Replica {
        &mut self.replica
    }

    pub fn log(&self) -> &L {
        &self.log
    }

    pub fn log_mut(&mut self) -> &mut L {
        &mut self.log
    }

    /// Executes the replica's commands, waits at most this long for log events, and returns what
    /// the replica reports.
    pub fn step(&mut self, wait: Duration) -> Vec<Event> {
        self.execute_commands();
        let mut wait = if self.replica.has_events() { Duration::ZERO } else { wait };
        for _ in 0..LOG_EVENTS_MAX {
            let Some(event) = self.log.next(wait) else { break };
            self.replica.handle((self.clock)(), event);
            wait = Duration::ZERO;
        }
        self.replica.tick((self.clock)());
        self.execute_commands();
        self.replica.take_events()
    }

    fn execute_commands(&mut self) {
        for command in self.replica.take_commands() {
            match command {
                Command::Append { ticket, after, record } => self.log.append(ticket, after, record),
                Command::Read { after } => self.log.read(after),
            }
        }
    }
}
