use std::fmt;

/// The term of one leader: 1 for the first, and a higher one for each that replaces another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
#[repr(transparent)]
pub struct Epoch(u64);

impl Epoch {
    /// Before the first leader.
    pub const ZERO: Epoch = Epoch(0);
    /// No leader may have this epoch, because none could replace it.
    pub const MAX: Epoch = Epoch(u64::MAX);

    pub const fn new(number: u64) -> Epoch {
        Epoch(number)
    }

    pub const fn get(self) -> u64 {
        self.0
    }

    /// The epoch of the leader that replaces the one of this epoch.
    pub const fn next(self) -> Epoch {
        Epoch(self.0.checked_add(1).expect("epochs do not run out"))
    }

    /// The highest epoch below this one, if there is one.
    pub const fn checked_prev(self) -> Option<Epoch> {
        match self.0.checked_sub(1) {
            Some(number) => Some(Epoch(number)),
            None => None,
        }
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_follow_one_another() {
        assert_eq!(Epoch::ZERO.next(), Epoch::new(1));
        assert_eq!((Epoch::new(1).checked_prev(), Epoch::ZERO.checked_prev()), (Some(Epoch::ZERO), None));
    }

    #[test]
    #[should_panic(expected = "do not run out")]
    fn an_epoch_never_wraps() {
        let _ = Epoch::MAX.next();
    }
}
