//! Seen: which revision the world knew of at each moment.
//!
//! Whatever shows a revision at some time, an answer, an event, a progress report, a hash, the keys
//! of a lease or a list, proves that the revision existed by then. Everything that is called later
//! must not fall behind it.

use crate::facts::describe;
use crate::history::{History, WatchMessage};

/// Where a revision was seen.
#[derive(Debug, Clone, Copy)]
enum Where {
    Operation(usize),
    Watch { watch: usize, message: usize },
    Hash(usize),
    Lease(usize),
    Listing(usize),
}

#[derive(Debug, Clone, Copy)]
struct Sight {
    at: u64,
    revision: i64,
    place: Where,
}

pub(crate) struct Seen<'h> {
    history: &'h History,
    /// In the order of time; each is replaced by the highest up to it.
    highest: Vec<Sight>,
    /// The times of `highest`.
    times: Vec<u64>,
    newest: i64,
}

impl<'h> Seen<'h> {
    pub(crate) fn new(history: &'h History) -> Seen<'h> {
        let mut sights = Vec::new();
        for (index, operation) in history.operations.iter().enumerate() {
            if let Some(revision) = operation.revision() {
                sights.push(Sight { at: operation.returned, revision, place: Where::Operation(index) });
            }
        }
        for (watch, watched) in history.watches.iter().enumerate() {
            for (index, message) in watched.messages.iter().enumerate() {
                let place = Where::Watch { watch, message: index };
                sights.push(Sight { at: message.at(), revision: highest_in(message), place });
            }
        }
        for (index, hash) in history.hashes.iter().enumerate() {
            sights.push(Sight { at: hash.returned, revision: hash.revision, place: Where::Hash(index) });
        }
        for (index, leased) in history.leased.iter().enumerate() {
            sights.push(Sight { at: leased.returned, revision: leased.revision, place: Where::Lease(index) });
        }
        for (index, listed) in history.listed.iter().enumerate() {
            let place = Where::Listing(index);
            sights.extend(listed.revision.map(|revision| Sight { at: listed.returned, revision, place }));
        }
        sights.sort_by_key(|sight| sight.at);
        let times = sights.iter().map(|sight| sight.at).collect();
        for index in 1..sights.len() {
            if sights[index - 1].revision > sights[index].revision {
                sights[index] = sights[index - 1];
            }
        }
        let newest = sights.last().map_or(1, |sight| sight.revision.max(1));
        Seen { history, highest: sights, times, newest }
    }

    /// The highest revision seen strictly before `time`. An empty store is at 1.
    pub(crate) fn before(&self, time: u64) -> i64 {
        self.last_before(time).map_or(1, |sight| sight.revision.max(1))
    }

    /// Who saw it.
    pub(crate) fn witness_before(&self, time: u64) -> String {
        let Some(sight) = self.last_before(time) else { return "no request".to_owned() };
        match sight.place {
            Where::Operation(index) => describe(&self.history.operations[index]),
            Where::Watch { watch, message } => {
                let client = self.history.watches[watch].client;
                format!("watch {watch} of client {client}, message {message} at {}", sight.at)
            }
            Where::Hash(index) => format!("hash {index} at {}", sight.at),
            Where::Listing(index) => format!("list {index} at {}", sight.at),
            Where::Lease(index) => format!("keys of a lease {index} at {}", sight.at),
        }
    }

    fn last_before(&self, time: u64) -> Option<&Sight> {
        let count = self.times.partition_point(|&at| at < time);
        self.highest[..count].last()
    }

    /// The first time at which `revision` or a later one was seen.
    pub(crate) fn first(&self, revision: i64) -> u64 {
        let index = self.highest.partition_point(|sight| sight.revision < revision);
        self.times.get(index).copied().unwrap_or(u64::MAX)
    }

    /// The newest revision that anybody saw.
    pub(crate) fn newest(&self) -> i64 {
        self.newest
    }
}

fn highest_in(message: &WatchMessage) -> i64 {
    let events = message.events().iter().map(|event| event.kv.mod_revision);
    events.chain([message.revision()]).max().unwrap_or(1)
}
