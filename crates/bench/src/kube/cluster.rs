//! The objects of the cluster as the load generator knows them, and how they come into the store.

use std::collections::VecDeque;

use anyhow::Result;
use prost::Message;
use prost::bytes::Bytes;
use vetch_api::pb;

use super::resources::{self, Kind, RESOURCES};
use crate::drive::{Asked, Work};
use crate::failure::WrongAnswer;
use crate::measure::tally::Yield;
use crate::scan;
use crate::session::Session;
use crate::wire::Method;
use crate::workloads::{Chance, Values, setup};

/// Objects of one lease of events, and its time in seconds.
const EVENTS_PER_LEASE: usize = 1000;
pub(super) const EVENT_TTL: i64 = 3660;
const VALUE_BYTES_MAX: usize = 16 << 10;
/// Attempts to find an object that no other request is changing.
const ATTEMPTS: usize = 64;

/// The objects of one resource. Pods are created at one end and deleted at the other.
#[derive(Clone, Default)]
pub(super) struct Objects {
    first: usize,
    /// The revision of the last change, and whether a request is under way; by number, from `first`
    /// on.
    known: VecDeque<(i64, bool)>,
}

impl Objects {
    pub(super) fn next(&self) -> usize {
        self.first + self.known.len()
    }

    pub(super) fn revision(&self, index: usize) -> i64 {
        index.checked_sub(self.first).and_then(|at| self.known.get(at)).map_or(0, |known| known.0)
    }

    fn entry(&mut self, index: usize) -> Option<&mut (i64, bool)> {
        index.checked_sub(self.first).and_then(|at| self.known.get_mut(at))
    }

    pub(super) fn set(&mut self, index: usize, revision: i64) {
        if let Some(known) = self.entry(index) {
            known.0 = revision;
        }
    }

    pub(super) fn release(&mut self, index: usize) {
        if let Some(known) = self.entry(index) {
            known.1 = false;
        }
    }

    /// An object that exists and that no other request is changing.
    pub(super) fn claim(&mut self, chance: &mut Chance) -> Option<usize> {
        for _ in 0..ATTEMPTS {
            let at = chance.below(self.known.len());
            if let Some(known) = self.known.get_mut(at)
                && known.0 > 0
                && !known.1
            {
                known.1 = true;
                return Some(self.first + at);
            }
        }
        None
    }

    /// The oldest object, likewise.
    pub(super) fn claim_first(&mut self) -> Option<usize> {
        while self.known.front().is_some_and(|known| known.0 == 0 && !known.1) {
            self.known.pop_front();
            self.first += 1;
        }
        let known = self.known.iter_mut().take(ATTEMPTS).position(|known| {
            let free = known.0 > 0 && !known.1;
            known.1 |= free;
            free
        })?;
        Some(self.first + known)
    }

    /// A new one, to be created.
    pub(super) fn add(&mut self) -> usize {
        self.known.push_back((0, true));
        self.next() - 1
    }
}

pub(super) struct Cluster {
    pub(super) root: String,
    pub(super) nodes: usize,
    pods_per_node: usize,
    pub(super) objects: Vec<Objects>,
    filler: Bytes,
}

impl Cluster {
    pub(super) fn new(root: &str, pods_per_node: usize, seed: u64) -> Cluster {
        Cluster {
            root: root.to_owned(),
            nodes: 0,
            pods_per_node,
            objects: vec![Objects::default(); RESOURCES],
            filler: Values::new(VALUE_BYTES_MAX, seed).value(),
        }
    }

    pub(super) fn key(&self, resource: usize, index: usize) -> Bytes {
        Bytes::from(resources::key(&self.root, resource, index).into_bytes())
    }

    pub(super) fn filler(&self) -> &Bytes {
        &self.filler
    }

    /// Writes what a cluster of so many nodes has and is not there yet.
    pub(super) fn grow(&mut self, session: &Session<'_>, nodes: usize) -> Result<()> {
        let mut missing = Vec::new();
        for (resource, objects) in self.objects.iter_mut().enumerate() {
            let wanted = resources::count(resource, nodes, self.pods_per_node);
            for index in objects.known.len()..wanted {
                missing.push((resource, objects.first + index));
                objects.known.push_back((0, false));
            }
        }
        self.nodes = nodes;
        if missing.is_empty() {
            return Ok(());
        }
        let events = missing.iter().filter(|(resource, _)| *resource == Kind::Event as usize).count();
        let leases = match events.div_ceil(EVENTS_PER_LEASE) {
            0 => Vec::new(),
            count => setup::leases(session, count, EVENT_TTL)?,
        };
        session.say(&format!("{nodes} nodes: writing {} objects", missing.len()));
        let count = missing.len() as u64;
        let mut load = Load { cluster: self, missing, leases, next: 0, events: 0, slots: Vec::new() };
        setup::run(session, &mut load, count)?;
        Ok(())
    }
}

struct Load<'a> {
    cluster: &'a mut Cluster,
    missing: Vec<(usize, usize)>,
    leases: Vec<setup::Granted>,
    next: usize,
    events: usize,
    slots: Vec<(usize, usize)>,
}

impl Work for Load<'_> {
    fn classes(&self) -> &'static [&'static str] {
        &["load"]
    }

    fn next(&mut self, slot: usize, message: &mut Vec<u8>) -> Asked {
        let (resource, index) = self.missing[self.next];
        self.next += 1;
        if self.slots.len() <= slot {
            self.slots.resize(slot + 1, (0, 0));
        }
        self.slots[slot] = (resource, index);
        let lease = if resource == Kind::Event as usize {
            self.events += 1;
            self.leases[(self.events - 1) / EVENTS_PER_LEASE].id
        } else {
            0
        };
        let value = self.cluster.filler.slice(..resources::size(resource, index));
        let key = self.cluster.key(resource, index);
        pb::PutRequest { key, value, lease, ..Default::default() }.encode(message).expect("a vector grows");
        Asked { method: Method::Put, class: 0 }
    }

    fn message(&mut self, slot: usize, message: &[u8]) -> Result<Yield, WrongAnswer> {
        let (resource, index) = self.slots[slot];
        self.cluster.objects[resource].set(index, scan::revision(message)?);
        Ok(Yield::default())
    }
}
