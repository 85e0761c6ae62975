//! Chance from a seed: a small generator whose numbers are the same on every machine and in every
//! release, so that a seed in a report replays years later. (SplitMix64; the quality is ample for
//! picking requests.)

pub(crate) struct Chance {
    state: u64,
}

impl Chance {
    pub(crate) fn new(seed: u64) -> Chance {
        Chance { state: seed }
    }

    /// Chance for one step of a sequence. It depends on nothing drawn before, so leaving other
    /// steps out of a replay leaves this one as it was.
    pub(crate) fn for_step(seed: u64, step: usize) -> Chance {
        let mut mixer = Chance::new(seed ^ (step as u64).wrapping_mul(0xD6E8_FEB8_6659_FD93));
        Chance::new(mixer.next())
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number in `0..bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        assert!(bound > 0, "nothing to choose from");
        (self.next() % bound as u64) as usize
    }

    /// A number in `low..=high`.
    pub(crate) fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low + 1) as usize) as i64
    }

    /// True `percent` times in a hundred.
    pub(crate) fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }

    /// Picks by weight.
    pub(crate) fn weighted<T: Copy>(&mut self, choices: &[(usize, T)]) -> T {
        let mut left = self.below(choices.iter().map(|(weight, _)| weight).sum());
        for (weight, choice) in choices {
            if left < *weight {
                return *choice;
            }
            left -= weight;
        }
        unreachable!("the weights sum to more than was drawn")
    }
}

#[cfg(test)]
mod tests {
    use super::Chance;

    #[test]
    fn a_seed_gives_the_same_numbers_for_ever() {
        let mut chance = Chance::new(1);
        assert_eq!(chance.next(), 0x910A_2DEC_8902_5CC1);
        let mut again = Chance::for_step(7, 3);
        assert_eq!(Chance::for_step(7, 3).next(), again.next());
        assert_ne!(Chance::for_step(7, 4).next(), Chance::for_step(7, 3).next());
    }
}
