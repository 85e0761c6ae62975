//! Wire: what happens between a server and the log, and at the log.

use std::time::Duration;

use bytes::Bytes;
use vetch_fence::{News, Page};
use vetch_journal::Position;

use super::world::{Append, Happening, World};
use crate::model::Outcome;

/// Records in one answer.
const PAGE: usize = 32;

impl World {
    pub(super) fn arrives(&mut self, at: usize, life: u64, append: Append, answered: bool) {
        let Append { ticket, after, record, branch, connection } = append;
        let (log, oracle) = &mut self.logs[branch];
        let outcome = log.append(after, record.clone());
        let node = self.servers[at].node;
        let news = match outcome {
            Outcome::Stored(at) => {
                oracle.stored(&record);
                News::Appended { ticket, at }
            }
            Outcome::Refused { last } => News::Refused { ticket, last: Some(last) },
            Outcome::Full => News::Full { ticket },
        };
        self.say(|_| format!("log {branch}: {ticket:?} of server {node}, after {}: {outcome:?}", after.0));
        if let Outcome::Stored(position) = outcome {
            self.push_to_all(branch, position, &record);
        }
        let wait = self.delay();
        if answered {
            self.schedule(self.now + wait, at, life, Happening::Told { news, connection });
        } else if self.rng.percent(50) {
            self.count("answer lost");
            let unknown = News::Unknown { ticket, why: "no answer".into() };
            self.schedule(
                self.now + wait + Duration::from_millis(300),
                at,
                life,
                Happening::Told { news: unknown, connection },
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
            self.tell_later(to, Duration::ZERO, News::Records(page));
        }
    }

    pub(super) fn reads(&mut self, at: usize, life: u64, after: Position) {
        let lagging = !self.peace && self.rng.percent(self.plan.lagging);
        let unseen = if lagging { self.rng.between(0, 10) } else { 0 };
        let mut wait = self.delay();
        let mut after = after;
        loop {
            let page = self.logs[self.servers[at].branch].0.read(after, PAGE, unseen);
            let at_end = page.end.is_some();
            after = page.records.last().map_or(after, |(position, _)| *position);
            self.tell(at, life, wait, News::Records(page));
            if at_end {
                return;
            }
            wait += Duration::from_micros(100);
        }
    }

    pub(super) fn tell_later(&mut self, at: usize, extra: Duration, news: News) {
        let wait = self.delay() + extra;
        self.tell(at, self.servers[at].life, wait, news);
    }

    fn tell(&mut self, at: usize, life: u64, wait: Duration, news: News) {
        let connection = self.servers[at].connection;
        self.schedule(self.now + wait, at, life, Happening::Told { news, connection });
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
