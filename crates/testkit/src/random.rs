//! Random numbers from a seed, the same on every machine and in every release, so that a seed in a
//! report can be replayed years later.

/// A source of choices. Two of the same seed make the same choices.
#[derive(Debug, Clone)]
pub struct Rng {
    generator: Generator,
}

#[derive(Debug, Clone)]
enum Generator {
    Xoshiro256([u64; 4]),
    SplitMix64(u64),
}

impl Rng {
    /// xoshiro256++, seeded by splitmix64.
    pub fn new(seed: u64) -> Rng {
        let mut state = seed;
        Rng { generator: Generator::Xoshiro256(std::array::from_fn(|_| split_mix(&mut state))) }
    }

    /// splitmix64: cheap to seed anew for each step, and good enough to pick requests.
    pub fn split_mix(seed: u64) -> Rng {
        Rng { generator: Generator::SplitMix64(seed) }
    }

    /// For one step of a sequence. It depends on nothing drawn before, so leaving other steps out
    /// of a replay leaves this one as it was.
    pub fn for_step(seed: u64, step: usize) -> Rng {
        let mut mixer = Rng::split_mix(seed ^ (step as u64).wrapping_mul(0xd6e8_feb8_6659_fd93));
        Rng::split_mix(mixer.draw())
    }

    /// A source of its own for one purpose, so that one more choice here changes nothing there.
    pub fn fork(&mut self, label: u64) -> Rng {
        Rng::new(self.draw() ^ label.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    pub fn draw(&mut self) -> u64 {
        match &mut self.generator {
            Generator::Xoshiro256(state) => xoshiro(state),
            Generator::SplitMix64(state) => split_mix(state),
        }
    }

    /// 0 up to `n`, exclusive; 0 if `n` is 0.
    pub fn below<N: Integer>(&mut self, n: N) -> N {
        N::from_u64(((u128::from(self.draw()) * u128::from(n.to_u64())) >> 64) as u64)
    }

    /// Both ends included.
    pub fn between<N: Integer>(&mut self, low: N, high: N) -> N {
        let width = high.to_u64().wrapping_sub(low.to_u64()).wrapping_add(1);
        N::from_u64(low.to_u64().wrapping_add(self.below(width)))
    }

    /// True in `chance` of a hundred cases.
    pub fn percent<N: Integer>(&mut self, chance: N) -> bool {
        self.below(100u64) < chance.to_u64()
    }

    /// True in one of `n` cases.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        assert!(!from.is_empty(), "nothing to choose from");
        &from[self.below(from.len())]
    }

    /// Picks by weight.
    pub fn weighted<T: Copy>(&mut self, choices: &[(usize, T)]) -> T {
        let mut left = self.below(choices.iter().map(|(weight, _)| *weight).sum::<usize>());
        for (weight, choice) in choices {
            if left < *weight {
                return *choice;
            }
            left -= weight;
        }
        unreachable!("the weights sum to more than was drawn")
    }

    /// Mostly near `low`, seldom near `high`: each order of magnitude is equally likely.
    pub fn skewed(&mut self, low: u64, high: u64) -> u64 {
        let bits = u64::BITS - (high - low + 1).leading_zeros();
        let width = self.between(1, u64::from(bits));
        (low + self.below(1u64 << width)).min(high)
    }
}

fn xoshiro(state: &mut [u64; 4]) -> u64 {
    let [a, b, c, d] = *state;
    let result = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
    let (c, d) = (c ^ a, d ^ b);
    *state = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
    result
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mix(*state)
}

/// The finaliser of splitmix64: scatters numbers that are close to each other.
pub fn mix(mut number: u64) -> u64 {
    number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// An integer that can be drawn. Negative numbers are their two's complement in 64 bits.
pub trait Integer: Copy {
    fn to_u64(self) -> u64;
    fn from_u64(number: u64) -> Self;
}

macro_rules! integers {
    ($($type:ty),*) => {
        $(impl Integer for $type {
            fn to_u64(self) -> u64 {
                self as u64
            }

            fn from_u64(number: u64) -> $type {
                number as $type
            }
        })*
    };
}

integers!(u8, u16, u32, u64, usize, i32, i64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_for_ever() {
        assert_eq!(Rng::split_mix(1).draw(), 0x910a_2dec_8902_5cc1);
        assert_eq!(Rng::new(1).draw(), 0xcfc5_d07f_6f03_c29b);
        assert_eq!(Rng::for_step(7, 3).draw(), Rng::for_step(7, 3).draw());
        assert_ne!(Rng::for_step(7, 4).draw(), Rng::for_step(7, 3).draw());
    }

    #[test]
    fn choices_stay_in_their_bounds() {
        for mut rng in [Rng::new(1), Rng::split_mix(1)] {
            for _ in 0..10_000 {
                assert!(rng.below(7) < 7);
                assert!((3..=5).contains(&rng.between(3u64, 5)));
                assert!((-5..=5).contains(&rng.between(-5i64, 5)));
                assert!((10..=5000).contains(&rng.skewed(10, 5000)));
                assert_eq!(rng.weighted(&[(0, 'a'), (3, 'b')]), 'b');
            }
        }
    }
}
