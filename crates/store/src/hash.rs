//! Hash: the checksum over history that etcd's HashKV answers, byte for byte.
//!
//! CRC-32C over the word `key`, then for each version up to the hashed revision, in revision order,
//! the key under which etcd would store it (revision, underscore, position, and a `t` for a
//! tombstone) and its encoded record. Versions that the compaction at C makes unreachable are left
//! out whether or not they have been freed yet, and so is a tombstone at C itself. A version at or
//! below C that was replaced by the hashed revision is left out too, except when no key at all is
//! alive there: an oddity of etcd's, kept for its sake. A key that the hashed revision itself
//! deleted counts as gone for that, even if the same revision put it again.
//!
//! The hash that is taken in a compaction, of history up to it as it was before
//! ([`HashRun::in_compaction`]), differs in one thing: there a key that the revision deleted counts
//! as alive.

mod past;

pub use past::{PastHash, PastHashes};

use crate::keys::Slot;
use crate::record::Record;
use crate::state::{Mark, Store};

/// Collects the versions to be hashed in steps, then hashes them away from the store.
pub struct HashRun {
    at: i64,
    mark: Mark,
    resume: Option<Vec<u8>>,
    versions: Vec<Record>,
    /// Versions that were the newest at the compaction and were replaced before the hashed
    /// revision.
    replaced: Vec<Record>,
    /// Whether any key is alive at the hashed revision.
    living: bool,
    /// Whether this is the hash of a compaction, as it was before.
    is_past: bool,
}

impl HashRun {
    /// Hashes history up to `at`, which must lie between the compaction and the newest revision of
    /// `mark`.
    pub fn new(at: i64, mark: Mark) -> HashRun {
        assert!(at <= mark.revision, "only the past is hashed");
        HashRun {
            at,
            mark,
            resume: Some(Vec::new()),
            versions: Vec::new(),
            replaced: Vec::new(),
            living: false,
            is_past: false,
        }
    }

    /// Hashes history up to a compaction as it was before. What that compaction makes unreachable
    /// must still be there.
    pub fn in_compaction(past: &PastHash) -> HashRun {
        let mark = Mark { revision: past.revision, compact_revision: past.compact_revision };
        HashRun { is_past: true, ..HashRun::new(past.revision, mark) }
    }

    /// Collects the versions of up to `budget` keys. True when all are there.
    ///
    /// None if a compaction since the run began has freed something of it: start again. The hash of
    /// a past compaction does not care.
    pub fn step(&mut self, store: &Store, budget: usize) -> Option<bool> {
        if !self.is_past && store.freed_to > self.mark.compact_revision {
            return None;
        }
        let Some(from) = self.resume.take() else { return Some(true) };
        let keys = |slot: Slot| store.keys.key(slot);
        let mut cursor = store.tree.seek(&keys, &from);
        for _ in 0..budget {
            let Some(slot) = store.tree.next(&mut cursor) else { return Some(true) };
            self.collect(store.keys.chain(slot).versions());
        }
        match store.tree.next(&mut cursor) {
            Some(slot) => self.resume = Some(store.keys.key(slot).to_vec()),
            None => return Some(true),
        }
        Some(false)
    }

    fn collect(&mut self, versions: &[Record]) {
        let compacted = self.mark.compact_revision;
        let upto = versions.partition_point(|version| version.mod_revision() <= self.at);
        let old = versions.partition_point(|version| version.mod_revision() <= compacted).min(upto);
        if let Some(newest_old) = old.checked_sub(1).map(|index| &versions[index])
            && !newest_old.is_tombstone()
        {
            let list = if old == upto { &mut self.versions } else { &mut self.replaced };
            list.push(newest_old.clone());
        }
        self.living |= self.counts_as_alive(&versions[..upto]);
        self.versions.extend_from_slice(&versions[old..upto]);
    }

    /// Whether etcd would keep something of a key if it were compacted at the hashed revision.
    fn counts_as_alive(&self, versions: &[Record]) -> bool {
        let mut there = versions.iter().rev().take_while(|version| version.mod_revision() == self.at);
        let is_alive = versions.last().is_some_and(|newest| !newest.is_tombstone());
        match there.any(Record::is_tombstone) {
            true => self.is_past,
            false => is_alive,
        }
    }

    /// How many versions have been collected.
    pub fn versions(&self) -> usize {
        self.versions.len() + self.replaced.len()
    }

    pub fn finish(mut self) -> u32 {
        // etcd leaves replaced versions out, but forgets to when no key at all is alive.
        if !self.living {
            self.versions.append(&mut self.replaced);
        }
        self.versions.sort_unstable_by_key(|version| (version.mod_revision(), version.sub()));
        let mut crc = crc32c::crc32c(b"key");
        for version in &self.versions {
            crc = append_version(crc, version);
        }
        crc
    }
}

fn append_version(crc: u32, version: &Record) -> u32 {
    let mut name = [0; 18];
    name[..8].copy_from_slice(&version.mod_revision().to_be_bytes());
    name[8] = b'_';
    name[9..17].copy_from_slice(&i64::from(version.sub()).to_be_bytes());
    if !version.is_tombstone() {
        let crc = crc32c::crc32c_append(crc, &name[..17]);
        return version.wire().iter().fold(crc, |crc, part| crc32c::crc32c_append(crc, part));
    }
    name[17] = b't';
    crc32c::crc32c_append(crc32c::crc32c_append(crc, &name), version.wire_of_key())
}
