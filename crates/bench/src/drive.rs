//! Drives a wire with the requests of a workload, in one of two ways.
//!
//! * Closed loop: a number of clients, each of which sends its next request as soon as it has the
//!   response. It finds the throughput limit, and hides how long other clients would have waited.
//! * Open loop: requests at fixed times, whether or not earlier ones are answered. Latency counts
//!   from the time at which a request was to be sent, so a server that stalls is charged for
//!   everything that had to wait (no coordinated omission).
//!
//! Bounds: at most one request per slot is in flight; a request that is due while no slot is free
//! waits, and its waiting is measured. After the end, responses are awaited for [`DRAIN`]; missing
//! ones are reported.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::failure::{Failure, WrongAnswer};
use crate::measure::Stop;
use crate::measure::monitor::Counters;
use crate::measure::tally::{Tally, Window, Yield};
use crate::wire::{Happened, Inbox, Method, Wire};

const DRAIN: Duration = Duration::from_secs(5);
/// Delay before a client whose connection failed sends its next request.
const RETRY_DELAY: Duration = Duration::from_millis(100);
/// A thread checks at least this often whether to stop.
const SLEEP_MAX: Duration = Duration::from_millis(100);

/// The next request of a slot.
pub(crate) struct Asked {
    pub(crate) method: Method,
    pub(crate) class: usize,
}

/// The requests of a workload and the check of their answers. A slot is a client that has one
/// request at a time.
pub(crate) trait Work: Send {
    fn classes(&self) -> &'static [&'static str];

    /// Writes the slot's next request.
    fn next(&mut self, slot: usize, message: &mut Vec<u8>) -> Asked;

    /// Checks a message of the response.
    fn message(&mut self, slot: usize, message: &[u8]) -> Result<Yield, WrongAnswer>;

    /// The whole answer has come.
    fn end(&mut self, _slot: usize) -> Result<(), WrongAnswer> {
        Ok(())
    }

    /// The request failed, or its answer was wrong: whether it had an effect is not known.
    fn failed(&mut self, _slot: usize) {}

    /// A slot is one call that stays open, and each message of the server answers one of ours.
    fn is_stream(&self) -> bool {
        false
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Pace {
    Closed,
    /// Requests per second.
    Open(f64),
}

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) pace: Pace,
    pub(crate) slots: usize,
    pub(crate) window: Window,
    /// At most so many requests.
    pub(crate) requests: Option<u64>,
    pub(crate) stop: Stop,
    pub(crate) counters: Arc<Counters>,
}

struct Slot {
    intended: Instant,
    class: usize,
    outcome: Result<Yield, WrongAnswer>,
    busy: bool,
    opened: bool,
}

struct Driver<'a> {
    plan: &'a Plan,
    wire: &'a mut dyn Wire,
    work: &'a mut dyn Work,
    tally: Tally,
    slots: Vec<Slot>,
    free: VecDeque<usize>,
    /// Slots that may go on at that time.
    punished: VecDeque<(Instant, usize)>,
    begun: Instant,
    issued: u64,
    under_way: usize,
    message: Vec<u8>,
}

/// Runs until the end of the window, the last request or a stop, whichever comes first.
pub(crate) fn drive(plan: &Plan, wire: &mut dyn Wire, work: &mut dyn Work) -> Tally {
    let now = Instant::now();
    let slot = || Slot { intended: now, class: 0, outcome: Ok(Yield::default()), busy: false, opened: false };
    let mut driver = Driver {
        tally: Tally::new(work.classes(), plan.window),
        slots: (0..plan.slots).map(|_| slot()).collect(),
        free: (0..plan.slots).collect(),
        punished: VecDeque::new(),
        begun: now,
        issued: 0,
        under_way: 0,
        message: Vec::new(),
        plan,
        wire,
        work,
    };
    driver.run();
    driver.tally
}

