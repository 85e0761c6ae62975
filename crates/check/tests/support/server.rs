//! A server made of the specification, a clock for leases, and watchers that are told late.

use std::collections::{BTreeMap, BTreeSet};

use vetch_check::{Alarm, Ending, Fact, WatchMessage, Watched};
use vetch_model::{Answer, Model, Refusal, Request};

use vetch_testkit::random::Rng;

pub(crate) const SECOND: u64 = 1_000_000_000;

#[derive(Default)]
pub(crate) struct Server {
    pub(crate) model: Model,
    /// When each lease runs out.
    deadlines: BTreeMap<i64, u64>,
    pub(crate) term: u64,
    pub(crate) alarms: BTreeSet<Alarm>,
    /// What decides who may do what, as far as it holds.
    pub(crate) facts: BTreeSet<Fact>,
}

impl Server {
    pub(crate) fn handle(&mut self, request: &Request, now: u64) -> Result<(i64, Answer), Refusal> {
        let answer = self.model.evaluate(request)?;
        match (request, &answer.1) {
            (Request::LeaseGrant { id, ttl }, _) => {
                self.deadlines.insert(*id, now + *ttl as u64 * SECOND);
            }
            (Request::LeaseKeepAlive { id }, Answer::LeaseKeepAlive { ttl }) if *ttl > 0 => {
                self.deadlines.insert(*id, now + *ttl as u64 * SECOND);
            }
            (Request::LeaseRevoke { id }, _) => {
                self.deadlines.remove(id);
            }
            _ => {}
        }
        Ok(answer)
    }

    /// Ends the leases whose time is over.
    pub(crate) fn tick(&mut self, now: u64) {
        let over: Vec<i64> = self.deadlines.iter().filter(|(_, at)| **at <= now).map(|(&id, _)| id).collect();
        for id in over {
            self.deadlines.remove(&id);
            self.model.evaluate(&Request::LeaseRevoke { id }).expect("it is there until now");
        }
    }

    /// After a restart every lease has its whole time again.
    pub(crate) fn restart(&mut self, now: u64) {
        self.term += 1;
        for (id, deadline) in &mut self.deadlines {
            *deadline = now + self.model.leases()[id] as u64 * SECOND;
        }
    }
}

/// A watcher and how far it has been told.
pub(crate) struct Watcher {
    pub(crate) watched: Watched,
    pub(crate) next: i64,
    pub(crate) open: bool,
    /// What was compacted when it began.
    pub(crate) born: i64,
}

impl Watcher {
    pub(crate) fn create(mut watched: Watched, server: &Server, at: u64) -> Watcher {
        let revision = server.model.revision();
        watched.called = at;
        watched.messages.push(WatchMessage::Created { revision, at });
        let start = watched.request.start_revision;
        let next = if start > 0 { start } else { revision + 1 };
        Watcher { watched, next, open: true, born: server.model.compact_revision() }
    }

    /// Tells some of what is new, or progress, or that compaction came first.
    pub(crate) fn tell(&mut self, server: &Server, rng: &mut Rng, at: u64) {
        let revision = server.model.revision();
        if !self.open {
            return;
        }
        if server.model.compact_revision() > self.next {
            self.watched.ending = Ending::Compacted { compact_revision: server.model.compact_revision() };
            self.open = false;
            return;
        }
        if self.next <= revision {
            let last = (self.next + rng.below(4) as i64).min(revision);
            let mut events = server.model.watched(&self.watched.request, self.next, last);
            self.next = last + 1;
            // A previous value may be gone from the compaction on, downwards, and is gone for who
            // came after it.
            for event in &mut events {
                let revision = event.kv.mod_revision;
                if revision <= self.born || (revision <= server.model.compact_revision() && rng.one_in(2)) {
                    event.prev_kv = None;
                }
            }
            if !events.is_empty() {
                self.watched.messages.push(WatchMessage::Events { revision, events, at });
            }
        } else if self.next == revision + 1 && rng.one_in(3) {
            self.watched.messages.push(WatchMessage::Progress { revision, at });
        }
    }

    /// Tells everything that is left.
    pub(crate) fn finish(&mut self, server: &Server, rng: &mut Rng, at: u64) {
        while self.open && self.next <= server.model.revision() {
            self.tell(server, rng, at);
        }
        if self.open && self.next == server.model.revision() + 1 {
            let revision = server.model.revision();
            self.watched.messages.push(WatchMessage::Progress { revision, at });
        }
    }
}
