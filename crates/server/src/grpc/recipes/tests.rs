use vetch_node::store::request::KeyRange;

use super::Queue;

#[test]
fn keys_are_the_name_a_slash_and_the_lease_in_hexadecimal() {
    let queue = Queue::new(b"lk");
    assert_eq!(queue.key(77), "lk/4d");
    assert_eq!(queue.key(i64::MAX), "lk/7fffffffffffffff");
    assert_eq!(queue.key(-2), "lk/-2");
    assert_eq!(Queue::new(b"").key(77), "/4d");
}

#[test]
fn a_queue_covers_its_own_keys_only() {
    let range = Queue::new(b"lk").range();
    assert_eq!(range, KeyRange::new("lk/", "lk0"));
    assert!(range.contains(b"lk/4d"));
    assert!(!range.contains(b"lk2/4d"));
}
