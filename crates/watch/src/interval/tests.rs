use super::*;
use proptest::prelude::*;

fn hits(map: &IntervalMap, key: &[u8]) -> Vec<u32> {
    let mut hits = Vec::new();
    map.stab(key, &mut |value| hits.push(value));
    hits.sort_unstable();
    hits
}

#[test]
fn a_key_finds_the_spans_around_it() {
    let mut map = IntervalMap::default();
    map.insert(b"a", Some(b"m"), 1);
    map.insert(b"c", Some(b"d"), 2);
    map.insert(b"c", None, 3);
    assert_eq!(hits(&map, b"b"), [1]);
    assert_eq!(hits(&map, b"c"), [1, 2, 3]);
    assert_eq!(hits(&map, b"d"), [1, 3]);
    assert_eq!(hits(&map, b"zz"), [3]);
    assert_eq!(map.remove(b"c", None), Some(3));
    assert_eq!(map.remove(b"c", None), None);
    assert_eq!(hits(&map, b"c"), [1, 2]);
    assert_eq!(map.get(b"c", Some(b"d")), Some(2));
}

#[test]
fn a_lookup_among_many_disjoint_spans_visits_few() {
    let mut map = IntervalMap::default();
    for n in 0..10_000_u32 {
        map.insert(&(2 * n).to_be_bytes(), Some(&(2 * n + 1).to_be_bytes()), n);
    }
    assert!(depth(&map, map.root()) < 60, "the tree is out of balance");
    assert_eq!(hits(&map, &5000_u32.to_be_bytes()), [2500]);
    assert_eq!(hits(&map, &5001_u32.to_be_bytes()), []);
}

fn depth(map: &IntervalMap, at: u32) -> usize {
    if at == NIL { 0 } else { 1 + depth(map, map.node(at).left).max(depth(map, map.node(at).right)) }
}

proptest! {
    #[test]
    fn lookups_agree_with_a_list(
        steps in prop::collection::vec((any::<bool>(), 0..20_u8, prop::option::of(0..20_u8)), 1..120),
    ) {
        let mut map = IntervalMap::default();
        let mut list: Vec<(u8, Option<u8>, u32)> = Vec::new();
        for (value, (add, start, end)) in steps.into_iter().enumerate() {
            let end = end.map(|length| start + 1 + length);
            let bytes = end.map(|end| [end]);
            let bytes = bytes.as_ref().map(|end| end.as_slice());
            let at = list.iter().position(|known| (known.0, known.1) == (start, end));
            if add && at.is_none() {
                map.insert(&[start], bytes, value as u32);
                list.push((start, end, value as u32));
            } else if !add {
                let removed = at.map(|at| list.remove(at).2);
                prop_assert_eq!(map.remove(&[start], bytes), removed);
            }
            for key in 0..42_u8 {
                let mut expected: Vec<u32> = list
                    .iter()
                    .filter(|known| known.0 <= key && known.1.is_none_or(|end| key < end))
                    .map(|known| known.2)
                    .collect();
                expected.sort_unstable();
                prop_assert_eq!(hits(&map, &[key]), expected);
            }
        }
    }
}
