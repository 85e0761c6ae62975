//! The wire between servers and the log they share, and the log itself:
//! `vetch_testkit::log::model::ModelLog`.
//!
//! Whatever a server sends and the log answers takes its time; it may be lost, come late, twice, or
//! out of order, and be cut in either direction. A log of the seed's choice is honest, or holds two
//! histories, or loses its tail.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use vetch_cluster::{Log, LogError, LogEvent, Page, Ticket};
use vetch_journal::Position;
use vetch_testkit::log::model::{ModelLog, Outcome};

use super::plan::{Cut, Troubles};
use crate::coverage::{Coverage, Rare};
use crate::time::{MICRO, MILLI, Now};
use crate::trace::{Trace, say};
use vetch_testkit::random::Rng;

/// Records in one answer.
const PAGE: usize = 32;
/// The largest record, as a server wants it to be.
const MAX_RECORD: usize = 8 << 20;
/// After this long a request that got no answer is given up where it was sent.
const GIVEN_UP: u64 = 500 * MILLI;

/// All wires of one run. Clones are the same.
#[derive(Clone)]
pub(super) struct Wire(Arc<Mutex<Net>>);

struct Net {
    now: Arc<Now>,
    rng: Rng,
    troubles: Troubles,
    /// No more trouble.
    peace: bool,
    logs: Vec<ModelLog>,
    ends: Vec<End>,
    under_way: BTreeMap<(u64, u64), Packet>,
    sent: u64,
    trace: Trace,
    coverage: Coverage,
}

/// A server's end.
#[derive(Default)]
struct End {
    /// Which history it is shown.
    branch: usize,
    connection: u64,
    life: u64,
    inbox: VecDeque<LogEvent>,
    /// What it sends is lost until then; what it is sent as well.
    mute_until: u64,
    deaf_until: u64,
    /// The connection has to be made anew when the cut is over.
    torn: bool,
    /// When the last append that it sent in peace arrives.
    last_due: u64,
}

enum Packet {
    Append {
        from: usize,
        life: u64,
        connection: u64,
        branch: usize,
        append: Append,
        answered: bool,
    },
    Read {
        from: usize,
        life: u64,
        connection: u64,
        after: Position,
    },
    /// `local`: known without the wire.
    LogEvent {
        to: usize,
        life: u64,
        connection: u64,
        news: LogEvent,
        local: bool,
    },
}

#[derive(Clone)]
struct Append {
    ticket: Ticket,
    after: Position,
    record: Bytes,
}

impl Wire {
    pub(super) fn new(
        servers: usize,
        now: Arc<Now>,
        rng: Rng,
        troubles: Troubles,
        trace: Trace,
        coverage: Coverage,
    ) -> Wire {
        let ends = (0..servers).map(|_| End::default()).collect();
        let logs = vec![ModelLog::new(troubles.checks_position)];
        let under_way = BTreeMap::new();
        let net = Net { now, rng, troubles, peace: false, logs, ends, under_way, sent: 0, trace, coverage };
        Wire(Arc::new(Mutex::new(net)))
    }

