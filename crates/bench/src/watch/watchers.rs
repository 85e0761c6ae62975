//! The state of all watchers of a run, and what each message on their streams means for them.

use anyhow::Result;
use hashbrown::HashMap;
use prost::Message;
use prost::bytes::Bytes;
use vetch_api::pb;
use vetch_api::pb::watch_request::RequestUnion;

use super::events::{self, Event};
use crate::failure::WrongAnswer;
use crate::workloads::after;

pub(super) struct Watcher {
    pub(super) prefix: usize,
    pub(super) received: u64,
    last: i64,
}

/// One stream and its watchers, in the order in which they were created.
#[derive(Default)]
pub(super) struct Stream {
    watchers: Vec<Watcher>,
    by_id: HashMap<i64, usize, foldhash::fast::FixedState>,
}

impl Stream {
    pub(super) fn add(&mut self, prefix: usize) {
        self.watchers.push(Watcher { prefix, received: 0, last: 0 });
    }

    pub(super) fn watchers(&self) -> &[Watcher] {
        &self.watchers
    }

    /// All watchers were confirmed.
    pub(super) fn is_ready(&self) -> bool {
        self.by_id.len() == self.watchers.len()
    }

    /// Takes a message; tells of each event once it was checked.
    pub(super) fn message(
        &mut self,
        message: &[u8],
        previous: bool,
        mut tell: impl FnMut(&Event<'_>),
    ) -> Result<(), WrongAnswer> {
        let response = events::response(message)?;
        if response.canceled {
            return Err(WrongAnswer::WatchCancelled);
        }
        if response.created {
            // They are confirmed in the order of their creation.
            self.by_id.insert(response.watch_id, self.by_id.len());
            return Ok(());
        }
        if response.events == 0 {
            return Ok(());
        }
        let index = self.by_id.get(&response.watch_id).ok_or(WrongAnswer::UnknownWatcher)?;
        let watcher = &mut self.watchers[*index];
        for event in events::events(message) {
            let event = event?;
            if event.mod_revision <= watcher.last {
                let (revision, last) = (event.mod_revision, watcher.last);
                return Err(WrongAnswer::EventOrder { revision, last });
            }
            if previous && event.lacks_previous() {
                return Err(WrongAnswer::NoPreviousValue);
            }
            watcher.last = event.mod_revision;
            watcher.received += 1;
            tell(&event);
        }
        Ok(())
    }
}

/// The request that creates a watcher of a prefix.
pub(super) fn creation(prefix: &Bytes, prev_kv: bool) -> Vec<u8> {
    let create = pb::WatchCreateRequest {
        key: prefix.clone(),
        range_end: after(prefix),
        prev_kv,
        progress_notify: true,
        ..Default::default()
    };
    pb::WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) }.encode_to_vec()
}
