//! Selects keys and revisions.

use vetch_node::store::describe::{Described, What};

pub(super) struct Filter {
    pub(super) prefix: Vec<u8>,
    pub(super) from: i64,
    pub(super) to: i64,
    pub(super) values: bool,
}

impl Filter {
    /// Whether everything is selected, also effects without a key.
    fn is_open(&self) -> bool {
        self.prefix.is_empty() && self.from == i64::MIN && self.to == i64::MAX
    }

    pub(super) fn takes(&self, key: &[u8], revision: i64) -> bool {
        key.starts_with(&self.prefix) && (self.from..=self.to).contains(&revision)
    }

    pub(super) fn takes_effect(&self, described: &Described) -> bool {
        let revision = described.revision.unwrap_or(self.from);
        match &described.what {
            What::Put(record) => self.takes(record.key(), record.mod_revision()),
            What::Delete { key } => self.takes(key, revision),
            // A range may hold a key with the prefix unless it lies before it or behind it.
            What::DeleteRange { key, range_end } => {
                let is_behind = key.as_ref() > self.prefix.as_slice() && !key.starts_with(&self.prefix);
                let is_before = range_end.as_ref() != b"\0" && range_end.as_ref() <= self.prefix.as_slice();
                !is_behind && !is_before && (self.from..=self.to).contains(&revision)
            }
            What::LeaseRevoke { .. } if self.prefix.is_empty() => {
                described.revision.is_some_and(|revision| (self.from..=self.to).contains(&revision))
                    || self.is_open()
            }
            _ => self.is_open(),
        }
    }
}
