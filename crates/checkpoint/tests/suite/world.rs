//! A live store with its journal and its checkpoints, on a disk that tests can break.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use vetch_checkpoint::{
    Capture, CheckpointConfig, CheckpointError, Checkpointer, LoadError, Loaded, RunReport, load,
};
use vetch_encryption::{EncryptionKeys, KeyRing};
use vetch_journal::{Disk, Draft, Kind, MemDisk, PartId, Tip};
use vetch_store::hash::HashRun;
use vetch_store::range::RangeRun;
use vetch_store::request::{
    DeleteRangeRequest, Event, KeyRange, PutRequest, RangeRequest, RequestOp, TxnRequest, WriteRequest,
};
use vetch_store::{Freed, Mark, Record, Store};
use vetch_testkit::valid::Valid;

/// Limits so small that a few records make several blocks, files and merges.
pub(crate) const TINY: CheckpointConfig = CheckpointConfig {
    rewrite_bytes: 4 << 10,
    rewrite_floor: 1 << 10,
    small_file: 64,
    max_files: 6,
    block_bytes: 100,
};

pub(crate) struct World {
    pub(crate) disk: MemDisk,
    pub(crate) config: CheckpointConfig,
    pub(crate) keys: EncryptionKeys,
    pub(crate) store: Store,
    pub(crate) checkpointer: Checkpointer,
    pub(crate) dirty: Vec<Record>,
    pub(crate) tip: Tip,
    /// Every journal entry: the tip after it, and its payload.
    pub(crate) journal: Vec<(Tip, Vec<u8>)>,
    pub(crate) events: Vec<Event>,
}

pub(crate) fn dir() -> PathBuf {
    PathBuf::from("/data/checkpoint")
}

pub(crate) fn open(disk: &MemDisk, config: CheckpointConfig) -> Result<Loaded, LoadError> {
    load(Arc::new(disk.clone()), &dir(), config, 2, &EncryptionKeys::none(), &mut |_, _| {})
}

/// Made for these tests and used for nothing else.
pub(crate) const KEYS: [&str; 2] =
    ["a AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=", "b ICEiIyQlJicoKSorLC0uLzAxMjM0NTY3ODk6Ozw9Pv8="];

pub(crate) fn ring(lines: &[&str]) -> KeyRing {
    KeyRing::parse(&lines.join("\n")).unwrap()
}

/// Keys whose ciphertexts look the same every time.
pub(crate) fn keys(lines: &[&str]) -> EncryptionKeys {
    EncryptionKeys::repeatable_for_tests(ring(lines))
}

/// The same through something that may fail, on the calling thread alone.
pub(crate) fn open_through(
    view: Arc<dyn Disk>,
    config: CheckpointConfig,
    keys: &EncryptionKeys,
) -> Result<Loaded, LoadError> {
    load(view, &dir(), config, 0, keys, &mut |_, _| {})
}

impl World {
    pub(crate) fn new(config: CheckpointConfig) -> World {
        let disk = MemDisk::new();
        World::on(disk.clone(), Arc::new(disk), config, EncryptionKeys::none())
    }

    /// A world whose files are encrypted.
    pub(crate) fn encrypted(config: CheckpointConfig, keys: EncryptionKeys) -> World {
        let disk = MemDisk::new();
        World::on(disk.clone(), Arc::new(disk), config, keys)
    }

