//! Driver: a replica on a log that lives elsewhere, in real time: the engine of `ReplicatedLog` for
//! logs that are no more than ordered and durable. Its owner calls `step` in a loop.
//!
//! `room` adds up what the log still takes.
#![expect(clippy::disallowed_methods, reason = "runs a replica in real time")]

mod room;

use std::time::{Duration, Instant};

use vetch_base::Seq;
use vetch_journal::{ChainedEntry, Draft, JournalError, Kind, Position};

use crate::core::{
    Command, Config, Lease, LogIndex, ReadId, Refusal, Replica, ReplicaEvent, ReplicaId, transfer_target,
};
use crate::log::{Log, Ticket, Waker};
use crate::pace::Pace;
use crate::replicated_log::{Clock, Engine, Event, LogStatus, Reached, ReplicatedLog, Room, Start};

/// Log events handled in one step, so that the replica's timers run even under a flood of them.
const LOG_EVENTS_MAX: usize = 256;
/// After this long without a new entry there is no leader: even an idle one appends several a
/// second. As long as three election timeouts of etcd.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(3);

pub struct Driver<L> {
    replica: Replica,
    log: L,
    clock: Clock,
    room: room::Gauge,
    /// The append of a leadership transfer that is under way.
    transfer: Option<Ticket>,
    /// The last entry read, and when it was read.
    last_read: (Seq, Duration),
}

impl<L: Log> Driver<L> {
    /// With the clock of the operating system.
    pub fn new(log: L, config: Config, me: ReplicaId, start: LogIndex) -> Driver<L> {
        let began = Instant::now();
        Driver::with_clock(log, config, me, start, Box::new(move || began.elapsed()))
    }

    /// Begins behind `start`, which a checkpoint remembers. Records are as large as the log takes.
    pub fn with_clock(log: L, config: Config, me: ReplicaId, start: LogIndex, clock: Clock) -> Driver<L> {
        let config = Config { max_record: log.max_record(), ..config };
        let now = clock();
        let replica = Replica::new(config, me, start, now);
        let last_read = (start.tip.seq, now);
        Driver { replica, log, clock, room: room::Gauge::default(), transfer: None, last_read }
    }

    pub fn replica(&self) -> &Replica {
        &self.replica
    }

    pub fn replica_mut(&mut self) -> &mut Replica {
        &mut self.replica
    }

    pub fn log_mut(&mut self) -> &mut L {
        &mut self.log
    }

    /// Executes the replica's commands, waits at most this long for log events, and returns what
    /// the replica reports.
    pub fn step_replica(&mut self, wait: Duration) -> Vec<ReplicaEvent> {
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

    /// What an event of the replica means to a caller that knows of no log underneath.
    fn report(&mut self, event: ReplicaEvent) -> Option<Event> {
        Some(match event {
            ReplicaEvent::Applied { entry, tip, .. } => Event::Applied { entry, tip },
            // `LeadershipTransferred` is next.
            ReplicaEvent::Committed { ticket, .. } if self.transfer == Some(ticket) => return None,
            ReplicaEvent::Committed { ticket, tip, .. } => Event::Committed { ticket, tip },
            ReplicaEvent::Dropped { ticket } => Event::Dropped { ticket },
            ReplicaEvent::ReadIndex { reads, index } => Event::ReadIndex { reads, index },
            ReplicaEvent::ReadIndexLost { reads } => Event::ReadIndexLost { reads },
            ReplicaEvent::Leading { epoch, tip } => Event::Leading { epoch, tip },
            ReplicaEvent::LeadershipTransferred => Event::LeadershipTransferred,
            ReplicaEvent::Following { epoch, leader } => Event::Following { epoch, leader },
            ReplicaEvent::Ignored { .. } => return None,
            ReplicaEvent::Suspect { read, end } => Event::Suspect { read, end },
            ReplicaEvent::Full => return self.room.refuse((self.clock)()).then_some(Event::Full),
            ReplicaEvent::Behind { first } => Event::Behind { first },
            ReplicaEvent::Halted(divergence) => Event::Halted(divergence),
        })
    }

    /// Gives drafts their places behind everything in flight.
    fn chain(&self, drafts: &[&Draft]) -> Vec<ChainedEntry> {
        let mut tip = self.replica.head();
        match drafts {
            // A leader that was replaced cannot have one accepted.
            [] => vec![Draft::new(Kind::Barrier).chain(&mut tip)],
            drafts => drafts.iter().map(|draft| (*draft).clone().chain(&mut tip)).collect(),
        }
    }
}

impl<L: Log> ReplicatedLog for Driver<L> {
    fn now(&self) -> Duration {
        (self.clock)()
    }

