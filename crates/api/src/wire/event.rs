//! Responses of a watch: events, and the frames that carry them.

use bytes::BufMut;

use super::field::{
    bool_len, bytes_len, header_len, int64_len, part_len, put_bool, put_bytes, put_header, put_int64, put_kv,
    put_part_head,
};
use super::{WireKv, WireMessage};
use crate::pb::ResponseHeader;
use crate::{mvccpb, pb};

mod tag {
    pub(super) const EVENT_TYPE: u32 = 1;
    pub(super) const EVENT_KV: u32 = 2;
    pub(super) const EVENT_PREV_KV: u32 = 3;
    pub(super) const WATCH_ID: u32 = 2;
    pub(super) const CREATED: u32 = 3;
    pub(super) const CANCELED: u32 = 4;
    pub(super) const COMPACT_REVISION: u32 = 5;
    pub(super) const CANCEL_REASON: u32 = 6;
    pub(super) const FRAGMENT: u32 = 7;
    pub(super) const EVENTS: u32 = 11;
}

/// A change of one key.
#[derive(Clone, Debug)]
pub struct Event<K> {
    /// Put and delete are the only types there are.
    pub delete: bool,
    pub kv: K,
    pub prev_kv: Option<K>,
}

/// One frame of a watch stream.
#[derive(Clone, Debug)]
pub struct WatchResponse<K> {
    pub header: Option<ResponseHeader>,
    pub watch_id: i64,
    pub created: bool,
    pub canceled: bool,
    pub compact_revision: i64,
    pub cancel_reason: String,
    pub fragment: bool,
    pub events: Vec<Event<K>>,
}

// Written out because deriving it would ask for `K: Default`, which no frame needs.
impl<K> Default for WatchResponse<K> {
    fn default() -> Self {
        Self {
            header: None,
            watch_id: 0,
            created: false,
            canceled: false,
            compact_revision: 0,
            cancel_reason: String::new(),
            fragment: false,
            events: Vec::new(),
        }
    }
}

impl<K: WireKv> WireMessage for Event<K> {
    type Typed = mvccpb::Event;

    fn encoded_len(&self) -> usize {
        let prev = self.prev_kv.as_ref().map_or(0, |kv| part_len(tag::EVENT_PREV_KV, kv.wire_len()));
        bool_len(tag::EVENT_TYPE, self.delete) + part_len(tag::EVENT_KV, self.kv.wire_len()) + prev
    }

    fn encode(&self, buf: &mut impl BufMut) {
        // DELETE is 1 and PUT is 0, so the type has the encoding of a bool.
        put_bool(tag::EVENT_TYPE, self.delete, buf);
        put_kv(tag::EVENT_KV, &self.kv, buf);
        if let Some(prev_kv) = &self.prev_kv {
            put_kv(tag::EVENT_PREV_KV, prev_kv, buf);
        }
    }
}

impl<K: WireKv> WireMessage for WatchResponse<K> {
    type Typed = pb::WatchResponse;

    fn encoded_len(&self) -> usize {
        let events = self.events.iter().map(|event| part_len(tag::EVENTS, event.encoded_len()));
        header_len(self.header.as_ref())
            + int64_len(tag::WATCH_ID, self.watch_id)
            + bool_len(tag::CREATED, self.created)
            + bool_len(tag::CANCELED, self.canceled)
            + int64_len(tag::COMPACT_REVISION, self.compact_revision)
            + bytes_len(tag::CANCEL_REASON, self.cancel_reason.as_bytes())
            + bool_len(tag::FRAGMENT, self.fragment)
            + events.sum::<usize>()
    }

    fn encode(&self, buf: &mut impl BufMut) {
        put_header(self.header.as_ref(), buf);
        put_int64(tag::WATCH_ID, self.watch_id, buf);
        put_bool(tag::CREATED, self.created, buf);
        put_bool(tag::CANCELED, self.canceled, buf);
        put_int64(tag::COMPACT_REVISION, self.compact_revision, buf);
        put_bytes(tag::CANCEL_REASON, self.cancel_reason.as_bytes(), buf);
        put_bool(tag::FRAGMENT, self.fragment, buf);
        for event in &self.events {
            put_part_head(tag::EVENTS, event.encoded_len(), buf);
            event.encode(buf);
        }
    }
}