    /// A world on a fresh disk, seen through `view`.
    pub(crate) fn on(
        disk: MemDisk,
        view: Arc<dyn Disk>,
        config: CheckpointConfig,
        keys: EncryptionKeys,
    ) -> World {
        let loaded = open_through(view, config, &keys).unwrap();
        World {
            disk,
            config,
            keys,
            store: loaded.store,
            checkpointer: loaded.checkpointer,
            dirty: Vec::new(),
            tip: loaded.tip,
            journal: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Evaluates, journals and publishes. A refused request changes nothing.
    pub(crate) fn write(&mut self, request: WriteRequest) -> bool {
        let mut payload = Vec::new();
        let Ok(evaluated) = self.store.evaluate(&request, &mut payload) else { return false };
        if !payload.is_empty() {
            let mut draft = Draft::new(Kind::Writes);
            draft.begin_part(PartId { partition: 0, owner_epoch: 0, pseq: 0 });
            draft.payload().extend_from_slice(&payload);
            draft.end_part(u32::from(!evaluated.events.is_empty()));
            let encrypted = draft.chain(&mut self.tip);
            self.journal.push((*encrypted.after(), payload));
        }
        self.dirty.extend(evaluated.events.iter().map(|event| event.kv.clone()));
        self.events.extend(evaluated.events);
        self.store.publish(self.store.head());
        true
    }

    pub(crate) fn put(&mut self, key: &str, value: &str) {
        self.write(WriteRequest::Put(put(key, value, 0).valid()));
    }

    pub(crate) fn delete(&mut self, key: &str) {
        self.write(WriteRequest::DeleteRange(delete(key, "").valid()));
    }

    pub(crate) fn compact(&mut self, revision: i64) -> bool {
        self.write(WriteRequest::Compact { revision })
    }

    /// Carries out part of the compaction and tells the checkpointer. True when nothing is left.
    pub(crate) fn sweep(&mut self, steps: usize) -> bool {
        let mut freed = Vec::new();
        let is_done = self.store.compact_step(steps, &mut freed);
        self.checkpointer.note_freed(&freed.iter().map(Freed::from).collect::<Vec<_>>());
        is_done
    }

    pub(crate) fn compact_fully(&mut self, revision: i64) {
        self.compact(revision);
        while !self.sweep(1000) {}
    }

    pub(crate) fn checkpoint(&mut self) -> Result<RunReport, CheckpointError> {
        let capture = Capture::at_head(&self.store, self.tip, std::mem::take(&mut self.dirty));
        let store = &self.store;
        self.checkpointer
            .run(capture, &|records| records.iter().map(|record| store.retains(record)).collect())
    }

    /// What a restart on `disk` would come to: the checkpoint, then the journal behind its tip.
    pub(crate) fn recover(&self, disk: &MemDisk) -> Result<World, LoadError> {
        let loaded = open_through(Arc::new(disk.clone()), self.config, &self.keys)?;
        Ok(self.replay(disk, loaded))
    }

    /// What a loaded checkpoint comes to with the journal behind it.
    pub(crate) fn replay(&self, disk: &MemDisk, loaded: Loaded) -> World {
        let Loaded { mut store, history, tip, mark, checkpointer, .. } = loaded;
        let history: Vec<Event> = history.into_events().map(|(_, event)| event).collect();
        self.assert_history(&history, mark);
        let mut dirty = Vec::new();
        for (_, payload) in self.journal.iter().filter(|(after, _)| after.seq > tip.seq) {
            for replayed in store.replay(payload).expect("the journal fits the checkpoint") {
                dirty.extend(replayed.events.into_iter().map(|event| event.kv));
            }
        }
        store.publish(store.head());
        World {
            disk: disk.clone(),
            config: self.config,
            keys: self.keys.clone(),
            store,
            checkpointer,
            dirty,
            tip: self.tip,
            journal: self.journal.clone(),
            events: self.events.clone(),
        }
    }

    /// The events a checkpoint gives back are the ones that were seen when they happened, except
    /// that what the compacted revision replaced is gone.
    fn assert_history(&self, history: &[Event], mark: Mark) {
        let is_in = |revision: i64| mark.compact_revision <= revision && revision <= mark.revision;
        let expected = self.events.iter().filter(|event| is_in(event.kv.mod_revision()));
        let expected: Vec<&Event> = expected.collect();
        assert_eq!(history.len(), expected.len());
        for (found, expected) in history.iter().zip(expected) {
            let is_known = found.kv.mod_revision() > mark.compact_revision;
            assert_eq!(found.kv, expected.kv);
            assert_eq!(found.prev.as_ref(), expected.prev.as_ref().filter(|_| is_known), "{found:?}");
        }
    }

    /// Every question about the present and the readable past has the same answer in both stores.
    pub(crate) fn assert_same(&self, other: &World) {
        let (ours, theirs) = (&self.store, &other.store);
        assert_eq!(ours.head(), theirs.head());
        assert_eq!(ours.stats().keys, theirs.stats().keys);
        assert_eq!(ours.unversioned(), theirs.unversioned());
        for (id, _) in ours.leases().iter() {
            assert_eq!(ours.lease_keys(id), theirs.lease_keys(id), "lease {id}");
        }
        let mut keys: Vec<&[u8]> = self.events.iter().map(|event| event.kv.key()).collect();
        keys.sort_unstable();
        keys.dedup();
        let mark = ours.visible();
        for at in mark.compact_revision.max(1)..=mark.revision {
            for key in &keys {
                assert_eq!(ours.get(key, at), theirs.get(key, at), "at {at}");
            }
            assert_eq!(list(ours, at), list(theirs, at), "at {at}");
            assert_eq!(hash(ours, at), hash(theirs, at), "at {at}");
        }
    }
}

pub(crate) fn put(key: &str, value: &str, lease: i64) -> PutRequest {
    PutRequest {
        key: key.to_owned().into(),
        value: value.to_owned().into(),
        lease,
        prev_kv: false,
        ignore_value: false,
        ignore_lease: false,
    }
}

pub(crate) fn delete(key: &str, range_end: &str) -> DeleteRangeRequest {
    DeleteRangeRequest { range: KeyRange::new(key.to_owned(), range_end.to_owned()), prev_kv: false }
}

pub(crate) fn txn(ops: Vec<RequestOp>) -> WriteRequest {
    WriteRequest::Txn(TxnRequest { success: ops, ..TxnRequest::default() }.valid())
}

/// Everything alive at a revision, with the count.
fn list(store: &Store, at: i64) -> (Vec<Record>, i64) {
    let everything = KeyRange::new("\0", "\0");
    let request = RangeRequest { revision: at, ..RangeRequest::new(everything) };
    let mut run = RangeRun::new(request.valid(), store.visible()).unwrap();
    while !run.step(store, usize::MAX, usize::MAX).unwrap() {}
    let count = run.count(store).unwrap();
    let answer = run.finish(count);
    (answer.kvs, answer.count)
}

pub(crate) fn hash(store: &Store, at: i64) -> u32 {
    let mut run = HashRun::new(at, store.visible());
    while run.step(store, usize::MAX) != Some(true) {}
    run.finish()
}

/// Names of the files in the checkpoint's directory.
pub(crate) fn names(disk: &MemDisk) -> Vec<String> {
    disk.list(&dir()).unwrap()
}

/// The paths with this ending, oldest first.
pub(crate) fn paths(disk: &MemDisk, ending: &str) -> Vec<PathBuf> {
    names(disk).iter().filter(|name| name.ends_with(ending)).map(|name| dir().join(name)).collect()
}

/// Flips a bit in the middle of a file.
pub(crate) fn damage(disk: &MemDisk, path: &Path) {
    let len = disk.content(path).unwrap().len() as u64;
    disk.flip_bit(path, len / 2, 3);
}