    fn waker(&self) -> Option<Waker> {
        self.log.waker()
    }

    fn pace(&self) -> Pace {
        match self.replica.has_lease((self.clock)()) {
            true => Pace { read_window: Duration::ZERO, ..self.log.pace() },
            false => self.log.pace(),
        }
    }

    fn max_record(&self) -> usize {
        self.log.max_record()
    }

    fn step(&mut self, wait: Duration) -> Vec<Event> {
        let reported = self.step_replica(wait);
        let seq = self.replica.log_state().tip().seq;
        if self.last_read.0 != seq {
            self.last_read = (seq, (self.clock)());
        }
        let mut events = Vec::with_capacity(reported.len());
        for event in reported {
            let names_successor =
                matches!(&event, ReplicaEvent::Applied { entry, .. } if transfer_target(entry).is_some());
            events.extend(self.report(event));
            if names_successor {
                events.push(Event::NoLeader);
            }
        }
        events
    }

    fn status(&self) -> LogStatus {
        let state = self.replica.log_state();
        LogStatus {
            index: state.index(),
            position: state.position(),
            is_caught_up: self.replica.is_caught_up(),
            is_suspect: self.replica.is_suspect(),
            is_silent: (self.clock)() >= self.last_read.1 + SILENCE_TIMEOUT,
            is_stopped: self.replica.is_stopped(),
        }
    }

    fn lease(&self) -> Option<Lease> {
        self.replica.lease()
    }

    fn may_propose(&self) -> bool {
        self.replica.may_propose()
    }

    fn propose(&mut self, drafts: &[&Draft]) -> Result<Ticket, Refusal> {
        let (now, entries) = ((self.clock)(), self.chain(drafts));
        let ticket = self.replica.propose(now, &entries)?;
        self.room.add(now, entries.iter().map(|entry| entry.bytes().len()).sum());
        Ok(ticket)
    }

    fn transfer_leadership(&mut self, to: ReplicaId) -> Result<Ticket, Refusal> {
        let ticket = self.replica.transfer_leadership((self.clock)(), to)?;
        self.transfer = Some(ticket);
        Ok(ticket)
    }

    fn read_index(&mut self, read: ReadId) -> Result<(), Refusal> {
        self.replica.read_index((self.clock)(), read)
    }

    fn reached(&mut self, index: &LogIndex) -> Reached {
        if self.replica.reached(index) {
            return Reached::Yes;
        }
        let state = self.replica.log_state();
        match state.tip().seq >= index.tip.seq && !matches!(state.reached(index), Ok(true)) {
            true => Reached::Unknown,
            false => Reached::NotYet,
        }
    }

    fn room(&mut self) -> Room {
        let (now, record) = ((self.clock)(), self.log.max_record() as u64);
        self.room.room(now, self.log.space(), record, self.replica.is_leader())
    }

    fn trim(&mut self, floor: Position) {
        self.log.start_trim(floor);
    }
}

/// An ordered durable log that lives elsewhere, as an engine: servers elect a leader and agree by
/// the rules of this crate.
pub struct OrderedLog {
    log: Box<dyn Log>,
    config: Config,
}

impl OrderedLog {
    pub fn new(log: impl Log + 'static, config: Config) -> OrderedLog {
        OrderedLog { log: Box::new(log), config }
    }
}

impl Engine for OrderedLog {
    fn begin(self: Box<Self>, start: Start) -> Result<Box<dyn ReplicatedLog>, JournalError> {
        let Start { me, index, clock } = start;
        Ok(Box::new(Driver::with_clock(self.log, self.config, me, index, clock)))
    }
}
