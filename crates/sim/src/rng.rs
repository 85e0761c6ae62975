//! Random numbers, all of them from the seed. xoshiro256++, seeded by splitmix64.

/// A source of choices. Two of the same seed make the same choices for ever.
#[derive(Debug, Clone)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    pub fn new(seed: u64) -> Rng {
        let mut at = seed;
        Rng { state: std::array::from_fn(|_| splitmix(&mut at)) }
    }

    /// A source of its own for one purpose, so that a choice more here changes nothing there.
    pub fn fork(&mut self, label: u64) -> Rng {
        Rng::new(self.draw() ^ label.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    pub fn draw(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let result = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let (c, d) = (c ^ a, d ^ b);
        self.state = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        result
    }

    /// 0 up to `n`, exclusive; 0 if `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.draw()) * u128::from(n)) >> 64) as u64
    }

    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// Both ends included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    pub fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.index(from.len())]
    }

    /// Mostly near `low`, seldom near `high`: each order of magnitude is equally likely.
    pub fn skewed(&mut self, low: u64, high: u64) -> u64 {
        let bits = u64::BITS - (high - low + 1).leading_zeros();
        let width = self.between(1, u64::from(bits));
        (low + self.below(1 << width)).min(high)
    }
}

fn splitmix(at: &mut u64) -> u64 {
    *at = at.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *at;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_choices_and_another_does_not() {
        let draw = |seed| -> Vec<u64> {
            let mut rng = Rng::new(seed);
            (0..20).map(|_| rng.below(1000)).collect()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    #[test]
    fn choices_stay_in_their_bounds() {
        let mut rng = Rng::new(1);
        for _ in 0..10_000 {
            assert!(rng.below(7) < 7);
            assert!((3..=5).contains(&rng.between(3, 5)));
            assert!((10..=5000).contains(&rng.skewed(10, 5000)));
        }
    }
}
