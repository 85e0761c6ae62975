use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// Keys for slots 0..n, in an order unlike the slots' own.
fn key_table(n: u32) -> Vec<Vec<u8>> {
    (0..n)
        .map(|slot| format!("/k/{:07}/{slot}", slot.wrapping_mul(2_654_435_761) % 1_000_003).into_bytes())
        .collect()
}

#[derive(Debug, Clone)]
enum Step {
    Insert(u32),
    Remove(u32),
    Flip(u32),
}

fn step(n: u32) -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..n).prop_map(Step::Insert),
        3 => (0..n).prop_map(Step::Remove),
        1 => (0..n).prop_map(Step::Flip),
    ]
}

/// Every count and the order agree with a plain sorted map.
fn check(tree: &Tree, table: &[Vec<u8>], model: &BTreeMap<Vec<u8>, (u32, bool)>) {
    let keys = |slot: Slot| table[slot as usize].as_slice();
    let mut cursor = tree.seek(&keys, b"");
    let walked: Vec<u32> = std::iter::from_fn(|| tree.next(&mut cursor)).collect();
    assert_eq!(walked, model.values().map(|&(slot, _)| slot).collect::<Vec<_>>());
    assert_eq!(tree.live_total(), model.values().filter(|(_, live)| *live).count() as u64);
    for probe in table.iter().step_by(7) {
        let expected = model.range(..probe.clone()).filter(|(_, (_, live))| *live).count() as u64;
        assert_eq!(tree.live_before(&keys, probe), expected);
        let mut cursor = tree.seek(&keys, probe);
        assert_eq!(tree.next(&mut cursor), model.range(probe.clone()..).next().map(|(_, &(slot, _))| slot));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn behaves_like_a_sorted_map(steps in proptest::collection::vec(step(900), 1..4000)) {
        let table = key_table(900);
        let keys = |slot: Slot| table[slot as usize].as_slice();
        let mut tree = Tree::default();
        let mut model: BTreeMap<Vec<u8>, (u32, bool)> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Insert(slot) => {
                    let key = table[slot as usize].clone();
                    if let std::collections::btree_map::Entry::Vacant(entry) = model.entry(key) {
                        entry.insert((slot, true));
                        tree.insert(&keys, slot);
                    }
                }
                Step::Flip(slot) => {
                    if let Some((_, live)) = model.get_mut(&table[slot as usize]) {
                        *live = !*live;
                        tree.set_live(&keys, slot, *live);
                    }
                }
                Step::Remove(slot) => {
                    if let Some((_, live)) = model.remove(&table[slot as usize]) {
                        if live {
                            tree.set_live(&keys, slot, false);
                        }
                        tree.remove(&keys, slot);
                    }
                }
            }
        }
        check(&tree, &table, &model);
    }
}

#[test]
fn keys_in_order_fill_their_leaves() {
    let table: Vec<Vec<u8>> = (0..20_000u32).map(|i| i.to_be_bytes().to_vec()).collect();
    let keys = |slot: Slot| table[slot as usize].as_slice();
    let mut tree = Tree::default();
    (0..20_000).for_each(|slot| tree.insert(&keys, slot));
    let leaves = tree.nodes.iter().filter(|node| matches!(node, Node::Leaf(_))).count();
    assert!(leaves <= 20_000 / LEAF_SLOTS + 2, "leaves={leaves}");
    assert_eq!(tree.live_before(&keys, &12_345u32.to_be_bytes()), 12_345);
}

#[test]
fn a_loaded_tree_counts_and_accepts_changes() {
    let mut table = key_table(10_000);
    table.sort();
    table.dedup();
    let keys = |slot: Slot| table[slot as usize].as_slice();
    let total = table.len() as u32;
    let mut tree = Tree::load(&keys, (0..total).map(|slot| (slot, slot % 3 != 0)));
    let mut model: BTreeMap<_, _> =
        table.iter().zip(0..total).map(|(key, slot)| (key.clone(), (slot, slot % 3 != 0))).collect();
    check(&tree, &table, &model);
    for slot in (0..total).filter(|slot| slot % 3 == 0) {
        tree.remove(&keys, slot);
        model.remove(&table[slot as usize]);
    }
    check(&tree, &table, &model);
}

#[test]
fn emptied_trees_give_their_nodes_back() {
    let table = key_table(5_000);
    let keys = |slot: Slot| table[slot as usize].as_slice();
    let mut tree = Tree::default();
    let mut seen = std::collections::HashSet::new();
    let slots: Vec<u32> = (0..5_000).filter(|&slot| seen.insert(table[slot as usize].clone())).collect();
    for round in 0..3 {
        slots.iter().for_each(|&slot| tree.insert(&keys, slot));
        for &slot in &slots {
            tree.set_live(&keys, slot, false);
            tree.remove(&keys, slot);
        }
        assert_eq!(tree.live_total(), 0);
        assert_eq!(tree.nodes.len() - tree.free.len(), 1, "round {round}");
    }
}
