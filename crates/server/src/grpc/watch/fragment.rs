//! Cutting a large response into pieces, for watchers that asked for it.

use prost::encoding::encoded_len_varint;
use vetch_api::wire::{Event, WatchResponse, WireKv, WireMessage};

/// Tag of an event in a response.
const EVENT_TAG: usize = 1;
/// Tag and value of the mark that more pieces follow.
const FRAGMENT_MARK: usize = 2;

/// The response in pieces shorter than `limit`, where that is possible: a piece has at least one
/// event. All but the last say that more follow. A response that is short enough, or has a single
/// event, stays whole.
pub(super) fn split<K: WireKv>(mut response: WatchResponse<K>, limit: usize) -> Vec<WatchResponse<K>> {
    if response.events.len() < 2 || response.encoded_len() < limit {
        return vec![response];
    }
    let events = std::mem::take(&mut response.events);
    let empty = response.encoded_len() + FRAGMENT_MARK;
    let mut pieces = Vec::new();
    let mut piece = Vec::new();
    let mut len = empty;
    for event in events {
        let event_len = len_in_response(&event);
        if !piece.is_empty() && len + event_len >= limit {
            pieces.push(piece_of(&response, std::mem::take(&mut piece), true));
            len = empty;
        }
        len += event_len;
        piece.push(event);
    }
    pieces.push(piece_of(&response, piece, false));
    pieces
}

fn piece_of<K: WireKv>(whole: &WatchResponse<K>, events: Vec<Event<K>>, fragment: bool) -> WatchResponse<K> {
    WatchResponse { events, fragment, ..whole.clone() }
}

fn len_in_response<K: WireKv>(event: &Event<K>) -> usize {
    let len = event.encoded_len();
    EVENT_TAG + encoded_len_varint(len as u64) + len
}
