//! The loop of the watch workload: one thread writes, reads all streams, and compares.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use prost::Message;
use prost::bytes::Bytes;
use vetch_api::pb;

use super::Watching;
use super::events::Stamper;
use super::watchers::{Stream, creation};
use crate::failure::CallError;
use crate::measure::monitor::{Counters, Seen};
use crate::measure::tally::{Tally, Window, Yield};
use crate::session::Session;
use crate::wire::{Happened, Inbox, Method, Tag, Wire};
use crate::workloads::{Keys, Values, setup};

const WRITE: usize = 0;
pub(super) const EVENT: usize = 1;
const SLOW: usize = 2;
const CLASSES: [&str; 3] = ["write", "write to event", "write to event, slow watchers"];

/// Tags of writes begin here, those of streams at 0.
const WRITES: Tag = 1 << 32;
const UNDER_WAY: usize = 4096;
const READY: Duration = Duration::from_secs(60);
const DRAIN: Duration = Duration::from_secs(10);
/// A slow watcher reads for a tenth of this time.
const SLOW_PERIOD: Duration = Duration::from_secs(1);

pub(super) struct Run<'a> {
    options: &'a Watching,
    wire: Box<dyn Wire>,
    streams: Vec<Stream>,
    /// Connections from this one on belong to slow watchers.
    first_slow: usize,
    stamper: Stamper,
    filler: Bytes,
    prefixes: Vec<Keys>,
    /// Writes that were acknowledged, by prefix.
    acknowledged: Vec<u64>,
    /// Prefix and intended time of each write under way.
    writes: Vec<(usize, Instant)>,
    free: VecDeque<usize>,
    issued: u64,
    broken: bool,
}