    fn net(&self) -> MutexGuard<'_, Net> {
        self.0.lock().expect("nothing panics under this lock")
    }

    /// The log, as a server that begins a new life sees it.
    pub(super) fn connect(&self, server: usize) -> Handle {
        let mut net = self.net();
        let end = &mut net.ends[server];
        end.life += 1;
        end.connection += 1;
        end.inbox.clear();
        Handle { wire: self.clone(), server }
    }

    /// Brings everything to where it is due. Answers which servers have news.
    pub(super) fn deliver(&self) -> Vec<usize> {
        let mut net = self.net();
        let now = net.now.nanos();
        while let Some(entry) = net.under_way.first_entry().filter(|entry| entry.key().0 <= now) {
            let packet = entry.remove();
            net.arrives(packet);
        }
        net.mend(now);
        (0..net.ends.len()).filter(|at| !net.ends[*at].inbox.is_empty()).collect()
    }

    /// When something is due next.
    pub(super) fn next_due(&self) -> Option<u64> {
        self.net().under_way.first_key_value().map(|(&(due, _), _)| due)
    }

    pub(super) fn cut(&self, server: usize, cut: Cut, nanos: u64) {
        let mut net = self.net();
        net.coverage.hit(if cut == Cut::Both { Rare::CutFromLog } else { Rare::HalfCutFromLog });
        let until = net.now.nanos() + nanos;
        let torn = net.rng.percent(70);
        let end = &mut net.ends[server];
        if cut != Cut::Deaf {
            end.mute_until = end.mute_until.max(until);
        }
        if cut != Cut::Mute {
            end.deaf_until = end.deaf_until.max(until);
        }
        end.torn |= torn;
    }

    /// Another part of the engine answers from here on.
    pub(super) fn reconnect(&self, server: usize) {
        self.net().reconnect(server);
    }

    /// No more records fit than `more`, or all do.
    pub(super) fn fill_up(&self, more: Option<usize>) {
        let mut net = self.net();
        if more.is_some() {
            net.coverage.hit(Rare::LogFull);
        }
        let log = &mut net.logs[0];
        log.capacity = more.map(|more| log.held() + more);
    }

    /// The log shows two histories from now on; each server is shown one of them.
    pub(super) fn fork(&self) {
        let mut net = self.net();
        if net.logs.len() == 1 {
            let copy = net.logs[0].clone();
            net.logs.push(copy);
        }
        net.coverage.hit(Rare::LogForked);
        for at in 0..net.ends.len() {
            let branch = net.rng.below(2);
            net.ends[at].branch = branch;
            net.reconnect(at);
        }
    }

    pub(super) fn lose_tail(&self) {
        let mut net = self.net();
        let count = net.rng.between(1, 12) as usize;
        net.coverage.hit(Rare::LogTailLost);
        net.logs[0].lose(count);
        (0..net.ends.len()).for_each(|at| net.reconnect(at));
    }

    /// Nothing is lost, late or full any more, and everybody is shown the first history.
    pub(super) fn make_peace(&self) {
        let mut net = self.net();
        net.peace = true;
        net.logs[0].capacity = None;
        let forked = net.logs.len() > 1;
        for at in 0..net.ends.len() {
            let end = &mut net.ends[at];
            (end.mute_until, end.deaf_until, end.branch) = (0, 0, 0);
            if forked {
                net.reconnect(at);
            }
        }
    }
}

impl Net {
    fn send(&mut self, wait: u64, packet: Packet) {
        self.sent += 1;
        self.under_way.insert((self.now.nanos() + wait, self.sent), packet);
    }

    fn troubled(&mut self, chance: u64) -> bool {
        !self.peace && self.rng.percent(chance)
    }

    /// How long a message takes.
    fn delay(&mut self) -> u64 {
        match self.troubled(self.troubles.late) {
            true => self.rng.between(20 * MILLI, 4_000 * MILLI),
            false => self.rng.between(200 * MICRO, self.troubles.slowest),
        }
    }

    fn tell(&mut self, to: usize, wait: u64, news: LogEvent) {
        let End { life, connection, .. } = self.ends[to];
        self.send(wait, Packet::LogEvent { to, life, connection, news, local: false });
    }

    fn give_up(&mut self, from: usize, ticket: Ticket) {
        let End { life, connection, .. } = self.ends[from];
        let news = LogEvent::Unknown { ticket, why: "no answer".to_owned() };
        self.send(GIVEN_UP, Packet::LogEvent { to: from, life, connection, news, local: true });
    }

    fn reconnect(&mut self, at: usize) {
        self.ends[at].connection += 1;
        self.ends[at].inbox.clear();
        self.ends[at].inbox.push_back(LogEvent::Reconnected);
        self.ends[at].torn = false;
    }

    /// Connections that a cut has torn are made anew once it is over.
    fn mend(&mut self, now: u64) {
        for at in 0..self.ends.len() {
            let end = &self.ends[at];
            if end.torn && now >= end.mute_until.max(end.deaf_until) {
                self.reconnect(at);
            }
        }
    }

    fn append(&mut self, from: usize, append: Append) {
        let now = self.now.nanos();
        let End { life, connection, branch, mute_until, .. } = self.ends[from];
        if mute_until > now || self.troubled(self.troubles.lost) {
            self.coverage.hit(Rare::AppendLost);
            self.give_up(from, append.ticket);
            return;
        }
        if self.troubled(self.troubles.doubled) {
            self.coverage.hit(Rare::AppendDoubled);
            let (wait, append) = (self.delay(), append.clone());
            self.send(wait, Packet::Append { from, life, connection, branch, append, answered: false });
        }
        let answered = !self.troubled(self.troubles.answer_lost);
        if !answered {
            self.coverage.hit(Rare::AppendAnswerLost);
            if self.rng.percent(50) {
                self.give_up(from, append.ticket);
            }
        }
        let wait = self.in_order(from);
        self.send(wait, Packet::Append { from, life, connection, branch, append, answered });
    }

