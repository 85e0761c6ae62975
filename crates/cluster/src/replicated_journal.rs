//! Replicated journal: a log behind the contract of `vetch_journal`, for a caller that waits for
//! each append.
//!
//! Between calls nothing happens: no heartbeat is written and no record is read. A server that
//! takes part all the time drives a `Replica` instead; this is for tools, for tests, and for one
//! server at a time.
#![expect(clippy::disallowed_methods, reason = "runs a replica in real time")]

use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use vetch_base::Epoch;
use vetch_journal::{Appended, ChainedEntry, Corrupt, Journal, JournalError, Position, Read, ReadItem, Tip};

use crate::core::{Config, Divergence, LogIndex, LogState, ReadOutcome, Refusal, ReplicaEvent, ReplicaId};
use crate::driver::Driver;
use crate::log::{Log, LogEvent, Ticket};
use crate::replicated_log::ReplicatedLog;

const STEP: Duration = Duration::from_millis(10);

/// The journal on a log, as one server sees it.
pub struct ReplicatedJournal<L: Log> {
    driver: RefCell<Driver<L>>,
    start: LogIndex,
    tip: Tip,
    has_epoch: bool,
    /// How long a call waits for the log.
    timeout: Duration,
}

impl<L: Log> ReplicatedJournal<L> {
    /// Begins behind `start`, which a checkpoint remembers.
    pub fn new(
        log: L,
        config: Config,
        me: ReplicaId,
        start: LogIndex,
        timeout: Duration,
    ) -> ReplicatedJournal<L> {
        // Callers of `claim` campaign at once, without an election timeout, so leases do not hold.
        let config = Config { lease_duration: Duration::ZERO, ..config };
        let driver = RefCell::new(Driver::new(log, config, me, start));
        ReplicatedJournal { driver, start, tip: start.tip, has_epoch: false, timeout }
    }

    /// What a checkpoint taken now must remember.
    pub fn index(&self) -> LogIndex {
        self.driver.borrow().replica().log_state().index()
    }

    pub fn log_mut(&mut self) -> &mut L {
        self.driver.get_mut().log_mut()
    }

    /// Steps until this append is committed or dropped, and returns its position or `None`.
    fn wait_for(&mut self, own: Ticket) -> Result<Option<Position>, JournalError> {
        let begun = Instant::now();
        while begun.elapsed() < self.timeout {
            let events = self.driver.get_mut().step_replica(STEP);
            self.tip = *self.driver.get_mut().replica().log_state().tip();
            if let Some(stopped) = events.iter().find_map(stopped) {
                return Err(stopped);
            }
            for event in &events {
                match event {
                    ReplicaEvent::Committed { ticket, at, .. } if *ticket == own => return Ok(Some(*at)),
                    ReplicaEvent::Dropped { ticket } if *ticket == own => return Ok(None),
                    _ => {}
                }
            }
        }
        Err(JournalError::Unknown(format!("the log gave no answer for {:?}", self.timeout)))
    }

    fn fenced(&self, found: Epoch) -> JournalError {
        JournalError::Fenced { current: self.tip.epoch, found }
    }
}

impl<L: Log> Journal for ReplicatedJournal<L> {
    fn claim(&mut self) -> Result<Tip, JournalError> {
        let begun = Instant::now();
        while begun.elapsed() < self.timeout {
            let driver = self.driver.get_mut();
            let now = driver.now();
            driver.replica_mut().campaign(now);
            let events = driver.step_replica(STEP);
            self.tip = *driver.replica().log_state().tip();
            if let Some(stopped) = events.iter().find_map(stopped) {
                return Err(stopped);
            }
            if events.iter().any(|event| matches!(event, ReplicaEvent::Leading { .. })) {
                self.has_epoch = true;
                return Ok(self.tip);
            }
        }
        Err(JournalError::Unknown(format!("no campaign succeeded for {:?}", self.timeout)))
    }

    fn append_batch(&mut self, entries: &[ChainedEntry]) -> Result<Appended, JournalError> {
        if !self.has_epoch {
            return Err(JournalError::OutOfOrder("claim comes first".into()));
        }
        let begun = Instant::now();
        let epoch = entries.first().map_or(self.tip.epoch, |entry| entry.after().epoch);
        let driver = self.driver.get_mut();
        let now = driver.now();
        let ticket = driver.replica_mut().propose(now, entries).map_err(|refusal| match refusal {
            Refusal::NotLeader => JournalError::Fenced { current: self.tip.epoch, found: epoch },
            Refusal::TooLarge { len, max } => JournalError::TooLarge { len: len as u64, max: max as u64 },
            Refusal::Busy | Refusal::OutOfOrder => JournalError::OutOfOrder(refusal.to_string()),
        })?;
        let Some(position) = self.wait_for(ticket)? else {
            let is_leader = self.driver.get_mut().replica().is_leader();
            return Err(if is_leader { dropped(epoch) } else { self.fenced(epoch) });
        };
        let bytes = entries.iter().map(|entry| entry.bytes().len() as u64).sum();
        Ok(Appended { position, bytes, write: Duration::ZERO, sync: begun.elapsed(), rolled: false })
    }

