//! HashKV: a CRC-32C over history, the same number on every member that has the same history.
//!
//! Hashed are the word `key` and then, in order, for each version the revision and position under
//! which etcd stores it and its message. Versions that the compaction makes unreachable are left
//! out whether or not they are still there.

use crate::response::{Event, KeyValue};
use crate::state::Model;

impl Model {
    /// The hash of history up to `at` with a compaction at `compacted` (-1: none).
    pub fn hash_kv(&self, at: i64, compacted: i64) -> u32 {
        let deleted =
            |key: &[u8]| self.changes(at, at).iter().any(|event| event.deleted && event.kv.key == key);
        let living = self.live(&crate::Keys::all(), at).any(|kv| !deleted(&kv.key));
        self.hash_history(at, compacted, living)
    }

    /// The hash that a compaction at `at` takes of history up to there, when the last one before
    /// was at `compacted`. For etcd's oddity below, what `at` deleted counts as alive.
    pub fn hash_in_compaction(&self, at: i64, compacted: i64) -> u32 {
        let deletes = self.changes(at, at).iter().any(|event| event.deleted);
        let living = deletes || self.live(&crate::Keys::all(), at).next().is_some();
        self.hash_history(at, compacted, living)
    }

    /// A version from before the compaction that was replaced up to `at` is left out, except when
    /// no key at all is alive at `at`: an oddity of etcd's, to which a key that `at` itself deleted
    /// is gone even if it came back there.
    fn hash_history(&self, at: i64, compacted: i64, living: bool) -> u32 {
        let newest = |event: &Event, at| {
            self.change_at(&event.kv.key, at).is_some_and(|newest| std::ptr::eq(newest, event))
        };
        let mut bytes = b"key".to_vec();
        let (mut revision, mut position) = (0, 0u64);
        for event in self.changes(0, at) {
            position = if event.kv.mod_revision == revision { position + 1 } else { 0 };
            revision = event.kv.mod_revision;
            let survives = !event.deleted && newest(event, compacted) && (newest(event, at) || !living);
            if revision > compacted || survives {
                bytes.extend(revision.to_be_bytes());
                bytes.push(b'_');
                bytes.extend(position.to_be_bytes());
                bytes.extend(event.deleted.then_some(b't'));
                encode(event, &mut bytes);
            }
        }
        crc32c::crc32c(&bytes)
    }
}

/// The protobuf message `mvccpb.KeyValue`; that of a deletion has the key alone.
fn encode(event: &Event, bytes: &mut Vec<u8>) {
    let KeyValue { key, value, create_revision, mod_revision, version, lease } = &event.kv;
    blob(1, key, bytes);
    if event.deleted {
        return;
    }
    number(2, *create_revision, bytes);
    number(3, *mod_revision, bytes);
    number(4, *version, bytes);
    blob(5, value, bytes);
    number(6, *lease, bytes);
}

fn number(field: u8, value: i64, bytes: &mut Vec<u8>) {
    if value != 0 {
        bytes.push(field << 3);
        varint(value.cast_unsigned(), bytes);
    }
}

fn blob(field: u8, value: &[u8], bytes: &mut Vec<u8>) {
    if !value.is_empty() {
        bytes.push(field << 3 | 2);
        varint(value.len() as u64, bytes);
        bytes.extend(value);
    }
}

fn varint(mut value: u64, bytes: &mut Vec<u8>) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}
