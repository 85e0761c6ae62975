//! Restarts of API servers: all lists by stream and all watches of one of them at once, until its
//! caches are filled.

use std::time::Instant;

use prost::Message;
use vetch_api::pb;

use super::mix;
use super::resources::RESOURCES;
use super::watches::{Cache, WATCHES};
use crate::measure::tally::{Tally, Window};
use crate::scan;
use crate::wire::{Happened, Method, Tag, Wire};
use crate::workloads::after;

/// Tags of cache fills begin here, behind those of watches.
pub(super) const FILLS: Tag = 1 << 33;

/// One restart that is over.
pub(super) struct Filled {
    pub(super) seconds: f64,
    pub(super) bytes: u64,
}

struct Down {
    apiserver: usize,
    begun: Instant,
    bytes: u64,
    /// The revision of each list, as far as it is known.
    revisions: Vec<i64>,
    /// Resources that are watched again.
    watched: usize,
}

pub(super) struct Restarts {
    planned: usize,
    begun: usize,
    apiservers: usize,
    wanted: bool,
    down: Option<Down>,
    pub(super) done: Vec<Filled>,
}

impl Restarts {
    pub(super) fn new(planned: usize, apiservers: usize) -> Restarts {
        Restarts { planned, begun: 0, apiservers, wanted: false, down: None, done: Vec::new() }
    }

    /// They are spread evenly over the measured time, and never two at once.
    pub(super) fn due(&mut self, now: Instant, window: Window) {
        let length = window.end - window.start;
        let part = (self.begun + 1) as f64 / (self.planned + 1) as f64;
        self.wanted =
            self.begun < self.planned && self.down.is_none() && now >= window.start + length.mul_f64(part);
    }

    /// The API server that does the work of this one.
    pub(super) fn alive(&self, apiserver: usize, all: usize) -> usize {
        match &self.down {
            Some(down) if down.apiserver == apiserver => (apiserver + 1) % all,
            _ => apiserver,
        }
    }

    /// Begins what is due.
    pub(super) fn step(&mut self, now: Instant, wire: &mut dyn Wire, caches: &mut [Cache]) {
        if !std::mem::take(&mut self.wanted) {
            return;
        }
        let apiserver = self.begun % self.apiservers;
        self.begun += 1;
        self.down = Some(Down { apiserver, begun: now, bytes: 0, revisions: vec![0; RESOURCES], watched: 0 });
        for resource in 0..RESOURCES {
            let number = apiserver * RESOURCES + resource;
            wire.abandon(WATCHES + number as Tag);
            let cache = &mut caches[number];
            cache.forget();
            let (key, range_end) = (cache.prefix.clone(), after(&cache.prefix));
            let request = pb::RangeRequest { key, range_end, ..Default::default() };
            wire.open(number, FILLS + number as Tag, Method::RangeStream, &request.encode_to_vec(), true);
        }
    }

    /// A message of a list, or its end: then the watch follows.
    pub(super) fn filled(
        &mut self,
        wire: &mut dyn Wire,
        cache: &mut Cache,
        number: usize,
        happened: Happened<'_>,
        tally: &mut Tally,
    ) {
        let Some(down) = &mut self.down else { return };
        let resource = number % RESOURCES;
        match happened {
            Happened::Message(message) => {
                down.bytes += message.len() as u64;
                let revision =
                    scan::bytes(message, 1).ok().flatten().and_then(|part| scan::revision(part).ok());
                if let Some(revision) = revision {
                    down.revisions[resource] = revision;
                }
            }
            Happened::End(None) if down.revisions[resource] > 0 => {
                let revision = down.revisions[resource];
                cache.revision = revision;
                cache.open(wire, number, WATCHES + number as Tag, revision + 1);
            }
            Happened::End(failure) => {
                let text =
                    failure.map_or_else(|| "a list without a revision".to_owned(), ToString::to_string);
                tally.wrong(mix::EVENT, format!("filling a cache: {text}"));
            }
        }
    }

    /// A watch was confirmed.
    pub(super) fn watched(&mut self, number: usize, at: Instant) {
        let Some(down) = &mut self.down else { return };
        if number / RESOURCES != down.apiserver {
            return;
        }
        down.watched += 1;
        if down.watched == RESOURCES {
            let seconds = at.saturating_duration_since(down.begun).as_secs_f64();
            self.done.push(Filled { seconds, bytes: down.bytes });
            self.down = None;
        }
    }
}
