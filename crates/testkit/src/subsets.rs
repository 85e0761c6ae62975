//! Subsets of pending changes, such as those that survive a power loss: all of them where there are
//! few, and a spread where there are many.

use crate::random::Rng;

/// Subsets of `n` things, as one flag for each. Up to `exhaustive` of them every subset; beyond
/// that none, all, every prefix, every single one kept, every single one lost, every second one,
/// and `random` random ones.
pub fn subsets(n: usize, exhaustive: usize, random: usize, seed: u64) -> Vec<Vec<bool>> {
    if n <= exhaustive {
        return (0..1u32 << n).map(|bits| (0..n).map(|i| bits & (1 << i) != 0).collect()).collect();
    }
    let of = |choose: &dyn Fn(usize) -> bool| -> Vec<bool> { (0..n).map(choose).collect() };
    let mut sets: Vec<Vec<bool>> = (0..=n).map(|len| of(&|i| i < len)).collect();
    sets.extend([of(&|i| i % 2 == 0), of(&|i| i % 2 == 1)]);
    for one in 0..n {
        sets.extend([of(&|i| i == one), of(&|i| i != one)]);
    }
    let mut rng = Rng::split_mix(seed);
    for _ in 0..random {
        sets.push((0..n).map(|_| rng.draw().is_multiple_of(2)).collect());
    }
    sets
}

#[cfg(test)]
#[test]
fn the_spread_has_all_kinds() {
    assert_eq!(subsets(3, 3, 0, 0).len(), 8);
    let spread = subsets(9, 3, 5, 0);
    assert_eq!(spread.len(), 10 + 2 + 18 + 5);
    for wanted in ["000000000", "111111111", "111100000", "101010101", "000010000", "111101111"] {
        let wanted: Vec<bool> = wanted.bytes().map(|byte| byte == b'1').collect();
        assert!(spread.contains(&wanted), "{wanted:?}");
    }
}
