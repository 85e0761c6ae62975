//! Headers and names.

use super::header::{Header, HeaderError, InWrite, RECORD_HEADER_LEN, SECTOR, extent, zero_sectors};
use super::segment::{Segment, is_spare, spare_name};
use vetch_base::Seq;

fn header() -> Header {
    Header {
        is_encrypted: false,
        place: InWrite::ALONE,
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
    let shared = Header { place: InWrite { before: 1, behind: 2 }, ..encrypted };
    assert_eq!(Header::parse(&shared.encode()), Ok(shared));
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
    with_version(&mut encoded, 5);
    assert_eq!(Header::parse(&encoded), Err(HeaderError::Version { version: 5, journal_id: 1 }));
}

/// The version says whether a record has a place among others, so that neither is taken for the
/// other.
#[test]
fn the_version_and_the_place_in_a_write_agree() {
    let mut alone = header().encode();
    with_version(&mut alone, 3);
    assert_eq!(Header::parse(&alone), Err(HeaderError::Invalid));
    let mut shared = Header { place: InWrite { before: 0, behind: 1 }, ..header() }.encode();
    with_version(&mut shared, 1);
    assert_eq!(Header::parse(&shared), Err(HeaderError::Invalid));
}

#[test]
fn records_of_one_write_know_each_other() {
    let header = Header { place: InWrite { before: 2, behind: 0 }, first_seq: Seq::new(9), ..header() };
    let shares = |seq| header.shares_write_with(Seq::new(seq));
    assert_eq!([6, 7, 8, 9, 10].map(shares), [false, true, true, false, false]);
}

fn with_version(encoded: &mut [u8; RECORD_HEADER_LEN], version: u8) {
    encoded[4] = version;
    let crc = crc32c::crc32c(&encoded[..44]);
    encoded[44..].copy_from_slice(&crc.to_le_bytes());
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
