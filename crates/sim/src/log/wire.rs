//! Wire: messages between a server and the log, and what the log does with them.

use std::time::Duration;

use bytes::Bytes;
use vetch_cluster::{LogEvent, Page};
use vetch_journal::Position;
use vetch_testkit::log::model::Outcome;

use super::world::{Append, Occurrence, World};

/// Records in one answer.
const PAGE: usize = 32;

impl World {
    pub(super) fn arrives(&mut self, at: usize, incarnation: u64, append: Append, answered: bool) {
        let Append { ticket, after, record, branch, connection } = append;
        let (log, oracle) = &mut self.logs[branch];
        let outcome = log.append(after, record.clone());
        let member = self.servers[at].member;
        let event = match outcome {
            Outcome::Stored(at) => {
                oracle.stored(&record);
                LogEvent::Appended { ticket, at }
            }
            Outcome::Refused { last } => LogEvent::Refused { ticket, last: Some(last) },
            Outcome::Full => LogEvent::Full { ticket },
        };
        self.trace(|_| {
            format!("log {branch}: {ticket:?} of server {member}, after {}: {outcome:?}", after.0)
        });
        if let Outcome::Stored(position) = outcome {
            self.push_to_all(branch, position, &record);
        }
        let wait = self.delay();
        if answered {
            self.schedule(self.now + wait, at, incarnation, Occurrence::LogReply { event, connection });
        } else if self.rng.percent(50) {
            self.count("answer lost");
            let unknown = LogEvent::Unknown { ticket, why: "no answer".into() };
            self.schedule(
                self.now + wait + Duration::from_millis(300),
                at,
                incarnation,
                Occurrence::LogReply { event: unknown, connection },
            );
        }
    }

    fn push_to_all(&mut self, branch: usize, position: Position, record: &Bytes) {
        for to in 0..self.servers.len() {
            if self.servers[to].branch != branch || !(self.peace || self.rng.percent(self.plan.pushed)) {
                continue;
            }
            let first = self.logs[branch].0.first();
            let page = Page { records: vec![(position, record.clone())], first, end: None };
            self.send_later(to, Duration::ZERO, LogEvent::Records(page));
        }
    }

    pub(super) fn reads(&mut self, at: usize, incarnation: u64, after: Position) {
        let lagging = !self.peace && self.rng.percent(self.plan.lagging);
        let unseen = if lagging { self.rng.between(0, 10) } else { 0 };
        let mut wait = self.delay();
        let mut after = after;
        loop {
            let page = self.logs[self.servers[at].branch].0.read(after, PAGE, unseen);
            let at_end = page.end.is_some();
            after = page.records.last().map_or(after, |(position, _)| *position);
            self.send(at, incarnation, wait, LogEvent::Records(page));
            if at_end {
                return;
            }
            wait += Duration::from_micros(100);
        }
    }

    pub(super) fn send_later(&mut self, at: usize, extra: Duration, event: LogEvent) {
        let wait = self.delay() + extra;
        self.send(at, self.servers[at].incarnation, wait, event);
    }

    fn send(&mut self, at: usize, incarnation: u64, wait: Duration, event: LogEvent) {
        let connection = self.servers[at].connection;
        self.schedule(self.now + wait, at, incarnation, Occurrence::LogReply { event, connection });
    }

    /// How long a message takes.
    pub(super) fn delay(&mut self) -> Duration {
        let late = !self.peace && self.rng.percent(self.plan.late);
        Duration::from_micros(if late {
            self.rng.between(20_000, 4_000_000)
        } else {
            self.rng.between(200, 8_000)
        })
    }
}
