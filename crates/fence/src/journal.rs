//! Journal: a shared log behind the contract of `vetch_journal`, for a caller that waits for each
//! append.
//!
//! Between calls nothing happens: no heartbeat is written and nobody is heard. A server that takes
//! part all the time drives a `Member` instead; this is for tools, for tests, and for one server at
//! a time.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

use vetch_journal::{Appended, ChainedEntry, Corrupt, Journal, JournalError, Position, Read, ReadItem, Tip};

use crate::config::Config;
use crate::divergence::Divergence;
use crate::driver::Driver;
use crate::leading::Refusal;
use crate::log::{Log, News, Ticket};
use crate::member::Event;
use crate::record::Author;
use crate::view::{Index, Verdict, View};

const STEP: Duration = Duration::from_millis(10);

/// The journal on a shared log, as one server sees it.
pub struct SharedJournal<L: Log> {
    driver: RefCell<Driver<L>>,
    start: Index,
    tip: Tip,
    claimed: bool,
    /// How long a call waits for the log.
    patience: Duration,
}

impl<L: Log> SharedJournal<L> {
    /// Begins behind `start`, which a checkpoint remembers.
    pub fn new(log: L, config: Config, me: Author, start: Index, patience: Duration) -> SharedJournal<L> {
        // Whoever claims here does so at once, so nobody may rely on being the writer.
        let config = Config { lease: Duration::ZERO, ..config };
        let driver = RefCell::new(Driver::new(log, config, me, start));
        SharedJournal { driver, start, tip: start.tip, claimed: false, patience }
    }

    /// What a checkpoint taken now must remember.
    pub fn index(&self) -> Index {
        self.driver.borrow().member().view().index()
    }

    pub fn log_mut(&mut self) -> &mut L {
        self.driver.get_mut().log_mut()
    }

    /// Steps until an event answers the question.
    fn until<T>(
        &mut self,
        mut answer: impl FnMut(&Event) -> Option<Result<T, JournalError>>,
    ) -> Result<T, JournalError> {
        let begun = Instant::now();
        while begun.elapsed() < self.patience {
            let events = self.driver.get_mut().step(STEP);
            self.tip = *self.driver.get_mut().member().view().tip();
            for event in &events {
                if let Some(stopped) = stopped(event) {
                    return Err(stopped);
                }
            }
            if let Some(answered) = events.iter().find_map(&mut answer) {
                return answered;
            }
        }
        Err(JournalError::Unknown(format!("the log gave no answer for {:?}", self.patience)))
    }

    fn fenced(&self, found: u64) -> JournalError {
        JournalError::Fenced { current: self.tip.epoch, found }
    }
}

impl<L: Log> Journal for SharedJournal<L> {
    fn claim(&mut self) -> Result<Tip, JournalError> {
        let begun = Instant::now();
        while begun.elapsed() < self.patience {
            let driver = self.driver.get_mut();
            let now = driver.now();
            driver.member_mut().claim_now(now);
            let events = driver.step(STEP);
            self.tip = *driver.member().view().tip();
            if let Some(stopped) = events.iter().find_map(stopped) {
                return Err(stopped);
            }
            if events.iter().any(|event| matches!(event, Event::Leading { .. })) {
                self.claimed = true;
                return Ok(self.tip);
            }
        }
        Err(JournalError::Unknown(format!("no claim succeeded for {:?}", self.patience)))
    }

    fn append_batch(&mut self, entries: &[ChainedEntry]) -> Result<Appended, JournalError> {
        if !self.claimed {
            return Err(JournalError::OutOfOrder("claim comes first".into()));
        }
        let begun = Instant::now();
        let epoch = entries.first().map_or(self.tip.epoch, |entry| entry.after().epoch);
        let driver = self.driver.get_mut();
        let now = driver.now();
        let ticket = driver.member_mut().propose(now, entries).map_err(|refusal| match refusal {
            Refusal::NotLeading => JournalError::Fenced { current: self.tip.epoch, found: epoch },
            Refusal::TooLarge { len, max } => JournalError::TooLarge { len: len as u64, max: max as u64 },
            Refusal::Busy | Refusal::OutOfOrder => JournalError::OutOfOrder(refusal.to_string()),
        })?;
        let decided = self.until(|event| decision(event, ticket))?;
        let Some(position) = decided else {
            let leads = self.driver.get_mut().member().is_leading();
            return Err(if leads { lost(epoch) } else { self.fenced(epoch) });
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
        let upto = self.driver.borrow().member().view().position();
        let view = View::new(self.start);
        Ok(Box::new(Reading { journal: self, view, from, upto, found: VecDeque::new(), ended: false }))
    }

    fn trim(&mut self, position: Position) -> Result<(), JournalError> {
        self.log_mut().trim(position).map_err(|error| JournalError::Unknown(error.to_string()))
    }

    fn tip(&self) -> &Tip {
        &self.tip
    }
}

/// Where it is, nowhere, or not decided yet.
fn decision(event: &Event, ticket: Ticket) -> Option<Result<Option<Position>, JournalError>> {
    match event {
        Event::Committed { ticket: one, at, .. } if *one == ticket => Some(Ok(Some(*at))),
        Event::Void { ticket: one } if *one == ticket => Some(Ok(None)),
        _ => None,
    }
}

fn lost(epoch: u64) -> JournalError {
    JournalError::Unknown(format!(
        "epoch {epoch} ended before it was stored, and it never will be: claim again"
    ))
}

fn stopped(event: &Event) -> Option<JournalError> {
    match event {
        Event::Halted(divergence) => Some(damaged(divergence)),
        Event::Behind { first } => Some(corrupt(
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

/// A run over the entries that count.
struct Reading<'a, L: Log> {
    journal: &'a SharedJournal<L>,
    view: View,
    from: Tip,
    /// What the journal knew when the run began is read, however far the log lags.
    upto: Position,
    found: VecDeque<ReadItem>,
    ended: bool,
}

impl<L: Log> Read for Reading<'_, L> {
    fn next_entry(&mut self) -> Result<Option<ReadItem>, JournalError> {
        let begun = Instant::now();
        while self.found.is_empty() && !self.ended {
            if begun.elapsed() > self.journal.patience {
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
        driver.log_mut().read(self.view.position());
        let begun = Instant::now();
        while begun.elapsed() < self.journal.patience {
            match driver.log_mut().next(STEP) {
                Some(News::Records(page)) => {
                    if page.first.0 > self.view.position().0 + 1 {
                        return Err(corrupt(page.first.0, "everything before this position was trimmed"));
                    }
                    for (at, record) in page.records {
                        if at.0 == self.view.position().0 + 1 {
                            let (_, verdict) =
                                self.view.read(at, &record).map_err(|error| damaged(&error))?;
                            take(&mut self.found, at, verdict, &self.from)?;
                        }
                    }
                    if page.end.is_some_and(|end| end <= self.view.position()) {
                        self.ended = self.view.position() >= self.upto;
                        return Ok(());
                    }
                }
                Some(News::ReadFailed { .. }) => return Ok(()),
                _ => {}
            }
        }
        Ok(())
    }
}

fn take(
    found: &mut VecDeque<ReadItem>,
    position: Position,
    verdict: Verdict,
    from: &Tip,
) -> Result<(), JournalError> {
    let Verdict::Valid(entries) = verdict else { return Ok(()) };
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
