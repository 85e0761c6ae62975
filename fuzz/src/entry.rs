//! The journal's entries: what is accepted encodes to itself, and follows the tip that it claims to
//! follow.

use bytes::Bytes;
use vetch_base::{Epoch, Seq};
use vetch_journal::{Entry, Kind, Tip, hash_entry};

pub fn run(data: &[u8]) {
    let bytes = Bytes::copy_from_slice(data);
    let Ok(entry) = Entry::decode(&bytes) else { return };
    assert_eq!(entry.encode(), data, "{entry:?}");
    let before = Tip {
        epoch: Epoch::new(entry.epoch.get().wrapping_sub(u64::from(entry.kind == Kind::NewEpoch))),
        seq: Seq::new(entry.seq.get().wrapping_sub(1)),
        hash: entry.prev_hash,
        next_rev: entry.base_rev,
    };
    if let Ok(after) = before.accept(&entry, hash_entry(data)) {
        assert_eq!((after.epoch, after.seq), (entry.epoch, entry.seq));
        assert_eq!(i128::from(after.next_rev) - i128::from(entry.base_rev), i128::from(entry.units()));
        assert!(after.accept(&entry, hash_entry(data)).is_err(), "an entry does not follow itself");
    }
}
