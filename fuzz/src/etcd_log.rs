//! Reading of an etcd's log whose records were mutated, and replay of what it asks for: refused, or
//! done the same every time, revision by revision.

use vetch_snapshot::replay::{Replay, Replayed};
use vetch_snapshot::wal::Tail;
use vetch_store::Store;

use crate::image;

/// A larger kind than any record has: from here on, a record begins the next file.
const NEXT_FILE: u8 = 128;
/// The record that states a checksum.
const CRC: u8 = 4;

/// An image of records: the number of each is its kind. With checksums they are framed as etcd does
/// it; without, their contents are the bytes of a file as they are.
pub fn run(data: &[u8]) {
    let (flags, records) = image::parse(data);
    let mut files = vec![Vec::new()];
    let mut crc = 0;
    for (kind, content) in records {
        if kind >= NEXT_FILE {
            files.push(Vec::new());
            frame(files.last_mut().expect("there is one"), CRC, &[], crc);
        }
        let file = files.last_mut().expect("there is one");
        if flags.checksums() {
            crc = crc32c::crc32c_append(crc, &content);
            frame(file, kind % NEXT_FILE, &content, crc);
        } else {
            file.extend_from_slice(&content);
        }
    }
    judge(&files);
}

/// A record behind its length, padded to a multiple of eight bytes.
pub fn frame(file: &mut Vec<u8>, kind: u8, data: &[u8], crc: u32) {
    let mut body = vec![0x08, kind, 0x10];
    prost::encoding::encode_varint(crc.into(), &mut body);
    body.push(0x1a);
    prost::encoding::encode_varint(data.len() as u64, &mut body);
    body.extend_from_slice(data);
    let padding = (8 - body.len() % 8) % 8;
    let mark = if padding > 0 { (0x80 | padding as u64) << 56 } else { 0 };
    file.extend_from_slice(&(mark | body.len() as u64).to_le_bytes());
    file.extend_from_slice(&body);
    file.resize(file.len() + padding, 0);
}

fn judge(files: &[Vec<u8>]) {
    let Some(tail) = read(files) else { return };
    for pair in tail.entries.windows(2) {
        assert!(pair[0].index + 1 == pair[1].index, "entries have no gaps");
    }
    assert!(tail.entries.first().is_none_or(|entry| entry.index == tail.base + 1));
    let (Some(once), Some(again)) = (replayed(&tail), replayed(&tail)) else { return };
    assert_eq!(once.mark, again.mark);
    // Passwords of old logs get a salt of their own every time.
    assert_eq!(once.unversioned.leases, again.unversioned.leases);
    assert_eq!(once.unversioned.auth.revision, again.unversioned.auth.revision);
    assert_eq!(once.records, again.records);
    let revisions = once.records.iter().map(|record| record.mod_revision());
    let mut last = 1;
    for revision in revisions {
        assert!(revision == last || revision == last + 1, "revisions have no gaps");
        last = revision;
    }
    assert_eq!(last, once.mark.revision);
}

fn read(files: &[Vec<u8>]) -> Option<Tail> {
    let mut tail = Tail::behind(0);
    for (at, bytes) in files.iter().enumerate() {
        tail.take_file(bytes, at + 1 == files.len()).ok()?;
    }
    tail.finish().ok()?;
    Some(tail)
}

/// None if something is asked for that is not known.
fn replayed(tail: &Tail) -> Option<Replayed> {
    let mut replay = Replay::new(Store::default());
    tail.entries.iter().try_for_each(|entry| replay.apply(entry)).ok()?;
    Some(replay.finish())
}
