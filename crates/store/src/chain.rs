//! Chain: the retained versions of one key.

use crate::record::Record;

/// The retained versions of one key, oldest first. Most keys have exactly one, held without a
/// vector; the vector of the others is behind a pointer, so that every key does not pay for it.
#[derive(Debug)]
pub(crate) enum Chain {
    Free,
    One(Record),
    Many(Box<Versions>),
}

#[derive(Debug)]
pub(crate) struct Versions(Vec<Record>);

impl Chain {
    pub(crate) fn versions(&self) -> &[Record] {
        match self {
            Chain::Free => &[],
            Chain::One(record) => std::slice::from_ref(record),
            Chain::Many(records) => &records.0,
        }
    }

    pub(crate) fn push(&mut self, record: Record) {
        if let Some(last) = self.versions().last() {
            let (before, now) = (last.mod_revision(), record.mod_revision());
            assert!(
                before < now || (before == now && last.sub() < record.sub()),
                "versions of a key come in revision order"
            );
        }
        *self = match std::mem::replace(self, Chain::Free) {
            Chain::Free => Chain::One(record),
            Chain::One(first) => Chain::Many(Box::new(Versions(vec![first, record]))),
            Chain::Many(mut records) => {
                records.0.push(record);
                Chain::Many(records)
            }
        };
    }

    /// Takes the newest version out.
    pub(crate) fn pop(&mut self) -> Option<Record> {
        match std::mem::replace(self, Chain::Free) {
            Chain::Free => None,
            Chain::One(record) => Some(record),
            Chain::Many(mut many) => {
                let newest = many.0.pop();
                *self = match many.0.len() {
                    1 => Chain::One(many.0.pop().expect("one is left")),
                    _ => Chain::Many(many),
                };
                newest
            }
        }
    }

    pub(crate) fn last(&self) -> Option<&Record> {
        self.versions().last()
    }

    /// The version of this place in history, if it is retained.
    pub(crate) fn find(&self, revision: i64, sub: u32) -> Option<&Record> {
        let versions = self.versions();
        let place = |version: &Record| (version.mod_revision(), version.sub());
        versions.binary_search_by_key(&(revision, sub), place).ok().map(|index| &versions[index])
    }

    /// The newest version that is not younger than `at`.
    pub(crate) fn at(&self, at: i64) -> Option<&Record> {
        let versions = self.versions();
        let upto = match versions.last() {
            Some(last) if last.mod_revision() <= at => versions.len(),
            _ => versions.partition_point(|version| version.mod_revision() <= at),
        };
        upto.checked_sub(1).map(|index| &versions[index])
    }

    /// The version a reader at `at` sees: [`Chain::at`], unless that is a tombstone.
    pub(crate) fn live_at(&self, at: i64) -> Option<&Record> {
        self.at(at).filter(|record| !record.is_tombstone())
    }

    /// As [`Chain::live_at`] of a revision that nothing is younger than.
    pub(crate) fn live(&self) -> Option<&Record> {
        self.last().filter(|record| !record.is_tombstone())
    }

    /// Drops what a compaction at `at` makes unreachable: every version before `at` that is not
    /// current there. All changes of `at` itself stay. The dropped versions are handed to `freed`.
    pub(crate) fn compact(&mut self, at: i64, freed: impl FnMut(Record)) {
        let versions = self.versions();
        let before = versions.partition_point(|version| version.mod_revision() < at);
        let Some(newest) = before.checked_sub(1) else { return };
        let is_replaced = versions.get(before).is_some_and(|version| version.mod_revision() == at);
        let is_gone = is_replaced || versions[newest].is_tombstone();
        self.drop_first(if is_gone { before } else { newest }, freed);
    }

    /// Whether a compaction beyond `at` would drop a change of `at`, and a compaction there did
    /// not.
    pub(crate) fn lingers_at(&self, at: i64) -> bool {
        let changes = self.versions().iter().take_while(|version| version.mod_revision() == at);
        changes.clone().count() > 1 || changes.last().is_some_and(Record::is_tombstone)
    }

    fn drop_first(&mut self, drop_count: usize, mut freed: impl FnMut(Record)) {
        if drop_count == 0 {
            return;
        }
        match std::mem::replace(self, Chain::Free) {
            Chain::Free => unreachable!("an empty chain has nothing to drop"),
            Chain::One(record) => freed(record),
            Chain::Many(mut many) => {
                let records = &mut many.0;
                records.drain(..drop_count).for_each(freed);
                *self = match records.len() {
                    0 => Chain::Free,
                    1 => Chain::One(records.pop().expect("one is left")),
                    _ => {
                        records.shrink_to(records.len() * 2);
                        Chain::Many(many)
                    }
                };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Fields;

    fn fields(key: &str, revision: i64) -> Fields<'_> {
        Fields {
            key: key.as_bytes(),
            value: b"v",
            create_revision: revision,
            mod_revision: revision,
            version: 1,
            lease: 0,
            sub: 0,
        }
    }

    fn put(key: &str, revision: i64) -> Record {
        Record::new(fields(key, revision))
    }

    #[test]
    fn a_key_with_one_version_takes_two_words() {
        assert_eq!(size_of::<Chain>(), 2 * size_of::<usize>());
    }

    #[test]
    fn a_chain_answers_for_every_revision() {
        let mut chain = Chain::One(put("k", 2));
        chain.push(put("k", 5));
        chain.push(Record::tombstone(b"k", 8, 0, 2));
        let seen = |at| chain.at(at).map(Record::mod_revision);
        assert_eq!(
            [1, 2, 4, 5, 7, 8, 9].map(seen),
            [None, Some(2), Some(2), Some(5), Some(5), Some(8), Some(8)]
        );
        assert!(chain.live_at(8).is_none());
    }

    #[test]
    fn compaction_keeps_what_is_current_and_every_change_of_its_own_revision() {
        let build = || {
            let mut chain = Chain::One(put("k", 2));
            chain.push(put("k", 5));
            chain.push(Record::tombstone(b"k", 8, 0, 2));
            chain
        };
        for (at, left, lingers) in [
            (1, 3, false),
            (2, 3, false),
            (4, 3, false),
            (5, 2, false),
            (7, 2, false),
            (8, 1, true),
            (9, 0, false),
        ] {
            let mut chain = build();
            let mut freed = 0;
            chain.compact(at, |_| freed += 1);
            assert_eq!((chain.versions().len(), freed), (left, 3 - left), "at={at}");
            assert_eq!(chain.lingers_at(at), lingers, "at={at}");
        }
    }

    #[test]
    fn a_revision_that_changed_a_key_twice_is_kept_whole() {
        let mut chain = Chain::One(put("k", 2));
        chain.push(Record::tombstone(b"k", 5, 0, 2));
        chain.push(Record::new(Fields { sub: 1, ..fields("k", 5) }));
        chain.compact(5, drop);
        assert_eq!((chain.versions().len(), chain.lingers_at(5)), (2, true));
        chain.compact(6, drop);
        assert_eq!((chain.versions().len(), chain.lingers_at(6)), (1, false));
        assert!(chain.live_at(6).is_some_and(|version| version.sub() == 1));
    }
}