impl Driver<'_> {
    fn run(&mut self) {
        let mut inbox = Inbox::default();
        let mut end = self.plan.window.end;
        let mut stopped = false;
        loop {
            let now = Instant::now();
            if !stopped && (self.plan.stop.is_raised() || self.all_issued()) {
                // What is measured ends here; answers may still come.
                stopped = true;
                end = end.min(now);
            }
            let issuing = now < end;
            if now >= end && (self.is_idle(end) || now >= end + DRAIN) {
                break;
            }
            self.issue(now, end);
            let limit = if issuing { end } else { end + DRAIN };
            let until = self.next_due(end).unwrap_or(limit).min(limit).min(now + SLEEP_MAX);
            inbox.clear();
            self.wire.wait(until, &mut inbox);
            for (tag, at, happened) in inbox.iter() {
                let slot = tag as usize;
                if slot < self.slots.len() {
                    self.happened(slot, at, happened);
                }
            }
        }
        self.close(end, stopped);
    }

    fn all_issued(&self) -> bool {
        self.plan.requests.is_some_and(|limit| self.issued >= limit) && self.under_way == 0
    }

    fn is_idle(&self, end: Instant) -> bool {
        self.under_way == 0 && self.next_due(end).is_none()
    }

    /// When the next request is to be sent, if one is to be sent before the end. In a closed loop
    /// that is at once.
    fn next_due(&self, end: Instant) -> Option<Instant> {
        if self.plan.requests.is_some_and(|limit| self.issued >= limit) {
            return None;
        }
        let due = match self.plan.pace {
            Pace::Closed => {
                let back = self.punished.front().map(|(at, _)| *at);
                if self.free.is_empty() { back? } else { self.begun }
            }
            Pace::Open(rate) => self.begun + Duration::from_secs_f64(self.issued as f64 / rate),
        };
        let in_time = match self.plan.pace {
            Pace::Closed => Instant::now() < end,
            Pace::Open(_) => due < end,
        };
        in_time.then_some(due)
    }

    fn issue(&mut self, now: Instant, end: Instant) {
        while self.punished.front().is_some_and(|(at, _)| *at <= now) {
            self.free.extend(self.punished.pop_front().map(|(_, slot)| slot));
        }
        while let Some(due) = self.next_due(end) {
            if due > now {
                return;
            }
            let Some(slot) = self.free.pop_front() else { return };
            let intended = match self.plan.pace {
                Pace::Closed => Instant::now(),
                Pace::Open(_) => due,
            };
            self.send(slot, intended);
        }
    }

    fn send(&mut self, index: usize, intended: Instant) {
        self.message.clear();
        let asked = self.work.next(index, &mut self.message);
        let slot = &mut self.slots[index];
        slot.intended = intended;
        slot.class = asked.class;
        slot.outcome = Ok(Yield::default());
        slot.busy = true;
        self.issued += 1;
        self.under_way += 1;
        if slot.opened {
            self.wire.send(index as u64, &self.message);
            return;
        }
        let stream = self.work.is_stream();
        slot.opened = stream;
        let connection = index % self.wire.connections();
        self.wire.open(connection, index as u64, asked.method, &self.message, !stream);
    }

    fn happened(&mut self, index: usize, at: Instant, happened: Happened<'_>) {
        match happened {
            Happened::Message(message) => {
                let checked = self.work.message(index, message);
                let slot = &mut self.slots[index];
                match (&mut slot.outcome, checked) {
                    (Ok(sum), Ok(more)) => {
                        sum.keys += more.keys;
                        sum.bytes += more.bytes;
                    }
                    (outcome @ Ok(_), Err(wrong)) => *outcome = Err(wrong),
                    (Err(_), _) => {}
                }
                if self.work.is_stream() {
                    self.answered(index, at);
                }
            }
            Happened::End(None) if !self.work.is_stream() => self.answered(index, at),
            Happened::End(failure) => {
                self.slots[index].opened = false;
                let unasked = Failure::transport("the server ended a stream");
                self.failed(index, failure.unwrap_or(&unasked));
            }
        }
    }

    fn answered(&mut self, index: usize, at: Instant) {
        if !std::mem::take(&mut self.slots[index].busy) {
            return;
        }
        self.under_way -= 1;
        let whole = self.work.end(index);
        let slot = &mut self.slots[index];
        let (class, intended) = (slot.class, slot.intended);
        match std::mem::replace(&mut slot.outcome, Ok(Yield::default()))
            .and_then(|brought| whole.map(|()| brought))
        {
            Ok(brought) => {
                self.tally.success(class, intended, at, brought);
                self.plan.counters.done.fetch_add(1, Ordering::Relaxed);
            }
            Err(wrong) => {
                self.work.failed(index);
                self.tally.wrong(class, format!("wrong answer: {wrong}"));
                self.plan.counters.errors.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.free.push_back(index);
    }

    fn failed(&mut self, index: usize, failure: &Failure) {
        if !std::mem::take(&mut self.slots[index].busy) {
            return;
        }
        self.under_way -= 1;
        self.work.failed(index);
        self.tally.failure(self.slots[index].class, failure);
        self.plan.counters.errors.fetch_add(1, Ordering::Relaxed);
        if failure.is_transport() {
            self.punished.push_back((Instant::now() + RETRY_DELAY, index));
        } else {
            self.free.push_back(index);
        }
    }

    /// Accounts for what was not answered and, unless the run was cut short, for what was not even
    /// sent.
    fn close(&mut self, end: Instant, stopped: bool) {
        let now = Instant::now();
        self.tally.window.end = self.tally.window.end.min(end).max(self.tally.window.start);
        for index in 0..self.slots.len() {
            if self.slots[index].busy {
                self.tally.unanswered(self.slots[index].class, self.slots[index].intended, now);
            }
            if self.slots[index].opened {
                self.wire.abandon(index as u64);
            }
        }
        if let (Pace::Open(_), false) = (self.plan.pace, stopped) {
            while let Some(due) = self.next_due(end) {
                self.issued += 1;
                self.tally.unsent(0, due, now);
            }
        }
    }
}
