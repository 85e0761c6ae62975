//! Replica: one server's part in the protocol. It follows the log, campaigns when there seems to be
//! no leader, and appends while the current epoch is its own.
//!
//! The rule for the leader is the rule for readers: an append is committed once its leader has read
//! the log up to it and accepted it. If the engine says that it lies right behind what was read,
//! that is known without reading; if not, what lies between is read first. So there is one judge
//! (`LogState`), and acknowledged means accepted.
//!
//! Every unexpected outcome of an append (refused, unknown, too late, ignored) ends in the same
//! way: read to the end, campaign for the next epoch, read through the new-epoch entry. Then
//! everything in flight is decided, because what was not in the log before that entry can never be
//! accepted.

use std::time::Duration;

use vetch_journal::{Position, Tip};
use vetch_seeded_bugs::Bug;

use super::config::Config;
use super::divergence::Divergence;
use super::election_timer::ElectionTimer;
use super::event::{Command, ReadId, ReplicaEvent};
use super::in_flight::InFlight;
use super::log_state::{LogIndex, LogState};
use super::record::ReplicaId;
use super::role::{Role, ShortLog};
use crate::log::{LogEvent, Ticket};

/// Records read again after a reconnect, to verify that the log is the same.
pub const VERIFIED_RECORDS: u64 = 8;

/// One server's part in the protocol.
pub struct Replica {
    pub(crate) config: Config,
    pub(crate) me: ReplicaId,
    pub(crate) log_state: LogState,
    pub(crate) role: Role,
    pub(crate) in_flight: InFlight,
    /// The append of a leadership transfer, while it is in flight.
    pub(crate) transfer: Option<Ticket>,
    /// Reads that no append has been started for.
    pub(crate) reads: Vec<ReadId>,
    /// Until when no other replica can have become leader; see `lease`.
    pub(crate) lease_until: Duration,
    pub(crate) election_timer: ElectionTimer,
    pub(crate) last_append: Duration,
    /// When the read of the log that is under way was requested.
    pub(crate) reading: Option<Duration>,
    pub(crate) poll_at: Duration,
    pub(crate) short: Option<ShortLog>,
    /// Whether this connection to the log has shown the last records read.
    pub(crate) verified: bool,
    pub(crate) stopped: bool,
    /// Whether an answer has shown the end of the log, and all before it was read.
    pub(crate) caught_up: bool,
    last_ticket: u64,
    pub(crate) commands: Vec<Command>,
    pub(crate) events: Vec<ReplicaEvent>,
}

impl Replica {
    /// A follower that begins where a checkpoint was taken.
    pub fn new(config: Config, me: ReplicaId, start: LogIndex, now: Duration) -> Replica {
        let mut election_timer = ElectionTimer::new(me.incarnation ^ me.member.rotate_left(32));
        election_timer.reset(now, &config);
        let mut replica = Replica {
            config,
            me,
            log_state: LogState::new(start),
            role: Role::Follower,
            in_flight: InFlight::default(),
            transfer: None,
            reads: Vec::new(),
            lease_until: Duration::ZERO,
            election_timer,
            last_append: now,
            reading: None,
            poll_at: now,
            short: None,
            verified: start.position.0 == 0,
            stopped: false,
            caught_up: false,
            last_ticket: 0,
            commands: Vec::new(),
            events: Vec::new(),
        };
        replica.request_read(now);
        replica
    }

    pub fn take_commands(&mut self) -> Vec<Command> {
        std::mem::take(&mut self.commands)
    }

    pub fn take_events(&mut self) -> Vec<ReplicaEvent> {
        std::mem::take(&mut self.events)
    }

    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    pub fn log_state(&self) -> &LogState {
        &self.log_state
    }

    pub fn is_leader(&self) -> bool {
        matches!(self.role, Role::Leader)
    }

    /// Whether this replica has stopped: it halted, or the log was trimmed beyond it.
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Whether everything that the log held at some moment since the start has been read.
    pub fn is_caught_up(&self) -> bool {
        self.caught_up
    }

    /// Whether the log seems to have lost what was read from it.
    pub fn is_suspect(&self) -> bool {
        self.short.is_some_and(|short| short.reported)
    }

    /// The tip to chain the next entry on: after everything in flight.
    pub fn head(&self) -> Tip {
        *self.in_flight.head().unwrap_or(self.log_state.tip())
    }

