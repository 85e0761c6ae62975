//! History: every version that is still part of the state at one point, for a snapshot.
//!
//! A [`HistoryRun`] collects pointers to versions in steps, by key, and hands them out by revision.
//! Versions never change, so a run keeps the state of that point, whatever writers do meanwhile.
//! What the compaction of that point made unreachable is left out whether or not it has been freed,
//! by etcd's rule: the newest version at or below it stays, a tombstone only if it is the compacted
//! revision's own.
//!
//! Between two steps nothing that belongs to the point may be freed: see `Node::snapshot` for how
//! that is kept.

use crate::keys::Slot;
use crate::record::Record;
use crate::state::{Mark, Store};

pub struct HistoryRun {
    mark: Mark,
    /// Whatever is in memory belongs to the state.
    is_swept: bool,
    resume: Option<Vec<u8>>,
    versions: Vec<Record>,
}

impl HistoryRun {
    pub fn new(mark: Mark) -> HistoryRun {
        HistoryRun { mark, is_swept: false, resume: Some(Vec::new()), versions: Vec::new() }
    }

    /// Everything that a store at `mark` holds once its compaction has been carried out in full:
    /// also what was changed and changed again by the compacted revision itself, which a watcher
    /// may still ask for.
    pub fn of_swept(mark: Mark) -> HistoryRun {
        HistoryRun { is_swept: true, ..HistoryRun::new(mark) }
    }

    /// Collects the versions of up to `budget` keys. True when all are there.
    pub fn step(&mut self, store: &Store, budget: usize) -> bool {
        let Some(from) = self.resume.take() else { return true };
        let keys = |slot: Slot| store.keys.key(slot);
        let mut cursor = store.tree.seek(&keys, &from);
        for _ in 0..budget {
            let Some(slot) = store.tree.next(&mut cursor) else { return true };
            self.collect(store.keys.chain(slot).versions());
        }
        let next = store.tree.next(&mut cursor);
        self.resume = next.map(|slot| store.keys.key(slot).to_vec());
        self.resume.is_none()
    }

    fn collect(&mut self, versions: &[Record]) {
        if self.is_swept {
            return self.versions.extend_from_slice(versions);
        }
        let Mark { revision, compact_revision } = self.mark;
        let upto = versions.partition_point(|version| version.mod_revision() <= revision);
        let old = versions.partition_point(|version| version.mod_revision() <= compact_revision).min(upto);
        let stays = |version: &&Record| !version.is_tombstone() || version.mod_revision() == compact_revision;
        self.versions.extend(versions[..old].last().filter(stays).cloned());
        self.versions.extend_from_slice(&versions[old..upto]);
    }

    /// All versions, in order of revision and position in it.
    pub fn finish(mut self) -> Vec<Record> {
        self.versions.sort_unstable_by_key(|version| (version.mod_revision(), version.sub()));
        self.versions
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Fields;

    fn put(revision: i64, sub: u32) -> Record {
        Record::new(Fields {
            key: b"k",
            value: b"v",
            create_revision: revision,
            mod_revision: revision,
            version: 1,
            lease: 0,
            sub,
        })
    }

    fn kept(versions: &[Record], compact_revision: i64, revision: i64) -> Vec<(i64, u32)> {
        let mut run = HistoryRun::new(Mark { revision, compact_revision });
        run.collect(versions);
        run.finish().iter().map(|version| (version.mod_revision(), version.sub())).collect()
    }

    #[test]
    fn what_etcd_would_keep_is_kept() {
        let chain = [put(2, 0), put(4, 0), Record::tombstone(b"k", 6, 0, 4), put(6, 1), put(9, 0)];
        assert_eq!(kept(&chain, -1, 9), [(2, 0), (4, 0), (6, 0), (6, 1), (9, 0)]);
        assert_eq!(kept(&chain, 3, 9), [(2, 0), (4, 0), (6, 0), (6, 1), (9, 0)]);
        assert_eq!(kept(&chain, 4, 9), [(4, 0), (6, 0), (6, 1), (9, 0)]);
        assert_eq!(kept(&chain, 6, 9), [(6, 1), (9, 0)], "only the last change of the compacted revision");
        assert_eq!(kept(&chain, 7, 8), [(6, 1)], "younger ones are not part of the state");
    }

    #[test]
    fn a_tombstone_stays_only_at_the_compacted_revision() {
        let chain = [put(2, 0), Record::tombstone(b"k", 5, 0, 2)];
        assert_eq!(kept(&chain, 4, 9), [(2, 0), (5, 0)]);
        assert_eq!(kept(&chain, 5, 9), [(5, 0)]);
        assert_eq!(kept(&chain, 6, 9), []);
    }
}
