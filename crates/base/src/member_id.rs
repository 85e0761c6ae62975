use std::fmt;

/// One server of a cluster, through all its restarts. Texts show it in decimal or, as etcd does,
/// in hexadecimal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
#[repr(transparent)]
pub struct MemberId(u64);

impl MemberId {
    /// No server has this id. etcd's API writes it where no member is meant.
    pub const ZERO: MemberId = MemberId(0);

    pub const fn new(id: u64) -> MemberId {
        MemberId(id)
    }

    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::LowerHex for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::LowerHex::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_texts_are_there() {
        let id = MemberId::new(0x8e9e_05c5_2164_694d);
        assert_eq!(
            format!("{id} {id:x} {id:016x}"),
            "10276657743932975437 8e9e05c52164694d 8e9e05c52164694d"
        );
    }
}