    /// Whether this replica has reached `index`, so that a read may be answered. Halts if its
    /// history is not the leader's.
    pub fn reached(&mut self, index: &LogIndex) -> bool {
        if self.stopped || !self.verified {
            return false;
        }
        if vetch_seeded_bugs::on(Bug::IndexUnchecked) {
            return self.log_state.tip().seq >= index.tip.seq;
        }
        match self.log_state.reached(index) {
            Ok(reached) => reached,
            Err(divergence) => {
                self.halt(divergence);
                false
            }
        }
    }

    /// Handles what the log reported.
    pub fn handle(&mut self, now: Duration, event: LogEvent) {
        if self.stopped {
            return;
        }
        match event {
            LogEvent::Appended { ticket, at } => self.on_appended(now, ticket, at),
            LogEvent::Refused { ticket, .. } | LogEvent::Unknown { ticket, .. } => {
                self.on_append_failed(now, ticket)
            }
            LogEvent::Full { ticket } => {
                self.events.push(ReplicaEvent::Full);
                self.on_append_failed(now, ticket);
            }
            LogEvent::Records(page) => self.on_page(now, page),
            LogEvent::Reconnected => self.on_reconnected(now),
            LogEvent::ReadFailed { .. } => {}
        }
        self.append_barrier_for_reads(now);
    }

    /// Advances the time.
    pub fn tick(&mut self, now: Duration) {
        if self.stopped {
            return;
        }
        let is_lost = self.reading.is_some_and(|since| now >= since + self.config.read_timeout);
        let has_gap = self.reading.is_none() && self.in_flight.has_gap();
        let must_poll = is_lost || (self.reading.is_none() && now >= self.poll_at);
        match self.role {
            Role::Follower if self.election_timer.is_expired(now) => self.begin_campaign(now),
            Role::Follower if must_poll => self.request_read(now),
            Role::Follower => {}
            Role::Candidate(_) => self.tick_candidate(now, is_lost || has_gap),
            Role::Leader => self.tick_leader(now, is_lost || has_gap),
        }
        self.append_barrier_for_reads(now);
    }

    fn on_appended(&mut self, now: Duration, ticket: Ticket, at: Position) {
        // A position means nothing until what lies before it is known to be what was read. Reading
        // will show the record.
        if !self.verified {
            return;
        }
        let record = self.campaign_record(ticket).or_else(|| self.in_flight.acknowledge(ticket));
        let Some(record) = record else { return };
        if vetch_seeded_bugs::on(Bug::AckTrusted) && self.in_flight.has_ticket(ticket) {
            let tip = self.head();
            self.events.push(ReplicaEvent::Committed { ticket, at, tip });
            return;
        }
        if at <= self.log_state.position() {
            // It was read before it was acknowledged, unless the log put it where another record
            // had been.
            if let Err(divergence) = self.log_state.reread(at, &record) {
                self.halt(divergence);
            }
            return;
        }
        self.in_flight.set_position(at, record);
        self.read_acknowledged(now);
        if self.in_flight.has_gap() && self.reading.is_none() && !self.stopped {
            self.request_read(now);
        }
    }

    fn on_append_failed(&mut self, now: Duration, ticket: Ticket) {
        if self.is_campaign_append(ticket) {
            self.campaign_failed(now);
        } else if self.in_flight.has_ticket(ticket) && self.is_leader() {
            self.recover(now);
        }
    }

    /// The engine's new endpoint has to show that it holds what was read from the old one.
    fn on_reconnected(&mut self, now: Duration) {
        self.verified = self.log_state.position().0 == 0 || vetch_seeded_bugs::on(Bug::AnchorSkipped);
        self.in_flight.discard_positions();
        match self.role {
            Role::Follower => self.request_read(now),
            Role::Candidate(_) => self.campaign_failed(now),
            Role::Leader => self.recover(now),
        }
    }

    pub(crate) fn next_ticket(&mut self) -> Ticket {
        self.last_ticket += 1;
        Ticket(self.last_ticket)
    }

    pub(crate) fn halt(&mut self, divergence: Divergence) {
        self.stop(ReplicaEvent::Halted(divergence));
    }

    pub(crate) fn stop(&mut self, last: ReplicaEvent) {
        self.stopped = true;
        self.role = Role::Follower;
        self.commands.clear();
        self.events.push(last);
    }
}