    fn read(&self, from: Tip) -> Result<Box<dyn Read + '_>, JournalError> {
        if from.seq < self.start.tip.seq {
            return Err(JournalError::OutOfOrder(format!(
                "this journal begins behind entry {}",
                self.start.tip.seq
            )));
        }
        let upto = self.driver.borrow().replica().log_state().position();
        let log_state = LogState::new(self.start);
        let found = VecDeque::new();
        Ok(Box::new(Reading { journal: self, log_state, from, upto, found, ended: false }))
    }

    fn trim(&mut self, position: Position) -> Result<(), JournalError> {
        self.log_mut().trim(position).map_err(|error| JournalError::Unknown(error.to_string()))
    }

    fn tip(&self) -> &Tip {
        &self.tip
    }
}

fn dropped(epoch: Epoch) -> JournalError {
    JournalError::Unknown(format!(
        "epoch {epoch} ended before it was stored, and it never will be: claim again"
    ))
}

fn stopped(event: &ReplicaEvent) -> Option<JournalError> {
    match event {
        ReplicaEvent::Halted(divergence) => Some(damaged(divergence)),
        ReplicaEvent::Behind { first } => Some(corrupt(
            first.0,
            "everything before this position was trimmed; begin from a newer checkpoint",
        )),
        _ => None,
    }
}

fn damaged(divergence: &Divergence) -> JournalError {
    corrupt(0, &divergence.to_string())
}

fn corrupt(offset: u64, reason: &str) -> JournalError {
    JournalError::Corrupt(Corrupt { file: "the shared log".into(), offset, reason: reason.into() })
}

/// A run over the committed entries.
struct Reading<'a, L: Log> {
    journal: &'a ReplicatedJournal<L>,
    log_state: LogState,
    from: Tip,
    /// Everything up to here is read, however far the log lags: the journal knew it when the run
    /// began.
    upto: Position,
    found: VecDeque<ReadItem>,
    ended: bool,
}

impl<L: Log> Read for Reading<'_, L> {
    fn next_entry(&mut self) -> Result<Option<ReadItem>, JournalError> {
        let begun = Instant::now();
        while self.found.is_empty() && !self.ended {
            if begun.elapsed() > self.journal.timeout {
                return Err(JournalError::Unknown("the log gave no answer to a read".into()));
            }
            self.fetch()?;
        }
        Ok(self.found.pop_front())
    }
}

impl<L: Log> Reading<'_, L> {
    fn fetch(&mut self) -> Result<(), JournalError> {
        let mut driver = self.journal.driver.borrow_mut();
        driver.log_mut().read(self.log_state.position());
        let begun = Instant::now();
        while begun.elapsed() < self.journal.timeout {
            match driver.log_mut().next(STEP) {
                Some(LogEvent::Records(page)) => {
                    if page.first.0 > self.log_state.position().0 + 1 {
                        return Err(corrupt(page.first.0, "everything before this position was trimmed"));
                    }
                    for (at, record) in page.records {
                        if at.0 == self.log_state.position().0 + 1 {
                            let (_, outcome) =
                                self.log_state.read(at, &record).map_err(|error| damaged(&error))?;
                            take_accepted(&mut self.found, at, outcome, &self.from)?;
                        }
                    }
                    if page.end.is_some_and(|end| end <= self.log_state.position()) {
                        self.ended = self.log_state.position() >= self.upto;
                        return Ok(());
                    }
                }
                Some(LogEvent::ReadFailed { .. }) => return Ok(()),
                _ => {}
            }
        }
        Ok(())
    }
}

fn take_accepted(
    found: &mut VecDeque<ReadItem>,
    position: Position,
    outcome: ReadOutcome,
    from: &Tip,
) -> Result<(), JournalError> {
    let ReadOutcome::Accepted(entries) = outcome else { return Ok(()) };
    for (entry, tip) in entries {
        if tip.seq == from.seq && tip.hash != from.hash {
            return Err(corrupt(position.0, "the log has another entry where the caller's history ends"));
        }
        if tip.seq > from.seq {
            found.push_back(ReadItem { position, entry, tip });
        }
    }
    Ok(())
}
