//! The hashes of past compactions: history up to each as it was just before, with the compaction
//! that counted then.
//!
//! etcd hashes in every compaction what it is about to drop, remembers the last ten of these
//! numbers until it ends, and answers HashKV of exactly those revisions from them, also when they
//! are compacted since. A compaction is noted here when it becomes visible and must be hashed
//! before anything is freed for it.

use std::collections::VecDeque;

/// How many are remembered.
const REMEMBERED: usize = 10;

/// History up to the compaction at `revision`, when the one at `compact_revision` was the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PastHash {
    pub revision: i64,
    /// -1 if there was none.
    pub compact_revision: i64,
    /// None until it has been hashed.
    pub hash: Option<u32>,
}

#[derive(Debug, Default)]
pub struct PastHashes {
    /// The oldest first.
    list: VecDeque<PastHash>,
}

impl PastHashes {
    /// The compaction moved from `before` to `revision`, if that is further.
    pub fn compacted(&mut self, before: i64, revision: i64) {
        // To compact at 0 or less is allowed once and means nothing; etcd then answers for the
        // newest with the empty hash.
        if revision <= before.max(0) {
            return;
        }
        if self.list.len() == REMEMBERED {
            self.list.pop_front();
        }
        self.list.push_back(PastHash { revision, compact_revision: before, hash: None });
    }

    pub fn find(&self, revision: i64) -> Option<PastHash> {
        self.list.iter().find(|past| past.revision == revision).copied()
    }

    /// The oldest compaction that has not been hashed: as long as there is one, nothing may be
    /// freed.
    pub fn next_to_hash(&self) -> Option<PastHash> {
        self.list.iter().find(|past| past.hash.is_none()).copied()
    }

    /// It may have been forgotten meanwhile.
    pub fn hashed(&mut self, revision: i64, hash: u32) {
        if let Some(past) = self.list.iter_mut().find(|past| past.revision == revision) {
            past.hash = Some(hash);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ten_compactions_are_remembered() {
        let mut past = PastHashes::default();
        past.compacted(-1, 0);
        assert_eq!(past.next_to_hash(), None, "revision 0 means the newest");
        past.compacted(-1, 5);
        past.compacted(5, 5);
        past.compacted(5, 7);
        assert_eq!(past.next_to_hash(), Some(PastHash { revision: 5, compact_revision: -1, hash: None }));
        past.hashed(5, 55);
        past.hashed(6, 66);
        assert_eq!(past.find(5), Some(PastHash { revision: 5, compact_revision: -1, hash: Some(55) }));
        assert_eq!(past.find(6), None);
        assert_eq!(past.next_to_hash().map(|past| past.revision), Some(7));
        for revision in 8..=15 {
            past.compacted(revision - 1, revision);
        }
        assert_eq!(past.find(5).and_then(|past| past.hash), Some(55));
        past.compacted(15, 16);
        assert_eq!(past.find(5), None);
        assert_eq!(past.find(7).map(|past| past.compact_revision), Some(5));
    }
}
