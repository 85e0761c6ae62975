//! The loop of a replay.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Result;
use hashbrown::HashMap;
use prost::Message;
use prost::bytes::Bytes;
use vetch_api::pb;
use vetch_api::pb::watch_request::RequestUnion;

use super::trace::{Action, Step, Txn};
use crate::failure::{CallError, WrongAnswer};
use crate::measure::monitor::{Counters, Seen};
use crate::measure::tally::{Tally, Window, Yield};
use crate::scan;
use crate::session::Session;
use crate::watch::events::{self, STAMP, Stamper};
use crate::wire::{Happened, Inbox, Method, Tag, Wire, blocking};
use crate::workloads::{Values, cas};

const CLASSES: [&str; 8] =
    ["txn", "range", "range stream", "lease grant", "watch", "progress", "status", "write to event"];
const WATCH: usize = 4;
const PROGRESS: usize = 5;
const EVENT: usize = 7;
const CONNECTIONS: usize = 71;
/// Tags of watches: this and the number of the recorded call.
const WATCHES: Tag = 1 << 40;
const DRAIN: Duration = Duration::from_secs(5);
const VALUE_BYTES_MAX: usize = 2 << 20;

/// A request under way; its tag is the number of its step.
struct Op {
    intended: Instant,
    outcome: Result<(), CallError>,
    again: bool,
}

#[derive(Default)]
struct Watch {
    opened: Option<Instant>,
    asked: VecDeque<Instant>,
    last: i64,
}

type Map<K, V> = HashMap<K, V, foldhash::fast::FixedState>;

pub(super) struct Run<'a> {
    steps: &'a [Step],
    speed: f64,
    wire: Box<dyn Wire>,
    ops: Map<usize, Op>,
    watches: Map<u64, Watch>,
    /// Where each key was changed last, as this store says.
    known: Map<String, i64>,
    /// Transactions that wait for an earlier one of the same key.
    busy: Map<String, VecDeque<(usize, Instant)>>,
    /// Recorded revisions and leases, and what they are here.
    revisions: BTreeMap<i64, i64>,
    leases: Map<i64, i64>,
    stamper: Stamper,
    filler: Bytes,
    counters: Arc<Counters>,
    pub(super) sent: u64,
    pub(super) repeated: u64,
}