    /// How long an append takes. In peace none overtakes another: with several in flight all the
    /// time nothing would ever come of them on a log that refuses what is out of order.
    fn in_order(&mut self, from: usize) -> u64 {
        let (now, wait) = (self.now.nanos(), self.delay());
        if !self.peace {
            return wait;
        }
        let end = &mut self.ends[from];
        end.last_due = (now + wait).max(end.last_due + 1);
        end.last_due - now
    }

    fn read(&mut self, from: usize, after: Position) {
        let End { life, connection, mute_until, .. } = self.ends[from];
        if mute_until <= self.now.nanos() && !self.troubled(self.troubles.lost) {
            let wait = self.delay();
            self.send(wait, Packet::Read { from, life, connection, after });
        }
    }

    fn arrives(&mut self, packet: Packet) {
        match packet {
            // It is on its way whatever became of its sender.
            Packet::Append { from, life, connection, branch, append, answered } => {
                let Append { ticket, after, record } = append;
                let outcome = self.logs[branch].append(after, record.clone());
                say!(self.trace, "log {branch}: {ticket:?} of server {from} after {}: {outcome:?}", after.0);
                let news = match outcome {
                    Outcome::Stored(at) => {
                        self.push(branch, at, &record);
                        LogEvent::Appended { ticket, at }
                    }
                    Outcome::Refused { last } => LogEvent::Refused { ticket, last: Some(last) },
                    Outcome::Full => LogEvent::Full { ticket },
                };
                if answered {
                    let wait = self.delay();
                    self.send(wait, Packet::LogEvent { to: from, life, connection, news, local: false });
                }
            }
            Packet::Read { from, life, connection, after } => {
                if (life, connection) == (self.ends[from].life, self.ends[from].connection) {
                    self.answer_read(from, after);
                }
            }
            Packet::LogEvent { to, life, connection, news, local } => {
                let now = self.now.nanos();
                let end = &mut self.ends[to];
                if (life, connection) == (end.life, end.connection) && (local || end.deaf_until <= now) {
                    end.inbox.push_back(news);
                }
            }
        }
    }

    /// New records are told to whom the engine tells them.
    fn push(&mut self, branch: usize, at: Position, record: &Bytes) {
        for to in 0..self.ends.len() {
            if self.ends[to].branch == branch && (self.peace || self.rng.percent(self.troubles.pushed)) {
                let first = self.logs[branch].first();
                let page = Page { records: vec![(at, record.clone())], first, end: None };
                let wait = self.delay();
                self.tell(to, wait, LogEvent::Records(page));
            }
        }
    }

    fn answer_read(&mut self, from: usize, after: Position) {
        let lagging = self.troubled(self.troubles.lagging);
        if lagging {
            self.coverage.hit(Rare::LogLagged);
        }
        let unseen = if lagging { self.rng.below(11) } else { 0 };
        let (mut wait, mut after) = (self.delay(), after);
        loop {
            let page = self.logs[self.ends[from].branch].read(after, PAGE, unseen);
            let is_last = page.end.is_some();
            after = page.records.last().map_or(after, |(position, _)| *position);
            self.tell(from, wait, LogEvent::Records(page));
            if is_last {
                return;
            }
            wait += 100 * MICRO;
        }
    }
}

/// The log as one life of one server has it.
pub(super) struct Handle {
    wire: Wire,
    server: usize,
}

impl Log for Handle {
    fn append(&mut self, ticket: Ticket, after: Position, record: Bytes) {
        self.wire.net().append(self.server, Append { ticket, after, record });
    }

    fn read(&mut self, after: Position) {
        self.wire.net().read(self.server, after);
    }

    fn next(&mut self, _: Duration) -> Option<LogEvent> {
        self.wire.net().ends[self.server].inbox.pop_front()
    }

    fn trim(&mut self, _: Position) -> Result<(), LogError> {
        // A server that is behind would need a checkpoint of another one, which is not simulated.
        Err(LogError::Failed("it keeps everything".into()))
    }

    fn max_record(&self) -> usize {
        MAX_RECORD
    }
}
