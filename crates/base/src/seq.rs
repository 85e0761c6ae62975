use std::fmt;

/// The sequence number of an entry: 1 for the first, and one more for each after it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
#[repr(transparent)]
pub struct Seq(u64);

impl Seq {
    /// Before the first entry.
    pub const ZERO: Seq = Seq(0);
    pub const FIRST: Seq = Seq(1);
    /// No entry may have this number, because none could follow it.
    pub const MAX: Seq = Seq(u64::MAX);

    pub const fn new(number: u64) -> Seq {
        Seq(number)
    }

    pub const fn get(self) -> u64 {
        self.0
    }

    /// The entry after this one.
    pub const fn next(self) -> Seq {
        self.plus(1)
    }

    /// The entry `entries` after this one.
    pub const fn plus(self, entries: u64) -> Seq {
        Seq(self.0.checked_add(entries).expect("sequence numbers do not run out"))
    }

    /// The entry after this one, for numbers that were read from somewhere.
    pub const fn checked_next(self) -> Option<Seq> {
        self.checked_plus(1)
    }

    /// The entry `entries` after this one, for numbers that were read from somewhere.
    pub const fn checked_plus(self, entries: u64) -> Option<Seq> {
        match self.0.checked_add(entries) {
            Some(number) => Some(Seq(number)),
            None => None,
        }
    }

    /// The entry before this one; before the first entry lies `ZERO`, and nothing before that.
    pub const fn checked_prev(self) -> Option<Seq> {
        match self.0.checked_sub(1) {
            Some(number) => Some(Seq(number)),
            None => None,
        }
    }

    /// The entry before this one, or `ZERO`.
    pub const fn prev_or_zero(self) -> Seq {
        Seq(self.0.saturating_sub(1))
    }

    /// How many entries lie behind `earlier`, up to this one. Zero if `earlier` is not earlier.
    pub const fn since(self, earlier: Seq) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_counted_from_one() {
        assert_eq!(Seq::ZERO.next(), Seq::FIRST);
        assert_eq!(Seq::FIRST.checked_prev(), Some(Seq::ZERO));
        assert_eq!((Seq::ZERO.checked_prev(), Seq::ZERO.prev_or_zero()), (None, Seq::ZERO));
        assert_eq!((Seq::new(9).since(Seq::new(4)), Seq::new(4).since(Seq::new(9))), (5, 0));
        assert_eq!((Seq::MAX.checked_next(), Seq::new(4).checked_plus(2)), (None, Some(Seq::new(6))));
    }

    #[test]
    #[should_panic(expected = "do not run out")]
    fn a_number_never_wraps() {
        let _ = Seq::MAX.next();
    }

    #[test]
    fn a_width_is_kept() {
        assert_eq!(format!("{:>4}|{:<3}|", Seq::new(12), Seq::FIRST), "  12|1  |");
    }
}
