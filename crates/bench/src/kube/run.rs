//! The loop of the mix: every source on time, every answer checked, every watch followed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use prost::Message;
use prost::bytes::Bytes;
use vetch_api::pb;

use super::cluster::{Cluster, EVENT_TTL};
use super::mix::{self, Ask, Rates, Source};
use super::resources::{self, Kind, RESOURCES};
use super::restarts::{FILLS, Restarts};
use super::watches::{Cache, WATCHES};
use crate::failure::{CallError, WrongAnswer};
use crate::measure::monitor::{Counters, Seen};
use crate::measure::tally::{Tally, Yield};
use crate::scan;
use crate::session::Session;
use crate::watch::events::Stamper;
use crate::wire::{Happened, Inbox, Method, Tag, Wire, blocking};
use crate::workloads::read::key_values;
use crate::workloads::{Chance, after, cas};

const UNDER_WAY: usize = 16_384;
const READY: Duration = Duration::from_secs(60);
const DRAIN: Duration = Duration::from_secs(5);
const PAGE: i64 = 500;

/// A request under way.
#[derive(Clone)]
struct Op {
    ask: Ask,
    intended: Instant,
    index: usize,
    /// The cache that a consistent read waits for.
    cache: usize,
    outcome: Result<(), CallError>,
}

#[derive(Default)]
struct Pager {
    revision: i64,
    from: Bytes,
    begun: Option<Instant>,
}

pub(super) struct Run<'a> {
    cluster: &'a mut Cluster,
    rates: Rates,
    pub(super) wire: Box<dyn Wire>,
    /// By API server and resource; the number is that of the connection too.
    pub(super) caches: Vec<Cache>,
    ops: Vec<Option<Op>>,
    free: Vec<usize>,
    stamper: Stamper,
    chance: Chance,
    pager: Pager,
    /// Of the events that are created now; 0 until the first is granted.
    event_lease: i64,
    /// The newest revision that was seen, and the one at the time of the last compaction.
    latest: i64,
    compact_at: i64,
    pub(super) restarts: Restarts,
    counters: Arc<Counters>,
}

