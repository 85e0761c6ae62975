//! Election timer: how many ticks this member waits for a leader, drawn from its own seed. The
//! crate draws such a number too, from the randomness of the process; it is replaced before it
//! matters.

#[derive(Clone, Debug)]
pub(super) struct ElectionTimer {
    random: u64,
    min: usize,
    ticks: usize,
}

impl ElectionTimer {
    pub(super) fn new(seed: u64, min: usize) -> ElectionTimer {
        ElectionTimer { random: seed, min, ticks: min }
    }

    /// Draws between the minimum and twice as much, as the crate does.
    pub(super) fn draw(&mut self) {
        // splitmix64: well distributed whatever the seed is.
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        self.ticks = self.min + usize::try_from((mixed >> 32) % self.min as u64).expect("below the minimum");
    }

    pub(super) fn ticks(&self) -> usize {
        self.ticks
    }
}
