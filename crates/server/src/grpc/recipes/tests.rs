use std::sync::Arc;

use vetch_api::EtcdError;
use vetch_http2::{Budget, Holdings};
use vetch_node::store::request::KeyRange;

use super::{Client, Queue};

fn queue(name: &[u8]) -> Queue {
    Queue::new(name, Client::default()).expect("no client is charged")
}

#[test]
fn keys_are_the_name_a_slash_and_the_lease_in_hexadecimal() {
    let lk = queue(b"lk");
    assert_eq!(lk.key(77), "lk/4d");
    assert_eq!(lk.key(i64::MAX), "lk/7fffffffffffffff");
    assert_eq!(lk.key(-2), "lk/-2");
    assert_eq!(queue(b"").key(77), "/4d");
}

#[test]
fn a_queue_covers_its_own_keys_only() {
    let range = queue(b"lk").range();
    assert_eq!(range, KeyRange::new("lk/", "lk0"));
    assert!(range.contains(b"lk/4d"));
    assert!(!range.contains(b"lk2/4d"));
}

/// A name of a megabyte is kept several times for as long as its call waits.
#[test]
fn what_a_waiting_call_keeps_is_charged_to_its_client() {
    const LIMIT: usize = 4 << 20;
    let budget = Budget::new(LIMIT, LIMIT);
    let account = Holdings::from(Arc::clone(&budget));
    let client = || Client { charge: Some(account.charge()), turns: None };
    let long = vec![7; 1 << 20];
    let first = Queue::new(&long, client()).expect("there is room for it");
    assert!(account.charged() > 3 * long.len());
    let Err(refusal) = Queue::new(&long, client()) else { panic!("there is no room for another") };
    assert_eq!(refusal.message(), EtcdError::RequestTooManyRequests.text());
    // Its watcher counts as well.
    let mut second = Queue::new(b"short", client()).expect("there is room for it");
    assert!(second.charge(LIMIT / 2).is_err() && second.charge(1000).is_ok());
    drop((first, second));
    assert_eq!(account.charged(), 0);
}
