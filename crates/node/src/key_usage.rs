//! Key usage: which encryption keys the files of this node need, and so which may be removed.
//!
//! The journal thread and housekeeping report how many of their files need which key. A new key
//! ring must have every key that is needed. A write that began before a change of the ring may
//! still use the replaced key, so that key counts as needed until both threads have reported a
//! generation after the change.

use std::collections::{BTreeMap, BTreeSet};

use vetch_encryption::{EncryptionKeys, KeyId, KeyRing};

use vetch_sync::Mutex;

/// How many files need which key; plain files are counted under none.
pub(crate) type Counts = BTreeMap<Option<KeyId>, usize>;

pub(crate) struct KeyUsage {
    keys: EncryptionKeys,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// How often the ring was replaced.
    generation: u64,
    journal: Report,
    checkpoint: Report,
    /// Keys that encrypted new data until the ring of this generation replaced theirs.
    retired: Vec<(KeyId, u64)>,
    /// Keys that were logged as unneeded.
    reported_unneeded: BTreeSet<KeyId>,
    reported_all_encrypted: bool,
}

/// The files of one thread, and the generation it read before it counted them.
#[derive(Default)]
struct Report {
    counts: Counts,
    generation: u64,
}

/// Which keys there are, and how many files need each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncryptionStatus {
    /// The key that encrypts new data; none if new data is not encrypted.
    pub current: Option<KeyId>,
    /// Every key of the ring, in its order, with the journal segments and checkpoint files that
    /// need it.
    pub keys: Vec<(KeyId, usize)>,
    /// Files that are not encrypted.
    pub plain: usize,
}

/// Why a key ring cannot replace the current one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyStillNeeded {
    #[error(
        "the key {0} is not in it and is still needed; put it back, and take it out when the metric \
         vetch_encryption_files says 0 for it"
    )]
    Missing(KeyId),
    #[error("it has another key under the name {0}, which is still needed; give every new key a new name")]
    Changed(KeyId),
}

impl State {
    fn needs(&self, id: KeyId) -> bool {
        let in_files =
            [&self.journal, &self.checkpoint].iter().any(|report| report.counts.contains_key(&Some(id)));
        in_files || self.retired.iter().any(|(retired, _)| *retired == id)
    }

    fn count(&self, key: Option<KeyId>) -> usize {
        [&self.journal, &self.checkpoint].iter().filter_map(|report| report.counts.get(&key)).sum()
    }

    fn forget_retired(&mut self) {
        let seen = self.journal.generation.min(self.checkpoint.generation);
        self.retired.retain(|(_, generation)| *generation > seen);
    }
}

impl KeyUsage {
    pub(crate) fn new(keys: EncryptionKeys, journal: Counts, checkpoint: Counts) -> KeyUsage {
        let report = |counts| Report { counts, generation: 0 };
        let state = State { journal: report(journal), checkpoint: report(checkpoint), ..State::default() };
        KeyUsage { keys, state: Mutex::new(state) }
    }

    pub(crate) fn generation(&self) -> u64 {
        self.state.lock().generation
    }

    /// The journal has these segments. `generation` was read before the last write.
    pub(crate) fn note_journal(&self, counts: Counts, generation: u64) {
        let mut state = self.state.lock();
        state.journal = Report { counts, generation };
        state.forget_retired();
    }

    /// The checkpoints have these files.
    pub(crate) fn note_checkpoint(&self, counts: Counts, generation: u64) {
        let mut state = self.state.lock();
        state.checkpoint = Report { counts, generation };
        state.forget_retired();
    }

    /// Whether the journal has segments that do not use the current key, or has not seen the
    /// current ring yet.
    pub(crate) fn is_journal_behind(&self) -> bool {
        let key = self.keys.current();
        let state = self.state.lock();
        state.journal.generation < state.generation || state.journal.counts.keys().any(|used| *used != key)
    }

    /// Replaces the ring, if the new one has every key that files need.
    pub(crate) fn replace(&self, ring: KeyRing) -> Result<(), KeyStillNeeded> {
        let mut state = self.state.lock();
        let before = self.keys.ring();
        let used = before.current().map(|key| key.id());
        for id in before.ids().filter(|&id| state.needs(id) || used == Some(id)) {
            let new = ring.find(id).ok_or(KeyStillNeeded::Missing(id))?;
            if before.find(id).is_some_and(|old| old.check() != new.check()) {
                return Err(KeyStillNeeded::Changed(id));
            }
        }
        state.generation += 1;
        let generation = state.generation;
        state.retired.extend(used.map(|id| (id, generation)));
        state.reported_unneeded.clear();
        state.reported_all_encrypted = false;
        self.keys.replace(ring);
        Ok(())
    }

    pub(crate) fn status(&self) -> EncryptionStatus {
        let ring = self.keys.ring();
        let state = self.state.lock();
        EncryptionStatus {
            current: ring.current().map(|key| key.id()),
            keys: ring.ids().map(|id| (id, state.count(Some(id)))).collect(),
            plain: state.count(None),
        }
    }

    /// Logs each key that no file needs any more, once, and once that every file is encrypted.
    pub(crate) fn report_unused(&self) {
        let ring = self.keys.ring();
        let current = ring.current().map(|key| key.id());
        let mut state = self.state.lock();
        for id in ring.ids().filter(|&id| current != Some(id)) {
            if !state.needs(id) && state.reported_unneeded.insert(id) {
                tracing::info!(key = %id, "no file needs this encryption key any more: it may be removed from the key file");
            }
        }
        let is_done = current.is_some() && state.count(None) == 0 && state.count(current) > 0;
        if is_done && !state.reported_all_encrypted {
            state.reported_all_encrypted = true;
            let key = current.map(|id| id.to_string());
            tracing::info!(key, "every file of the journal and the checkpoints is encrypted");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    const SECOND: &str = "ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pv8=";

    fn ring(text: &str) -> KeyRing {
        KeyRing::parse(&text.replace("FIRST", FIRST).replace("SECOND", SECOND)).unwrap()
    }

    fn id(name: &str) -> KeyId {
        KeyId::new(name).unwrap()
    }

    #[test]
    fn a_key_stays_until_both_threads_have_seen_the_change_and_no_file_needs_it() {
        let key_usage = KeyUsage::new(EncryptionKeys::new(ring("a FIRST")), Counts::new(), Counts::new());
        let refused = Err(KeyStillNeeded::Missing(id("a")));
        assert_eq!(key_usage.replace(ring("b SECOND")), refused, "it is the one in use");
        key_usage.replace(ring("b SECOND\na FIRST")).unwrap();
        assert_eq!(key_usage.replace(ring("b SECOND")), refused, "a write may have begun with it");
        let files = |key: &str| Counts::from([(Some(id(key)), 1)]);
        key_usage.note_journal(files("a"), 0);
        key_usage.note_checkpoint(files("b"), 1);
        assert_eq!(key_usage.replace(ring("b SECOND")), refused, "it had");
        assert!(key_usage.is_journal_behind());
        key_usage.note_journal(files("b"), 1);
        assert!(!key_usage.is_journal_behind());
        assert_eq!(key_usage.status().keys, [(id("b"), 2), (id("a"), 0)]);
        assert_eq!(key_usage.replace(ring("b FIRST")), Err(KeyStillNeeded::Changed(id("b"))));
        key_usage.replace(ring("b SECOND")).unwrap();
    }
}
