//! No flipped bit passes, and names are read back.

use bytes::Bytes;

use super::*;
use crate::BackupError;
use vetch_base::Seq;

fn chunk() -> Chunk {
    let header = ChunkHeader {
        journal: "00000000000000aa".into(),
        first_seq: Seq::new(3),
        last_seq: Seq::new(5),
        revision: Some(9),
        segment: Seq::new(1),
        segment_len: 4096,
        offset: 512,
        marks: vec![
            Mark { time: 1000, seq: Seq::new(4), revision: 8 },
            Mark { time: 1100, seq: Seq::new(5), revision: 9 },
        ],
    };
    Chunk { header, records: Bytes::from_static(b"records") }
}

#[test]
fn a_chunk_reads_back_and_no_flipped_bit_passes() {
    let bytes = chunk().encode();
    assert_eq!(Chunk::decode("x", &Bytes::from(bytes.clone())).unwrap(), chunk());
    assert_eq!(Chunk::peek("x", &bytes).unwrap(), Some(chunk().header));
    assert_eq!(Chunk::peek("x", &bytes[..40]).unwrap(), None);
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(Chunk::decode("x", &Bytes::from(flipped)).is_err(), "bit {bit}");
    }
    for len in 0..bytes.len() {
        assert!(Chunk::decode("x", &Bytes::copy_from_slice(&bytes[..len])).is_err(), "cut to {len}");
    }
}

#[test]
fn a_document_reads_back_and_no_flipped_bit_passes() {
    let owner = Owner { format: FORMAT, cluster_id: "1".into(), member_id: "2".into() };
    let bytes = encode(&owner);
    assert_eq!(decode::<Owner>("x", &bytes).unwrap(), owner);
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(decode::<Owner>("x", &flipped).is_err(), "bit {bit}");
    }
}

#[test]
fn a_later_format_is_not_reported_as_damage() {
    let owner = Owner { format: 2, cluster_id: String::new(), member_id: String::new() };
    let error = decode::<Owner>("x", &encode(&owner)).unwrap_err();
    assert!(matches!(error, BackupError::NotSupported { format: 2, .. }), "{error}");
}

#[test]
fn names_are_read_back() {
    let journal = "00000000000000aa";
    let full = Name::Full { journal: journal.into(), seq: Seq::new(17) };
    assert_eq!(Name::parse(&full_name(journal, Seq::new(17))), Some(full));
    let chunk = Name::Chunk { journal: journal.into(), first_seq: Seq::new(18) };
    assert_eq!(Name::parse(&chunk_name(journal, Seq::new(18))), Some(chunk));
    assert_eq!(
        Name::parse(&file_name(journal, "ab", "x.data")),
        Some(Name::File { journal: journal.into() })
    );
    assert_eq!(Name::parse(OWNER), Some(Name::Owner));
    for other in ["README", "aa/full/0000000000000001.json", "00000000000000aa/full/1.json", "a/b/c/d"] {
        assert_eq!(Name::parse(other), None, "{other}");
    }
}
