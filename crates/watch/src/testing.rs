//! Shared by the tests of this crate: a tiny event and a world of log, hub and streams.

use crate::{Budget, Create, EventLog, Events, Hub, LogEvent, Response, RingLimit, Stream};

/// An event whose identity is its key and the revision it happened at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ev {
    pub(crate) key: Vec<u8>,
    pub(crate) rev: i64,
    pub(crate) delete: bool,
    /// Knows what lay before it.
    pub(crate) previous: bool,
}

impl LogEvent for Ev {
    fn key(&self) -> &[u8] {
        &self.key
    }
    fn is_delete(&self) -> bool {
        self.delete
    }
    fn size(&self) -> usize {
        10 + self.key.len()
    }
    fn without_previous(&self) -> Ev {
        Ev { previous: false, ..self.clone() }
    }
}

pub(crate) fn put(key: &str, rev: i64) -> Ev {
    Ev { key: key.into(), rev, delete: false, previous: true }
}

pub(crate) fn del(key: &str, rev: i64) -> Ev {
    Ev { delete: true, ..put(key, rev) }
}

/// A request for everything that begins with `prefix`, one character long in its last place.
pub(crate) fn prefix(prefix: &str) -> Create {
    let mut end = prefix.as_bytes().to_vec();
    *end.last_mut().unwrap() += 1;
    Create { key: prefix.into(), range_end: end, ..Create::default() }
}

pub(crate) struct World {
    pub(crate) log: EventLog<Ev>,
    pub(crate) hub: Hub<Ev>,
}

impl World {
    /// A fresh store: revision 1, nothing compacted.
    pub(crate) fn new(ring: usize) -> Self {
        let limit = RingLimit { revisions: ring, bytes: 1 << 20 };
        World { log: EventLog::new(0, 1), hub: Hub::new(limit, 1) }
    }

    /// Appends one revision of puts and returns it.
    pub(crate) fn append(&mut self, keys: &[&str]) -> i64 {
        let rev = self.log.last() + 1;
        self.log.append(rev, keys.iter().map(|key| put(key, rev)).collect::<Vec<_>>().into());
        rev
    }

    /// Appends and publishes; returns the streams to wake.
    pub(crate) fn put(&mut self, keys: &[&str]) -> Vec<u64> {
        self.append(keys);
        self.publish()
    }

    pub(crate) fn publish(&mut self) -> Vec<u64> {
        let wake = self.publish_some(usize::MAX, usize::MAX);
        assert!(!self.hub.is_matching() && self.hub.published() == self.log.last());
        wake
    }

    /// One step: begins with `max` revisions unless some are being matched.
    pub(crate) fn publish_some(&mut self, max: usize, work: usize) -> Vec<u64> {
        if !self.hub.is_matching()
            && let Some(fresh) = self.log.fresh(self.hub.published() + 1, max)
        {
            self.hub.begin(fresh);
        }
        let mut published = self.hub.step(work);
        published.wake.sort_unstable();
        published.wake.dedup();
        published.wake
    }

    pub(crate) fn compact(&mut self, revision: i64) {
        self.log.compact(revision);
        self.hub.compact(revision);
    }

    pub(crate) fn drain(&self, stream: &mut Stream<Ev>) -> Vec<Response<Ev>> {
        self.drain_within(stream, Budget::default())
    }

    /// Drains until nothing is left, however small the steps.
    pub(crate) fn drain_within(&self, stream: &mut Stream<Ev>, budget: Budget) -> Vec<Response<Ev>> {
        let mut out = Vec::new();
        while stream.drain(&self.hub, &self.log, budget, &mut out).more {}
        out
    }
}

/// One line per response: what a test wants to compare.
pub(crate) fn show(responses: &[Response<Ev>]) -> Vec<String> {
    responses.iter().map(show_one).collect()
}

fn show_one(response: &Response<Ev>) -> String {
    let mut line = format!("w{} @{}", response.watch_id, response.header_revision);
    if response.created {
        line += " created";
    }
    if response.canceled {
        line += " canceled";
    }
    if response.compact_revision != 0 {
        line += &format!(" compact={}", response.compact_revision);
    }
    if !response.cancel_reason.is_empty() {
        line += &format!(" ({})", response.cancel_reason);
    }
    if response.progress {
        line += " progress";
    }
    for revision in &response.revisions {
        line += &format!(" {}:", revision.rev);
        for event in revision.events() {
            assert_eq!(event.rev, revision.rev, "an event travels with its own revision");
            line += if event.delete { "-" } else { "+" };
            line += if event.previous { "" } else { "?" };
            line += std::str::from_utf8(&event.key).unwrap();
        }
    }
    line
}

pub(crate) fn events(list: Vec<Ev>) -> Events<Ev> {
    list.into()
}
