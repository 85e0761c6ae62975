//! The watch caches of the API servers: one watch for each resource of each of them, and who waits
//! for what.

use std::time::{Duration, Instant};

use prost::Message;
use prost::bytes::Bytes;
use vetch_api::pb;
use vetch_api::pb::watch_request::RequestUnion;

use crate::failure::WrongAnswer;
use crate::watch::events::{self, Stamper};
use crate::wire::{Method, Tag, Wire};
use crate::workloads::after;

/// Tags of watches begin here, behind those of requests.
pub(super) const WATCHES: Tag = 1 << 32;
/// A request for progress is repeated after this time.
const REPEAT: Duration = Duration::from_millis(100);

#[derive(Default)]
pub(super) struct Cache {
    pub(super) prefix: Bytes,
    /// Everything up to this revision has arrived.
    pub(super) revision: i64,
    pub(super) created: bool,
    last_event: i64,
    /// Revisions that reads wait for, and since when.
    waiting: Vec<(i64, Instant)>,
    asked: Option<Instant>,
}

/// What a message brought.
#[derive(Default)]
pub(super) struct Received {
    /// Times at which the events were to be written.
    pub(super) written: Vec<Instant>,
    /// Since when those have waited who need not wait any longer.
    pub(super) reached: Vec<Instant>,
    pub(super) created: bool,
}

impl Cache {
    pub(super) fn new(prefix: String) -> Cache {
        Cache { prefix: Bytes::from(prefix.into_bytes()), ..Cache::default() }
    }

    /// Watches from a revision on; 0: from now on.
    pub(super) fn open(&mut self, wire: &mut dyn Wire, connection: usize, tag: Tag, from: i64) {
        let create = pb::WatchCreateRequest {
            key: self.prefix.clone(),
            range_end: after(&self.prefix),
            start_revision: from,
            progress_notify: true,
            prev_kv: true,
            ..Default::default()
        };
        self.created = false;
        self.asked = None;
        let request = pb::WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
        wire.open(connection, tag, Method::Watch, &request.encode_to_vec(), false);
    }

    /// Registers a read that needs the cache at this revision. True if it is there already.
    pub(super) fn wait_for(&mut self, revision: i64, since: Instant) -> bool {
        if self.revision >= revision {
            return true;
        }
        self.waiting.push((revision, since));
        false
    }

    /// Requests progress if a read waits and the last request is old enough.
    pub(super) fn nudge(&mut self, wire: &mut dyn Wire, tag: Tag, now: Instant) {
        if self.waiting.is_empty() || !self.created || self.asked.is_some_and(|at| now < at + REPEAT) {
            return;
        }
        self.asked = Some(now);
        let progress = RequestUnion::ProgressRequest(pb::WatchProgressRequest {});
        wire.send(tag, &pb::WatchRequest { request_union: Some(progress) }.encode_to_vec());
    }

    /// When `nudge` has something to do.
    pub(super) fn next_nudge(&self) -> Option<Instant> {
        if self.waiting.is_empty() { None } else { self.asked.map(|at| at + REPEAT) }
    }

    pub(super) fn message(&mut self, message: &[u8], stamper: Stamper) -> Result<Received, WrongAnswer> {
        let response = events::response(message)?;
        let mut received = Received::default();
        if response.canceled {
            return Err(WrongAnswer::WatchCancelled);
        }
        if response.created {
            self.created = true;
            received.created = true;
            return Ok(received);
        }
        for event in events::events(message) {
            let event = event?;
            if event.mod_revision <= self.last_event {
                let (revision, last) = (event.mod_revision, self.last_event);
                return Err(WrongAnswer::EventOrder { revision, last });
            }
            if event.lacks_previous() {
                return Err(WrongAnswer::NoPreviousValue);
            }
            self.last_event = event.mod_revision;
            received.written.extend(stamper.intended(event.value));
        }
        let reached = if response.events > 0 { self.last_event } else { response.revision };
        self.revision = self.revision.max(reached);
        self.waiting.retain(|(revision, since)| {
            let done = *revision <= self.revision;
            received.reached.extend(done.then_some(*since));
            !done
        });
        if self.waiting.is_empty() {
            self.asked = None;
        }
        Ok(received)
    }

    /// The API server is gone, and with it everybody who waited.
    pub(super) fn forget(&mut self) {
        self.waiting.clear();
        self.revision = 0;
        self.last_event = 0;
        self.created = false;
        self.asked = None;
    }

    pub(super) fn waiting(&self) -> impl Iterator<Item = Instant> + '_ {
        self.waiting.iter().map(|(_, since)| *since)
    }
}
