use bytes::Bytes;
use vetch_api::pb;
use vetch_api::pb::watch_create_request::FilterType;
use vetch_api::wire::{Event, KeyValue, WatchResponse, WireMessage};

use super::{create_spec, fragment};

fn event(value: usize) -> Event<Bytes> {
    let kv =
        KeyValue { key: b"k", mod_revision: 9, version: 1, value: &vec![b'v'; value], ..KeyValue::default() };
    Event { delete: false, kv: kv.encode_to_vec().into(), prev_kv: None }
}

fn response(sizes: &[usize]) -> WatchResponse<Bytes> {
    let header = Some(pb::ResponseHeader { revision: 9, ..Default::default() });
    WatchResponse {
        header,
        watch_id: 3,
        events: sizes.iter().map(|s| event(*s)).collect(),
        ..Default::default()
    }
}

fn shape(pieces: &[WatchResponse<Bytes>]) -> Vec<(usize, bool)> {
    pieces.iter().map(|piece| (piece.events.len(), piece.fragment)).collect()
}

#[test]
fn short_responses_and_single_events_stay_whole() {
    assert_eq!(shape(&fragment::split(response(&[10, 10]), 1000)), [(2, false)]);
    assert_eq!(shape(&fragment::split(response(&[5000]), 1000)), [(1, false)]);
}

#[test]
fn pieces_stay_below_the_limit_and_all_but_the_last_say_that_more_follow() {
    let pieces = fragment::split(response(&[400; 7]), 1000);
    assert_eq!(shape(&pieces), [(2, true), (2, true), (2, true), (1, false)]);
    for piece in &pieces {
        assert!(piece.encoded_len() < 1000);
        assert_eq!((piece.watch_id, piece.header.as_ref().unwrap().revision), (3, 9));
    }
}

#[test]
fn an_event_over_the_limit_gets_a_piece_of_its_own() {
    let pieces = fragment::split(response(&[10, 5000, 10, 10]), 1000);
    assert_eq!(shape(&pieces), [(1, true), (1, true), (2, false)]);
}

#[test]
fn a_piece_is_cut_before_it_reaches_the_limit_exactly() {
    let two = response(&[400, 400]).encoded_len() + 2;
    assert_eq!(shape(&fragment::split(response(&[400; 3]), two)), [(1, true), (1, true), (1, false)]);
    assert_eq!(shape(&fragment::split(response(&[400; 3]), two + 1)), [(2, true), (1, false)]);
}

#[test]
fn filters_are_read_by_number_and_unknown_numbers_filter_nothing() {
    let spec =
        |filters: Vec<i32>| create_spec(pb::WatchCreateRequest { filters, ..Default::default() }).filters;
    assert!(spec(vec![FilterType::Noput as i32]).no_put);
    assert!(spec(vec![9, FilterType::Nodelete as i32]).no_delete);
    assert!(spec(vec![9]).is_open());
}
