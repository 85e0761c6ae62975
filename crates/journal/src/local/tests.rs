//! Headers and names.

use super::header::{Header, HeaderError, RECORD_HEADER_LEN, SECTOR, extent, zero_sectors};
use super::segment::{Segment, is_spare, spare_name};
use vetch_base::Seq;

fn header() -> Header {
    Header {
        is_encrypted: false,
        journal_id: 1,
        first_seq: Seq::new(2),
        entries: 3,
        payload_len: 4,
        payload_crc: 5,
        zero_sectors: 6,
        segment_sectors: 7,
    }
}

#[test]
fn a_header_reads_back_and_no_flipped_bit_passes() {
    let encrypted = Header { is_encrypted: true, ..header() };
    assert_eq!(Header::parse(&encrypted.encode()), Ok(encrypted));
    let encoded = header().encode();
    assert_eq!(Header::parse(&encoded), Ok(header()));
    for bit in 0..RECORD_HEADER_LEN * 8 {
        let mut flipped = encoded;
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(Header::parse(&flipped), Err(HeaderError::Invalid), "bit {bit}");
    }
}

#[test]
fn an_intact_header_of_a_later_version_is_not_reported_as_damage() {
    let mut encoded = header().encode();
    encoded[4] = 3;
    let crc = crc32c::crc32c(&encoded[..44]);
    encoded[44..].copy_from_slice(&crc.to_le_bytes());
    assert_eq!(Header::parse(&encoded), Err(HeaderError::Version { version: 3, journal_id: 1 }));
}

#[test]
fn extents_are_whole_sectors() {
    let room = (SECTOR - RECORD_HEADER_LEN) as u64;
    assert_eq!((extent(0), extent(1), extent(room), extent(room + 1)), (512, 512, 512, 1024));
    assert_eq!(zero_sectors(&[&[0; 512][..], &[0; 511], &[1], &[0; 512]].concat()), 2);
}

#[test]
fn only_canonical_names_are_segments() {
    let names = [
        "00000000000000ff.journal",
        "0000000000000001.journal",
        "1.journal",
        "00000000000000FF.journal",
        "LOCK",
        "0000000000000000.journal",
        "+000000000000001.journal",
        "spare-1.tmp",
    ];
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let found: Vec<u64> = Segment::among(&names).iter().map(|segment| segment.first_seq.get()).collect();
    assert_eq!(found, [1, 255]);
    assert!(is_spare(&spare_name(3)) && !is_spare("LOCK"));
}