impl<'a> Run<'a> {
    pub(super) fn new(session: &Session<'_>, steps: &'a [Step], speed: f64) -> Result<Run<'a>> {
        let mut wire = session.wire(CONNECTIONS)?;
        let revisions = BTreeMap::from([(1, blocking::revision(wire.as_mut())?)]);
        Ok(Run {
            steps,
            speed,
            wire,
            ops: HashMap::default(),
            watches: HashMap::default(),
            known: HashMap::default(),
            busy: HashMap::default(),
            revisions,
            leases: HashMap::default(),
            stamper: Stamper::new(),
            filler: Values::new(VALUE_BYTES_MAX, session.common.seed).value(),
            counters: Arc::default(),
            sent: 0,
            repeated: 0,
        })
    }

    pub(super) fn run(&mut self, session: &Session<'_>) -> Result<(Tally, Seen)> {
        session.pin_client()?;
        let steps = self.steps;
        let begun = Instant::now();
        let first = steps[0].at;
        let speed = self.speed;
        let due = |step: &Step| begun + Duration::from_secs_f64((step.at - first) / speed);
        let last = due(&steps[steps.len() - 1]) + Duration::from_millis(1);
        let window = Window { start: begun, end: last.min(begun + session.common.duration) };
        let monitor = session.monitor(window, &self.counters);
        let mut tally = Tally::new(&CLASSES, window);
        let mut inbox = Inbox::default();
        let mut next = 0;
        let mut end = window.end;
        loop {
            let now = Instant::now();
            if session.stop.is_raised() {
                end = end.min(now);
            }
            while next < steps.len() && due(&steps[next]) <= now.min(end) {
                self.begin(next, due(&steps[next]));
                next += 1;
            }
            let waiting = !self.ops.is_empty() || self.busy.values().any(|queue| !queue.is_empty());
            if now >= end && (!waiting || now >= end + DRAIN) {
                break;
            }
            let until = steps.get(next).map_or(end, due).min(now + Duration::from_millis(50)).max(now);
            self.step(until, &mut inbox, &mut tally);
        }
        tally.window.end = end;
        let now = Instant::now();
        for (number, op) in &self.ops {
            tally.unanswered(class(&steps[*number].action), op.intended, now);
        }
        Ok((tally, monitor.finish()))
    }

    fn begin(&mut self, number: usize, intended: Instant) {
        if let Action::Txn(txn) = &self.steps[number].action {
            if let Some(queue) = self.busy.get_mut(&txn.key) {
                queue.push_back((number, intended));
                return;
            }
            self.busy.insert(txn.key.clone(), VecDeque::new());
        }
        self.send(number, intended);
    }

    fn send(&mut self, number: usize, intended: Instant) {
        let step = &self.steps[number];
        self.sent += 1;
        let (method, request, key) = match &step.action {
            Action::Txn(txn) => (Method::Txn, self.transaction(txn, intended), txn.key.as_str()),
            Action::Range { key, end, limit, revision, count_only, stream } => {
                let request = pb::RangeRequest {
                    key: Bytes::from(key.clone().into_bytes()),
                    range_end: Bytes::from(end.clone().into_bytes()),
                    limit: *limit,
                    revision: self.here(*revision),
                    count_only: *count_only,
                    ..Default::default()
                };
                let method = if *stream { Method::RangeStream } else { Method::Range };
                (method, request.encode_to_vec(), key.as_str())
            }
            Action::Grant { ttl, .. } => {
                (Method::LeaseGrant, pb::LeaseGrantRequest { ttl: *ttl, id: 0 }.encode_to_vec(), "")
            }
            Action::Status => (Method::Status, Vec::new(), ""),
            Action::Watch { .. } | Action::Progress | Action::EndWatch => {
                return self.watch(step, intended);
            }
        };
        self.ops.insert(number, Op { intended, outcome: Ok(()), again: false });
        let connection = self.connection(key);
        self.wire.open(connection, number as Tag, method, &request, true);
    }

    /// Requests for one resource share a connection.
    fn connection(&self, key: &str) -> usize {
        let resource: Vec<&str> = key.split('/').take(3).collect();
        let mut hasher = foldhash::fast::FixedState::default().build_hasher();
        resource.hash(&mut hasher);
        std::hash::Hasher::finish(&hasher) as usize % self.wire.connections()
    }

    /// A recorded revision as one of this store.
    fn here(&self, recorded: i64) -> i64 {
        if recorded == 0 {
            return 0;
        }
        self.revisions.range(..=recorded).next_back().map_or(0, |(_, here)| *here)
    }

    fn transaction(&self, txn: &Txn, intended: Instant) -> Vec<u8> {
        let key = Bytes::from(txn.key.clone().into_bytes());
        let known = self.known.get(&txn.key).copied().unwrap_or(0);
        let revision = match (txn.succeeded, txn.creates) {
            (true, _) => known,
            (false, true) => 0,
            // No key was ever changed there.
            (false, false) => known + (1 << 40),
        };
        let mut request = match txn.put {
            Some((length, lease)) => {
                let value = if length >= STAMP {
                    self.stamper.stamped(intended, &self.filler, length)
                } else {
                    self.filler.slice(..length)
                };
                let lease = self.leases.get(&lease).copied().unwrap_or(0);
                cas::update(key, revision, value, lease)
            }
            None => cas::delete(key, revision),
        };
        if !txn.has_else {
            request.failure.clear();
        }
        request.encode_to_vec()
    }

    fn watch(&mut self, step: &Step, intended: Instant) {
        let tag = WATCHES + step.call;
        match &step.action {
            Action::Watch { key, end, start, previous, progress } => {
                let start_revision = if *start == 0 { 0 } else { self.here(start - 1) + 1 };
                let create = pb::WatchCreateRequest {
                    key: Bytes::from(key.clone().into_bytes()),
                    range_end: Bytes::from(end.clone().into_bytes()),
                    start_revision,
                    prev_kv: *previous,
                    progress_notify: *progress,
                    ..Default::default()
                };
                let request = pb::WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
                let connection = self.connection(key);
                if self.watches.contains_key(&step.call) {
                    self.wire.send(tag, &request.encode_to_vec());
                } else {
                    self.wire.open(connection, tag, Method::Watch, &request.encode_to_vec(), false);
                }
                self.watches.entry(step.call).or_default().opened = Some(intended);
            }
            Action::Progress => {
                let progress = RequestUnion::ProgressRequest(pb::WatchProgressRequest {});
                if let Some(watch) = self.watches.get_mut(&step.call) {
                    watch.asked.push_back(intended);
                    self.wire.send(tag, &pb::WatchRequest { request_union: Some(progress) }.encode_to_vec());
                }
            }
            _ => {
                self.watches.remove(&step.call);
                self.wire.abandon(tag);
            }
        }
    }

    fn step(&mut self, until: Instant, inbox: &mut Inbox, tally: &mut Tally) {
        inbox.clear();
        self.wire.wait(until, inbox);
        for (tag, at, happened) in inbox.iter() {
            match tag.checked_sub(WATCHES) {
                Some(call) => self.on_watch(call, at, happened, tally),
                None => self.answered(tag as usize, at, happened, tally),
            }
        }
    }

    fn on_watch(&mut self, call: u64, at: Instant, happened: Happened<'_>, tally: &mut Tally) {
        let Some(watch) = self.watches.get_mut(&call) else { return };
        let outcome = match happened {
            Happened::Message(message) => {
                heard(watch, message, self.stamper, at, tally).map_err(CallError::from)
            }
            Happened::End(failure) => {
                self.watches.remove(&call);
                Err(CallError::of_watch(failure))
            }
        };
        if let Err(error) = outcome {
            tally.wrong(WATCH, error.to_string());
            self.counters.errors.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn answered(&mut self, number: usize, at: Instant, happened: Happened<'_>, tally: &mut Tally) {
        let Some(mut op) = self.ops.remove(&number) else { return };
        let action = &self.steps[number].action;
        match happened {
            Happened::Message(message) => {
                op.outcome = self.check(number, &mut op.again, message).map_err(CallError::from);
                self.ops.insert(number, op);
                return;
            }
            Happened::End(Some(failure)) => op.outcome = Err(failure.clone().into()),
            Happened::End(None) => {}
        }
        if let (Action::Txn(txn), true) = (action, op.again) {
            // As Kubernetes does: a retry with the revision of the response.
            self.repeated += 1;
            let request = self.transaction(txn, op.intended);
            let connection = self.connection(&txn.key);
            let again = Op { intended: op.intended, outcome: Ok(()), again: false };
            self.ops.insert(number, again);
            self.wire.open(connection, number as Tag, Method::Txn, &request, true);
            return;
        }
        match op.outcome {
            Ok(()) => {
                tally.success(class(action), op.intended, at, Yield::default());
                self.counters.done.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => {
                tally.wrong(class(action), error.to_string());
                self.counters.errors.fetch_add(1, Ordering::Relaxed);
            }
        }
        if let Action::Txn(txn) = action {
            match self.busy.get_mut(&txn.key).and_then(VecDeque::pop_front) {
                Some((next, intended)) => self.send(next, intended),
                None => drop(self.busy.remove(&txn.key)),
            }
        }
    }

    fn check(&mut self, number: usize, again: &mut bool, message: &[u8]) -> Result<(), WrongAnswer> {
        match &self.steps[number].action {
            Action::Txn(txn) => {
                let decided = cas::decided(message)?;
                if let cas::Decided::Done(revision) = decided {
                    self.known.insert(txn.key.clone(), if txn.put.is_some() { revision } else { 0 });
                    self.revisions.insert(txn.revision, revision);
                }
                match (decided, txn.succeeded) {
                    (cas::Decided::Done(_), true) | (cas::Decided::Changed(_), false) => Ok(()),
                    (cas::Decided::Done(_), false) => Err(WrongAnswer::Succeeded),
                    (cas::Decided::Changed(revision), true) => {
                        // A lease may have ended here and not there: then the key is gone or
                        // another.
                        let before = self.known.insert(txn.key.clone(), revision).unwrap_or(0);
                        *again = before != revision;
                        Err(WrongAnswer::Failed)
                    }
                }
            }
            Action::Grant { recorded, .. } => {
                self.leases.insert(*recorded, scan::number(message, 2)? as i64);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

fn heard(
    watch: &mut Watch,
    message: &[u8],
    stamper: Stamper,
    at: Instant,
    tally: &mut Tally,
) -> Result<(), WrongAnswer> {
    let response = events::response(message)?;
    if response.canceled {
        return Err(WrongAnswer::WatchCancelled);
    }
    if response.created {
        if let Some(opened) = watch.opened.take() {
            tally.success(WATCH, opened, at, Yield::default());
        }
        return Ok(());
    }
    if response.events == 0 {
        // One answer serves all that asked before it; a server may leave a request without an
        // answer.
        for asked in watch.asked.drain(..) {
            tally.success(PROGRESS, asked, at, Yield::default());
        }
        return Ok(());
    }
    for event in events::events(message) {
        let event = event?;
        if event.mod_revision < watch.last {
            let (revision, last) = (event.mod_revision, watch.last);
            return Err(WrongAnswer::EventOrder { revision, last });
        }
        watch.last = event.mod_revision;
        if let Some(intended) = stamper.intended(event.value) {
            tally.success(EVENT, intended, at, Yield::default());
        }
    }
    Ok(())
}

fn class(action: &Action) -> usize {
    match action {
        Action::Txn(_) => 0,
        Action::Range { stream: false, .. } => 1,
        Action::Range { stream: true, .. } => 2,
        Action::Grant { .. } => 3,
        Action::Watch { .. } | Action::EndWatch => WATCH,
        Action::Progress => PROGRESS,
        Action::Status => 6,
    }
}
