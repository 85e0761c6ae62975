//! Requests and responses of a watch stream as plain values, one field per fact on the wire.

use std::borrow::Cow;

use crate::log_event::LogEvent;
use crate::matched::Match;
use crate::range::Filters;

/// The watch id of responses that belong to no single watcher.
pub const NO_WATCH: i64 = -1;

/// Cancel reason of a create with a negative start revision.
pub const REASON_COMPACTED: &str = "etcdserver: mvcc: required revision has been compacted";
/// Cancel reason of a create whose range holds no key.
pub const REASON_EMPTY_RANGE: &str = "mvcc: watcher range is empty";
/// Cancel reason of a create with an id that is in use.
pub const REASON_DUPLICATE: &str = "mvcc: duplicate watch ID provided on the WatchStream";

/// A request to watch a range.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Create {
    /// First key; empty means the smallest key.
    pub key: Vec<u8>,
    /// End of the range; empty means the single key, `\0` means every key from `key` on.
    pub range_end: Vec<u8>,
    /// First revision wanted; 0 means after now.
    pub start_revision: i64,
    /// Id chosen by the client; 0 asks for the next free one.
    pub watch_id: i64,
    /// Passed through to the responses.
    pub prev_kv: bool,
    /// Passed through to the responses.
    pub fragment: bool,
    /// Send this watcher's progress at each tick without events.
    pub progress_notify: bool,
    /// Kinds of events not wanted.
    pub filters: Filters,
}

/// What a watcher takes beside its range: its place in the stream and in the hub, and that of its
/// group, with the room that tables keep to grow.
const WATCHER_BYTES: usize = 768;

impl Create {
    /// Bytes that a watcher like this takes, about. One that shares its range with others takes
    /// less.
    pub fn bytes(&self) -> usize {
        // The group has the range, and so has the index that finds it.
        WATCHER_BYTES + 2 * (self.key.len() + self.range_end.len())
    }
}

/// One message to the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response<E> {
    /// The watcher, or -1.
    pub watch_id: i64,
    /// Revision for the header.
    pub header_revision: i64,
    /// Answers a create.
    pub created: bool,
    /// The watcher is gone, or was never made.
    pub canceled: bool,
    /// Set if compaction overtook the watcher.
    pub compact_revision: i64,
    /// Why a create was refused.
    pub cancel_reason: Cow<'static, str>,
    /// Whole revisions, ascending.
    pub revisions: Vec<Match<E>>,
    /// Vouches that everything up to the header revision was sent.
    pub progress: bool,
    /// The watcher wants previous values.
    pub prev_kv: bool,
    /// The watcher accepts a large response in pieces.
    pub fragment: bool,
}

impl<E> Response<E> {
    pub(crate) fn new(watch_id: i64, header_revision: i64) -> Self {
        Response {
            watch_id,
            header_revision,
            created: false,
            canceled: false,
            compact_revision: 0,
            cancel_reason: Cow::Borrowed(""),
            revisions: Vec::new(),
            progress: false,
            prev_kv: false,
            fragment: false,
        }
    }

    pub(crate) fn refused(header_revision: i64, reason: Cow<'static, str>) -> Self {
        let response = Response::new(NO_WATCH, header_revision);
        Response { created: true, canceled: true, cancel_reason: reason, ..response }
    }
}

impl<E: LogEvent> Response<E> {
    /// All events in order.
    pub fn events(&self) -> impl Iterator<Item = &E> {
        self.revisions.iter().flat_map(Match::events)
    }
}
