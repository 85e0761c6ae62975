//! Sealing: which keys the files of this node need, and so which ones may go.
//!
//! The journal's thread and housekeeping report what they have on disk; whoever replaces the ring
//! of keys is held against that. A key that was in use a moment ago may still be used by a write
//! that began before the change: it counts as needed until both threads have reported what they
//! began after it.

use std::collections::{BTreeMap, BTreeSet};

use vetch_seal::{KeyId, Keys, Ring};

use crate::sync::Mutex;

/// How many files need which key; those in plain are counted under none.
pub(crate) type Counts = BTreeMap<Option<KeyId>, usize>;

pub(crate) struct Sealing {
    keys: Keys,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// How often the ring was replaced.
    generation: u64,
    journal: Report,
    checkpoint: Report,
    /// Keys that were used until the ring of this generation took over.
    retired: Vec<(KeyId, u64)>,
    /// Keys that were said to be unnecessary.
    told: BTreeSet<KeyId>,
    told_all: bool,
}

/// What a thread has on disk, and the generation it had seen before it began.
#[derive(Default)]
struct Report {
    counts: Counts,
    generation: u64,
}

/// Which keys there are, and how many files need each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealingStatus {
    /// The key that seals what is new; none: it is not sealed.
    pub current: Option<KeyId>,
    /// Every key of the ring, in its order, with the journal segments and checkpoint files that
    /// need it.
    pub keys: Vec<(KeyId, usize)>,
    /// Files that are not sealed.
    pub plain: usize,
}

/// Why a ring cannot take the place of the one in use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeysNeeded {
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

    fn settle(&mut self) {
        let seen = self.journal.generation.min(self.checkpoint.generation);
        self.retired.retain(|(_, generation)| *generation > seen);
    }
}

impl Sealing {
    pub(crate) fn new(keys: Keys, journal: Counts, checkpoint: Counts) -> Sealing {
        let report = |counts| Report { counts, generation: 0 };
        let state = State { journal: report(journal), checkpoint: report(checkpoint), ..State::default() };
        Sealing { keys, state: Mutex::new(state) }
    }

    pub(crate) fn generation(&self) -> u64 {
        self.state.lock().generation
    }

    /// The journal has these segments; `generation` was read before whatever it did last.
    pub(crate) fn note_journal(&self, counts: Counts, generation: u64) {
        let mut state = self.state.lock();
        state.journal = Report { counts, generation };
        state.settle();
    }

    /// The checkpoints have these files.
    pub(crate) fn note_checkpoint(&self, counts: Counts, generation: u64) {
        let mut state = self.state.lock();
        state.checkpoint = Report { counts, generation };
        state.settle();
    }

    /// Whether the journal has segments that are sealed otherwise than new ones, or has not looked
    /// at the ring yet.
    pub(crate) fn is_journal_behind(&self) -> bool {
        let key = self.keys.current();
        let state = self.state.lock();
        state.journal.generation < state.generation || state.journal.counts.keys().any(|used| *used != key)
    }

    /// Uses another ring from now on, if everything on disk can still be opened with it.
    pub(crate) fn replace(&self, ring: Ring) -> Result<(), KeysNeeded> {
        let mut state = self.state.lock();
        let before = self.keys.ring();
        let used = before.current().map(|key| key.id());
        for id in before.ids().filter(|&id| state.needs(id) || used == Some(id)) {
            let new = ring.find(id).ok_or(KeysNeeded::Missing(id))?;
            if before.find(id).is_some_and(|old| old.check() != new.check()) {
                return Err(KeysNeeded::Changed(id));
            }
        }
        state.generation += 1;
        let generation = state.generation;
        state.retired.extend(used.map(|id| (id, generation)));
        state.told.clear();
        state.told_all = false;
        self.keys.replace(ring);
        Ok(())
    }

    pub(crate) fn status(&self) -> SealingStatus {
        let ring = self.keys.ring();
        let state = self.state.lock();
        SealingStatus {
            current: ring.current().map(|key| key.id()),
            keys: ring.ids().map(|id| (id, state.count(Some(id)))).collect(),
            plain: state.count(None),
        }
    }

    /// Says once, of every key that nothing needs any more, that it may go, and once that
    /// everything is sealed.
    pub(crate) fn tell(&self) {
        let ring = self.keys.ring();
        let current = ring.current().map(|key| key.id());
        let mut state = self.state.lock();
        for id in ring.ids().filter(|&id| current != Some(id)) {
            if !state.needs(id) && state.told.insert(id) {
                tracing::info!(key = %id, "no file needs this encryption key any more: it may be removed from the key file");
            }
        }
        let is_done = current.is_some() && state.count(None) == 0 && state.count(current) > 0;
        if is_done && !state.told_all {
            state.told_all = true;
            let key = current.map(|id| id.to_string());
            tracing::info!(key, "every file of the journal and the checkpoints is sealed");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    const SECOND: &str = "ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pv8=";

    fn ring(text: &str) -> Ring {
        Ring::parse(&text.replace("FIRST", FIRST).replace("SECOND", SECOND)).unwrap()
    }

    fn id(name: &str) -> KeyId {
        KeyId::new(name).unwrap()
    }

    #[test]
    fn a_key_stays_until_both_threads_have_seen_the_change_and_no_file_needs_it() {
        let sealing = Sealing::new(Keys::new(ring("a FIRST")), Counts::new(), Counts::new());
        let refused = Err(KeysNeeded::Missing(id("a")));
        assert_eq!(sealing.replace(ring("b SECOND")), refused, "it is the one in use");
        sealing.replace(ring("b SECOND\na FIRST")).unwrap();
        assert_eq!(sealing.replace(ring("b SECOND")), refused, "a write may have begun with it");
        let files = |key: &str| Counts::from([(Some(id(key)), 1)]);
        sealing.note_journal(files("a"), 0);
        sealing.note_checkpoint(files("b"), 1);
        assert_eq!(sealing.replace(ring("b SECOND")), refused, "it had");
        assert!(sealing.is_journal_behind());
        sealing.note_journal(files("b"), 1);
        assert!(!sealing.is_journal_behind());
        assert_eq!(sealing.status().keys, [(id("b"), 2), (id("a"), 0)]);
        assert_eq!(sealing.replace(ring("b FIRST")), Err(KeysNeeded::Changed(id("b"))));
        sealing.replace(ring("b SECOND")).unwrap();
    }
}
