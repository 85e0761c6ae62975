use super::*;
use proptest::prelude::*;

fn hits(map: &IntervalMap, key: &[u8]) -> Vec<u32> {
    let mut hits = Vec::new();
    map.stab(key, usize::MAX, &mut |value| hits.push(value));
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

/// Orders in which a client may create its watches. Each names every number below `count` once.
fn orders(count: u32) -> Vec<(&'static str, Vec<u32>)> {
    let ascending: Vec<u32> = (0..count).collect();
    let descending = ascending.iter().rev().copied().collect();
    let zigzag = (0..count).map(|n| if n % 2 == 0 { n / 2 } else { count - 1 - n / 2 }).collect();
    let inwards = (0..count).rev().map(|n| if n % 2 == 0 { n / 2 } else { count - 1 - n / 2 }).collect();
    vec![
        ("ascending", ascending),
        ("descending", descending),
        ("zigzag", zigzag),
        ("from the middle", inwards),
        ("path of a treap", treap_path(count)),
    ]
}

/// The order that makes a path of a treap whose priorities are [`scatter`] of a counter, as this
/// map once was: the span that comes n-th lies where its priority is among all priorities.
fn treap_path(count: u32) -> Vec<u32> {
    let mut by_priority: Vec<u32> = (0..count).collect();
    by_priority.sort_unstable_by_key(|n| scatter(u64::from(*n) + 1));
    let mut order = vec![0; count as usize];
    for (rank, n) in (0..).zip(by_priority) {
        order[n as usize] = rank;
    }
    order
}

/// The finaliser of splitmix64.
fn scatter(n: u64) -> u64 {
    let mut x = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The greatest height of an AVL tree.
fn height_limit(count: u32) -> u8 {
    (1.4405 * f64::from(count + 2).log2()) as u8
}

/// Order, heights and widest nodes of a subtree; returns its height and how many nodes it has.
fn check(map: &IntervalMap, at: u32) -> (u8, u32) {
    if at == NIL {
        return (0, 0);
    }
    let node = map.node(at);
    let (left, right) = (check(map, node.left), check(map, node.right));
    assert!(left.0.abs_diff(right.0) <= 1, "heights {} and {} side by side", left.0, right.0);
    assert_eq!(node.height, 1 + left.0.max(right.0));
    let mut widest = map.span(at).1;
    for child in [node.left, node.right].into_iter().filter(|child| *child != NIL) {
        let below = map.span(map.node(child).widest).1;
        widest = if compare_ends(below, widest).is_gt() { below } else { widest };
        assert_eq!(compare(map.span(child), map.span(at)).is_lt(), child == node.left);
    }
    assert_eq!(compare_ends(map.span(node.widest).1, widest), Ordering::Equal);
    (node.height, 1 + left.1 + right.1)
}

fn first_key(n: u32) -> [u8; 4] {
    (2 * n).to_be_bytes()
}

fn end_key(n: u32) -> [u8; 4] {
    (2 * n + 1).to_be_bytes()
}

#[test]
fn no_order_of_spans_makes_the_tree_high_or_a_lookup_expensive() {
    const COUNT: u32 = 50_000;
    for (name, order) in orders(COUNT) {
        let mut map = IntervalMap::default();
        for n in &order {
            map.insert(&first_key(*n), Some(&end_key(*n)), *n);
        }
        let height = map.height(map.root());
        assert!(height <= height_limit(COUNT), "{name}: height {height}");
        assert_eq!(check(&map, map.root()), (height, COUNT));
        for n in (0..COUNT).step_by(97) {
            let mut found = Vec::new();
            let visited = map.stab(&first_key(n), usize::MAX, &mut |value| found.push(value));
            assert_eq!(found, [n]);
            assert!(visited <= usize::from(height), "{name}: {visited} nodes visited for one hit");
            assert!(
                map.stab(&end_key(n), usize::MAX, &mut |_| panic!("no span is there")) <= usize::from(height)
            );
        }
        // Whatever goes, in the order in which it came, what is left stays balanced.
        for n in &order[..order.len() - 1000] {
            assert_eq!(map.remove(&first_key(*n), Some(&end_key(*n))), Some(*n));
        }
        let height = map.height(map.root());
        assert!(height <= height_limit(1000), "{name}: height {height} of a thousand");
        assert_eq!(check(&map, map.root()), (height, 1000));
    }
}

#[test]
fn a_million_spans_that_would_make_a_path_of_a_treap_make_a_balanced_tree() {
    const COUNT: u32 = 1_000_000;
    let mut map = IntervalMap::default();
    for n in treap_path(COUNT) {
        map.insert(&first_key(n), Some(&end_key(n)), n);
    }
    assert!(map.height(map.root()) <= height_limit(COUNT), "height {}", map.height(map.root()));
    assert_eq!(hits(&map, &first_key(COUNT / 2)), [COUNT / 2]);
}

#[test]
fn a_lookup_costs_what_it_finds() {
    const COUNT: u32 = 20_000;
    // Spans that begin at zero and end everywhere: at the ends of the keys many, few or none of
    // them hit.
    for (name, order) in orders(COUNT) {
        let mut map = IntervalMap::default();
        for n in order {
            map.insert(&[0], Some(&end_key(n)), n);
        }
        let height = usize::from(map.height(map.root()));
        for hits in [0, 1, 2, 10, 1000, COUNT] {
            let mut found = 0;
            let visited = map.stab(&first_key(COUNT - hits), usize::MAX, &mut |_| found += 1);
            assert_eq!(found, hits);
            assert!(visited <= hits as usize + 2 * height, "{name}: {visited} nodes visited for {hits} hits");
        }
    }
    // Narrow spans, and wide ones scattered among them: the ancestors of every hit are visited, no
    // more.
    let mut map = IntervalMap::default();
    for n in 0..COUNT {
        let end = if n % 200 == 0 { end_key(COUNT) } else { end_key(n) };
        map.insert(&first_key(n), Some(&end), n);
    }
    let height = usize::from(map.height(map.root()));
    let mut found = 0;
    let visited = map.stab(&end_key(COUNT - 1), usize::MAX, &mut |_| found += 1);
    assert_eq!(found, 100);
    assert!(visited <= 100 * height, "{visited} nodes visited for 100 hits");
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
            let (_, count) = check(&map, map.root());
            prop_assert_eq!(count as usize, list.len());
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
