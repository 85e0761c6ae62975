//! Unions of ranges, against the plain meaning of the words.

use bytes::Bytes;
use proptest::prelude::*;

use crate::auth::KeySet;
use crate::auth::keyset::union_covers;

fn set(ranges: &[(&str, &str)]) -> KeySet {
    let mut set = KeySet::default();
    for (key, end) in ranges {
        set.insert(&Bytes::from(key.to_string()), &Bytes::from(end.to_string()));
    }
    set
}

#[test]
fn a_range_may_be_covered_by_several() {
    let keys = set(&[("a", "c"), ("c", "e"), ("g", ""), ("g\0", "i")]);
    assert!(keys.covers(b"a", b"e"), "neighbours touch");
    assert!(keys.covers(b"b", b"d"));
    assert!(keys.covers(b"g", b"h"), "a single key touches the range behind it");
    assert!(!keys.covers(b"a", b"f"));
    assert!(!keys.covers(b"d", b"h"), "there is a gap");
    assert!(!keys.covers(b"a", b"\0"));
}

#[test]
fn single_keys_and_ends() {
    let keys = set(&[("k", ""), ("m", "n"), ("x", "\0")]);
    assert!(keys.contains(b"k") && !keys.contains(b"k\0") && !keys.contains(b"j"));
    assert!(keys.covers(b"k", b"") && keys.covers(b"k", b"k\0") && !keys.covers(b"k", b"l"));
    assert!(keys.contains(b"m") && keys.contains(b"m\xff") && !keys.contains(b"n"));
    assert!(keys.covers(b"x", b"\0") && keys.covers(b"y", b"\0") && keys.covers(b"y", b"z"));
    assert!(!keys.covers(b"m", b"\0") && !keys.covers(b"w", b"\0"));
    assert!(keys.contains(b"\xff\xff"));
}

/// Observed: such a range is permitted if its first key is.
#[test]
fn a_range_the_wrong_way_round_counts_as_its_first_key() {
    let keys = set(&[("m", "n")]);
    assert!(keys.covers(b"m", b"a") && keys.covers(b"m", b"m"));
    assert!(!keys.covers(b"x", b"m"));
}

#[test]
fn nothing_covers_nothing() {
    assert!(!set(&[]).covers(b"a", b"") && !set(&[("b", "a")]).covers(b"a", b""));
}

/// Keys of one or two letters out of three, where everything happens.
fn key() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop::sample::select(vec![0u8, b'a', b'b']), 1..3)
}

fn end() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![Just(vec![]), Just(vec![0]), key()]
}

fn holds(range: &(Vec<u8>, Vec<u8>), key: &[u8]) -> bool {
    let (start, end) = range;
    match end.as_slice() {
        [] => start == key,
        [0] => start.as_slice() <= key,
        end => start.as_slice() <= key && key < end,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    /// A range is covered if and only if each of its keys is in one of the ranges. Ends have at
    /// most two letters, so what is true of all keys of up to three letters is true of all keys.
    #[test]
    fn covered_is_what_every_key_says(
        ranges in prop::collection::vec((key(), end()), 0..6),
        wanted in (key(), end()),
    ) {
        let mut set = KeySet::default();
        // The same, as the permissions of several roles.
        let mut parts = [KeySet::default(), KeySet::default(), KeySet::default()];
        for (number, (key, end)) in ranges.iter().enumerate() {
            let (key, end) = (Bytes::from(key.clone()), Bytes::from(end.clone()));
            set.insert(&key, &end);
            parts[number % 3].insert(&key, &end);
        }
        let letters = [0u8, b'a', b'b', b'c'];
        let mut keys: Vec<Vec<u8>> = vec![];
        for &a in &letters {
            keys.push(vec![a]);
            for &b in &letters {
                keys.push(vec![a, b]);
                keys.extend(letters.iter().map(|&c| vec![a, b, c]));
            }
        }
        for key in &keys {
            prop_assert_eq!(set.contains(key), ranges.iter().any(|range| holds(range, key)));
        }
        let (start, end) = &wanted;
        if end.is_empty() || end == &[0] || start < end {
            let all = keys.iter().filter(|key| holds(&wanted, key)).all(|key| set.contains(key));
            prop_assert_eq!(set.covers(start, end), all, "{:?} {:?}", ranges, wanted);
            prop_assert_eq!(union_covers(parts.iter(), start, end), all, "{:?} {:?}", ranges, wanted);
        }
    }
}