impl<'a> Run<'a> {
    pub(super) fn new(
        session: &Session<'_>,
        cluster: &'a mut Cluster,
        rates: Rates,
        restarts: usize,
    ) -> Result<Run<'a>> {
        let connections = rates.apiservers * RESOURCES;
        let cache = |number: usize| Cache::new(resources::prefix(&cluster.root, number % RESOURCES));
        let caches = (0..connections).map(cache).collect();
        let mut run = Run {
            wire: session.wire(connections)?,
            caches,
            cluster,
            restarts: Restarts::new(restarts, rates.apiservers),
            rates,
            ops: vec![None; UNDER_WAY],
            free: (0..UNDER_WAY).rev().collect(),
            stamper: Stamper::new(),
            chance: Chance::new(session.common.seed),
            pager: Pager::default(),
            event_lease: 0,
            latest: 0,
            compact_at: 0,
            counters: Arc::default(),
        };
        run.latest = blocking::revision(run.wire.as_mut())?;
        run.compact_at = run.latest;
        run.watch()?;
        Ok(run)
    }

    fn watch(&mut self) -> Result<()> {
        for number in 0..self.caches.len() {
            self.caches[number].open(self.wire.as_mut(), number, WATCHES + number as Tag, 0);
        }
        let deadline = Instant::now() + READY;
        let mut unused =
            Tally::new(&mix::CLASSES, crate::measure::tally::Window { start: deadline, end: deadline });
        let mut inbox = Inbox::default();
        while !self.caches.iter().all(|cache| cache.created) {
            ensure!(Instant::now() < deadline, "not all watches were created within {READY:?}");
            self.step(deadline, &mut inbox, &mut unused);
            ensure!(unused.errors.is_empty(), "creating watches: {:?}", unused.errors);
        }
        Ok(())
    }

    pub(super) fn run(&mut self, session: &Session<'_>) -> Result<(Tally, Seen)> {
        session.pin_client()?;
        let window = session.window();
        let monitor = session.monitor(window, &self.counters);
        let mut tally = Tally::new(&mix::CLASSES, window);
        let mut sources = mix::sources(&self.rates, Instant::now());
        let mut inbox = Inbox::default();
        let mut end = window.end;
        loop {
            let now = Instant::now();
            if session.stop.is_raised() {
                end = end.min(now);
            }
            if now >= end {
                break;
            }
            self.restarts.due(now, window);
            self.restarts.step(now, self.wire.as_mut(), &mut self.caches);
            let due = self.issue(&mut sources, now, &mut tally);
            let until = due.min(self.nudge(now)).min(end).min(now + Duration::from_millis(50));
            self.step(until, &mut inbox, &mut tally);
        }
        tally.window.end = end.max(tally.window.start);
        self.drain(&mut sources, end, &mut inbox, &mut tally);
        self.close(&mut sources, end, &mut tally);
        Ok((tally, monitor.finish()))
    }

    /// Sends what was due before the end, and waits for what is under way.
    fn drain(&mut self, sources: &mut [Source], end: Instant, inbox: &mut Inbox, tally: &mut Tally) {
        let drained = Instant::now() + DRAIN;
        while Instant::now() < drained {
            let is_late = sources.iter().any(|source| source.due < end);
            let is_waiting = self.caches.iter().any(|cache| cache.waiting().next().is_some());
            if !is_late && !is_waiting && self.free.len() == UNDER_WAY {
                return;
            }
            self.issue(sources, end, tally);
            let now = Instant::now();
            let until = self.nudge(now).min(now + Duration::from_millis(20));
            self.step(until, inbox, tally);
        }
    }

    fn close(&mut self, sources: &mut [Source], end: Instant, tally: &mut Tally) {
        let now = Instant::now();
        for op in self.ops.iter().flatten() {
            tally.unanswered(op.ask.class(), op.intended, now);
        }
        for since in self.caches.iter().flat_map(Cache::waiting) {
            tally.unanswered(mix::CONSISTENT, since, now);
        }
        for source in sources {
            while source.due < end {
                tally.unsent(source.ask.class(), source.due, now);
                source.advance();
            }
        }
        for (number, _) in self.caches.iter().enumerate() {
            self.wire.abandon(WATCHES + number as Tag);
        }
    }

    /// Requests progress on every watch that a read waits for; returns when to check again.
    fn nudge(&mut self, now: Instant) -> Instant {
        let mut next = now + Duration::from_secs(1);
        for (number, cache) in self.caches.iter_mut().enumerate() {
            cache.nudge(self.wire.as_mut(), WATCHES + number as Tag, now);
            next = next.min(cache.next_nudge().unwrap_or(next));
        }
        next
    }

    /// Sends what is due at `now`; answers when the next is.
    fn issue(&mut self, sources: &mut [Source], now: Instant, tally: &mut Tally) -> Instant {
        for source in sources.iter_mut() {
            while source.due <= now {
                if self.free.is_empty() {
                    return now + Duration::from_millis(1);
                }
                let (ask, due) = (source.ask, source.due);
                source.advance();
                if !self.ask(ask, due) {
                    tally
                        .wrong(ask.class(), "no object was free: the load is too much for so few".to_owned());
                }
            }
        }
        sources.iter().map(|source| source.due).min().unwrap_or(now)
    }

    /// False if there is no object to do it with.
    fn ask(&mut self, ask: Ask, intended: Instant) -> bool {
        let Some((resource, index)) = self.claim(ask) else { return false };
        let objects = &self.cluster.objects[resource];
        let revision = objects.revision(index);
        let key = self.cluster.key(resource, index);
        let value = || {
            let size = resources::size(resource, index);
            self.stamper.stamped(intended, self.cluster.filler(), size)
        };
        let (method, request) = match ask {
            Ask::Update(_) => (Method::Txn, cas::update(key, revision, value(), 0).encode_to_vec()),
            Ask::CreatePod => (Method::Txn, cas::create(key, value(), 0).encode_to_vec()),
            Ask::CreateEvent => (Method::Txn, cas::create(key, value(), self.event_lease).encode_to_vec()),
            Ask::DeletePod => (Method::Txn, cas::delete(key, revision).encode_to_vec()),
            Ask::DeleteStale => (Method::Txn, cas::delete(key, revision - 1).encode_to_vec()),
            Ask::Get(_) => {
                (Method::Range, pb::RangeRequest { key, limit: 1, ..Default::default() }.encode_to_vec())
            }
            Ask::Consistent => {
                let prefix = resources::prefix(&self.cluster.root, resource);
                let key = Bytes::from(prefix.trim_end_matches('/').to_owned().into_bytes());
                (Method::Range, pb::RangeRequest { key, limit: 1, ..Default::default() }.encode_to_vec())
            }
            Ask::Page => (Method::Range, self.page(intended)),
            Ask::Grant => {
                (Method::LeaseGrant, pb::LeaseGrantRequest { ttl: EVENT_TTL, id: 0 }.encode_to_vec())
            }
            Ask::Compact => {
                // To the revision of the time of the one before.
                let revision = std::mem::replace(&mut self.compact_at, self.latest);
                let request = pb::CompactionRequest { revision, physical: false };
                (Method::Compact, request.encode_to_vec())
            }
        };
        // An object belongs to one API server.
        let apiserver = self.restarts.alive(index % self.rates.apiservers, self.rates.apiservers);
        let connection = apiserver * RESOURCES + resource;
        let Some(slot) = self.free.pop() else { return false };
        self.ops[slot] = Some(Op { ask, intended, index, cache: connection, outcome: Ok(()) });
        self.wire.open(connection, slot as Tag, method, &request, true);
        true
    }

    /// The resource and the object that a request is about.
    fn claim(&mut self, ask: Ask) -> Option<(usize, usize)> {
        let Cluster { objects, .. } = &mut *self.cluster;
        let pods = Kind::Pod as usize;
        Some(match ask {
            Ask::Update(kind) => (kind as usize, objects[kind as usize].claim(&mut self.chance)?),
            Ask::CreatePod => (pods, objects[pods].add()),
            Ask::DeletePod => (pods, objects[pods].claim_first()?),
            Ask::DeleteStale => (pods, objects[pods].claim(&mut self.chance)?),
            Ask::CreateEvent => (Kind::Event as usize, objects[Kind::Event as usize].add()),
            Ask::Get(kind) => (kind as usize, objects[kind as usize].claim(&mut self.chance)?),
            Ask::Consistent => (self.chance.below(RESOURCES), self.chance.below(1 << 20)),
            Ask::Page => (pods, 0),
            Ask::Grant | Ask::Compact => (Kind::Lease as usize, self.chance.below(1 << 20)),
        })
    }

    fn page(&mut self, now: Instant) -> Vec<u8> {
        let prefix = Bytes::from(resources::prefix(&self.cluster.root, Kind::Pod as usize).into_bytes());
        // A list that takes longer than a compaction begins anew.
        let old = self.pager.begun.is_none_or(|begun| now > begun + self.rates.compaction);
        if old || self.pager.from.is_empty() {
            self.pager = Pager { revision: 0, from: prefix.clone(), begun: Some(now) };
        }
        let request = pb::RangeRequest {
            key: self.pager.from.clone(),
            range_end: after(&prefix),
            limit: PAGE,
            revision: self.pager.revision,
            ..Default::default()
        };
        request.encode_to_vec()
    }

    fn step(&mut self, until: Instant, inbox: &mut Inbox, tally: &mut Tally) {
        inbox.clear();
        self.wire.wait(until, inbox);
        for (tag, at, happened) in inbox.iter() {
            if tag >= FILLS {
                let number = (tag - FILLS) as usize;
                let cache = &mut self.caches[number];
                self.restarts.filled(self.wire.as_mut(), cache, number, happened, tally);
            } else if tag >= WATCHES {
                self.on_watch((tag - WATCHES) as usize, at, happened, tally);
            } else {
                self.answered(tag as usize, at, happened, tally);
            }
        }
    }

    fn on_watch(&mut self, number: usize, at: Instant, happened: Happened<'_>, tally: &mut Tally) {
        let outcome = match happened {
            Happened::Message(message) => {
                self.caches[number].message(message, self.stamper).map_err(CallError::from)
            }
            Happened::End(failure) => Err(CallError::of_watch(failure)),
        };
        match outcome {
            Ok(received) => {
                if received.created {
                    self.restarts.watched(number, at);
                }
                received
                    .written
                    .iter()
                    .for_each(|intended| tally.success(mix::EVENT, *intended, at, Yield::default()));
                received
                    .reached
                    .iter()
                    .for_each(|since| tally.success(mix::CONSISTENT, *since, at, Yield::default()));
            }
            Err(error) => self.wrong(mix::EVENT, &error, tally),
        }
    }

    fn wrong(&mut self, class: usize, error: &CallError, tally: &mut Tally) {
        tally.wrong(class, error.to_string());
        self.counters.errors.fetch_add(1, Ordering::Relaxed);
    }

    fn answered(&mut self, slot: usize, at: Instant, happened: Happened<'_>, tally: &mut Tally) {
        let Some(mut op) = self.ops.get_mut(slot).and_then(Option::take) else { return };
        match happened {
            Happened::Message(message) => {
                op.outcome = self.check(&op, message, at, tally).map_err(CallError::from);
                self.ops[slot] = Some(op);
                return;
            }
            Happened::End(failure) => {
                if let Some(failure) = failure {
                    op.outcome = Err(failure.clone().into());
                }
            }
        }
        self.free.push(slot);
        if let Ask::Update(kind) | Ask::Get(kind) = op.ask {
            self.cluster.objects[kind as usize].release(op.index);
        } else if matches!(op.ask, Ask::CreatePod | Ask::DeletePod | Ask::DeleteStale) {
            self.cluster.objects[Kind::Pod as usize].release(op.index);
        }
        match op.outcome {
            Ok(()) => {
                tally.success(op.ask.class(), op.intended, at, Yield::default());
                self.counters.done.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => self.wrong(op.ask.class(), &error, tally),
        }
    }

    fn check(&mut self, op: &Op, message: &[u8], at: Instant, tally: &mut Tally) -> Result<(), WrongAnswer> {
        match op.ask {
            Ask::Update(kind) => self.changed(kind, op, message, false),
            Ask::CreatePod => self.changed(Kind::Pod, op, message, false),
            Ask::DeletePod => self.changed(Kind::Pod, op, message, true),
            Ask::CreateEvent => self.changed(Kind::Event, op, message, false),
            Ask::DeleteStale => match cas::decided(message)? {
                cas::Decided::Changed(revision) if revision > 0 => Ok(()),
                cas::Decided::Changed(_) => Err(WrongAnswer::KeyMissing),
                cas::Decided::Done(revision) => Err(WrongAnswer::StaleDelete(revision)),
            },
            Ask::Get(_) => match key_values(message)? {
                (1, _) => Ok(()),
                (found, _) => Err(WrongAnswer::Keys { found, expected: 1 }),
            },
            Ask::Consistent => {
                let revision = scan::revision(message)?;
                if self.caches[op.cache].wait_for(revision, op.intended) {
                    tally.success(mix::CONSISTENT, op.intended, at, Yield::default());
                }
                Ok(())
            }
            Ask::Page => self.turn_page(message),
            Ask::Grant => {
                self.event_lease = scan::number(message, 2)? as i64;
                Ok(())
            }
            Ask::Compact => Ok(()),
        }
    }

    fn changed(&mut self, kind: Kind, op: &Op, message: &[u8], deleted: bool) -> Result<(), WrongAnswer> {
        let objects = &mut self.cluster.objects[kind as usize];
        match cas::decided(message)? {
            cas::Decided::Done(revision) => {
                self.latest = self.latest.max(revision);
                objects.set(op.index, if deleted { 0 } else { revision });
                Ok(())
            }
            cas::Decided::Changed(revision) => {
                objects.set(op.index, revision);
                Err(WrongAnswer::CompareFailed)
            }
        }
    }

    fn turn_page(&mut self, message: &[u8]) -> Result<(), WrongAnswer> {
        let page = pb::RangeResponse::decode(message)?;
        if self.pager.revision == 0 {
            self.pager.revision = scan::revision(message)?;
        }
        self.pager.from = match page.kvs.last() {
            Some(last) if page.more => [&last.key[..], b"\0"].concat().into(),
            _ => Bytes::new(),
        };
        Ok(())
    }
}