impl<'a> Run<'a> {
    /// Writes the keys, so that every event has a previous value, and creates the watchers.
    pub(super) fn prepare(session: &Session<'_>, options: &'a Watching) -> Result<Run<'a>> {
        let prefixes: Vec<Keys> = (0..options.prefixes)
            .map(|index| Keys::new(&format!("{}watch/{index:04}/", session.common.prefix), options.keys))
            .collect();
        for keys in &prefixes {
            setup::fill(session, keys, Values::new(options.value_size, session.common.seed), false)?;
        }
        let connections = match options.stream_connections {
            0 => options.streams,
            given => given.min(options.streams),
        };
        let filler = Values::new(options.value_size, session.common.seed).value();
        let mut run = Run {
            options,
            // One more, for the writes: the last.
            wire: session.wire(connections + options.slow + 1)?,
            streams: Vec::new(),
            first_slow: connections,
            stamper: Stamper::new(),
            filler,
            acknowledged: vec![0; options.prefixes],
            prefixes,
            writes: vec![(0, Instant::now()); options.writers.unwrap_or(UNDER_WAY)],
            free: (0..options.writers.unwrap_or(UNDER_WAY)).collect(),
            issued: 0,
            broken: false,
        };
        run.create()?;
        Ok(run)
    }

    fn create(&mut self) -> Result<()> {
        let total = self.options.streams + self.options.slow;
        self.streams.resize_with(total, Stream::default);
        for watcher in 0..self.options.watchers + self.options.slow {
            let stream = match watcher.checked_sub(self.options.watchers) {
                None => watcher % self.options.streams,
                Some(slow) => self.options.streams + slow,
            };
            let prefix = watcher % self.options.prefixes;
            let request = creation(&self.prefixes[prefix].all().0, !self.options.without_previous);
            if self.streams[stream].watchers().is_empty() {
                let connection = match stream.checked_sub(self.options.streams) {
                    None => stream % self.first_slow,
                    Some(slow) => self.first_slow + slow,
                };
                self.wire.open(connection, stream as Tag, Method::Watch, &request, false);
            } else {
                self.wire.send(stream as Tag, &request);
            }
            self.streams[stream].add(prefix);
        }
        let deadline = Instant::now() + READY;
        let mut inbox = Inbox::default();
        let mut unused = Tally::new(&CLASSES, Window { start: deadline, end: deadline });
        while !self.streams.iter().all(Stream::is_ready) {
            ensure!(Instant::now() < deadline, "not all watchers were created within {READY:?}");
            self.step(deadline, &mut inbox, &mut unused, &Counters::default());
            if let Some(text) = unused.errors.keys().next() {
                bail!("creating watchers: {text}");
            }
        }
        Ok(())
    }

    pub(super) fn run(&mut self, session: &Session<'_>) -> Result<(Tally, Seen)> {
        session.pin_client()?;
        let window = session.window();
        let counters = Arc::new(Counters::default());
        let monitor = session.monitor(window, &counters);
        let mut tally = Tally::new(&CLASSES, window);
        let mut inbox = Inbox::default();
        let begun = Instant::now();
        let mut end = window.end;
        let mut reading = true;
        loop {
            let now = Instant::now();
            if session.stop.is_raised() {
                end = end.min(now);
            }
            if now >= end {
                break;
            }
            self.pace_slow(now - begun, &mut reading);
            let due = self.write(begun, now);
            let until = due.unwrap_or(end).min(end).min(now + Duration::from_millis(50));
            self.step(until, &mut inbox, &mut tally, &counters);
        }
        tally.window.end = end.max(tally.window.start);
        self.drain(begun..end, &mut inbox, &mut tally, &counters);
        Ok((tally, monitor.finish()))
    }

    /// Slow watchers read during a tenth of each period.
    fn pace_slow(&mut self, since: Duration, reading: &mut bool) {
        let part = since.as_millis() % SLOW_PERIOD.as_millis();
        let read = part < SLOW_PERIOD.as_millis() / 10;
        if read != *reading {
            *reading = read;
            self.hold_slow(!read);
        }
    }

    fn hold_slow(&mut self, held: bool) {
        for connection in self.first_slow..self.first_slow + self.options.slow {
            self.wire.hold(connection, held);
        }
    }

    /// When the next write is due that does not wait for an answer.
    fn due(&self, begun: Instant) -> Option<Instant> {
        let since = || Duration::from_secs_f64(self.issued as f64 / self.options.rate);
        self.options.writers.is_none().then(|| begun + since())
    }

    /// Sends what is due at `now`; answers when the next write is.
    fn write(&mut self, begun: Instant, now: Instant) -> Option<Instant> {
        loop {
            let due = self.due(begun).unwrap_or(now);
            if due > now {
                return Some(due);
            }
            let slot = self.free.pop_front()?;
            let prefix = self.issued as usize % self.prefixes.len();
            let key = self.issued as usize / self.prefixes.len() % self.options.keys;
            let intended = if self.options.writers.is_some() { Instant::now() } else { due };
            let request = pb::PutRequest {
                key: self.prefixes[prefix].key(key),
                value: self.stamper.stamped(intended, &self.filler, self.options.value_size),
                ..Default::default()
            };
            self.issued += 1;
            self.writes[slot] = (prefix, intended);
            let connection = self.wire.connections() - 1;
            self.wire.open(connection, WRITES + slot as Tag, Method::Put, &request.encode_to_vec(), true);
        }
    }

    fn step(&mut self, until: Instant, inbox: &mut Inbox, tally: &mut Tally, counters: &Counters) {
        inbox.clear();
        self.wire.wait(until, inbox);
        for (tag, at, happened) in inbox.iter() {
            if let Some(slot) = tag.checked_sub(WRITES) {
                self.written(slot as usize, at, happened, tally, counters);
            } else {
                self.on_watch(tag as usize, at, happened, tally, counters);
            }
        }
    }

    fn written(
        &mut self,
        slot: usize,
        at: Instant,
        happened: Happened<'_>,
        tally: &mut Tally,
        counters: &Counters,
    ) {
        let (prefix, intended) = self.writes[slot];
        match happened {
            Happened::Message(_) => return,
            Happened::End(None) => {
                tally.success(WRITE, intended, at, Yield::default());
                self.acknowledged[prefix] += 1;
            }
            Happened::End(Some(failure)) => {
                tally.failure(WRITE, failure);
                counters.errors.fetch_add(1, Ordering::Relaxed);
                // What became of it is not known, so nothing can be said of the number of events.
                self.broken = true;
            }
        }
        self.free.push_back(slot);
    }

    fn on_watch(
        &mut self,
        stream: usize,
        at: Instant,
        happened: Happened<'_>,
        tally: &mut Tally,
        counters: &Counters,
    ) {
        let class = if stream < self.options.streams { EVENT } else { SLOW };
        let error = match happened {
            Happened::Message(message) => {
                let stamper = self.stamper;
                let mut count = 0;
                let previous = !self.options.without_previous;
                let outcome = self.streams[stream].message(message, previous, |event| {
                    if let Some(intended) = stamper.intended(event.value) {
                        tally.success(class, intended, at, Yield { keys: 1, bytes: 0 });
                        count += 1;
                    }
                });
                counters.done.fetch_add(count, Ordering::Relaxed);
                outcome.err().map(CallError::from)
            }
            Happened::End(failure) => {
                self.broken = true;
                Some(CallError::of_watch(failure))
            }
        };
        if let Some(error) = error {
            counters.errors.fetch_add(1, Ordering::Relaxed);
            tally.wrong(class, error.to_string());
        }
    }

    /// Sends what was due in `time` and waits for the rest of the answers and events, then counts.
    fn drain(&mut self, time: Range<Instant>, inbox: &mut Inbox, tally: &mut Tally, counters: &Counters) {
        self.hold_slow(false);
        let deadline = Instant::now() + DRAIN;
        let late = |run: &Self| run.due(time.start).filter(|due| time.contains(due));
        while Instant::now() < deadline && !self.broken && !(late(self).is_none() && self.is_complete()) {
            if late(self).is_some() {
                self.write(time.start, time.end);
            }
            self.step(Instant::now() + Duration::from_millis(50), inbox, tally, counters);
        }
        let now = Instant::now();
        for slot in 0..self.writes.len() {
            if !self.free.contains(&slot) {
                tally.unanswered(WRITE, self.writes[slot].1, now);
            }
        }
        while let Some(due) = late(self) {
            tally.unsent(WRITE, due, now);
            self.issued += 1;
        }
        if !self.broken && self.free.len() == self.writes.len() {
            self.count(tally);
        }
    }

    fn is_complete(&self) -> bool {
        let all = |stream: &Stream| {
            stream.watchers().iter().all(|watcher| watcher.received >= self.acknowledged[watcher.prefix])
        };
        self.free.len() == self.writes.len() && self.streams.iter().all(all)
    }

    fn count(&self, tally: &mut Tally) {
        for (index, stream) in self.streams.iter().enumerate() {
            let class = if index < self.options.streams { EVENT } else { SLOW };
            for watcher in stream.watchers() {
                let expected = self.acknowledged[watcher.prefix];
                if watcher.received != expected {
                    let text = format!("a watcher got {} writes of {expected}", watcher.received);
                    tally.wrong(class, text);
                }
            }
        }
    }
}
