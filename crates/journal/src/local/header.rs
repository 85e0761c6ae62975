//! Header: the first bytes of a record; see `record` for their layout.

use vetch_base::Seq;

/// The unit that a disk writes entirely or not at all.
pub const SECTOR: usize = 512;
/// Bytes of a record before its payload.
pub const RECORD_HEADER_LEN: usize = 48;
/// Version of the record layout of a plain record that was written alone.
pub const RECORD_VERSION: u16 = 1;
/// The same layout with an encrypted payload.
pub const ENCRYPTED_RECORD_VERSION: u16 = 2;
/// Added to either version in a record that was written together with others.
pub const SHARED_WRITE: u16 = 2;
/// The longest payload: leaves sector arithmetic far from overflow.
pub(super) const MAX_PAYLOAD: u64 = 1 << 31;

const MAGIC: [u8; 4] = *b"VJRN";
const CRC_AT: usize = 44;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) is_encrypted: bool,
    pub(super) place: InWrite,
    pub(super) journal_id: u64,
    pub(super) first_seq: Seq,
    pub(super) entries: u32,
    pub(super) payload_len: u32,
    pub(super) payload_crc: u32,
    pub(super) zero_sectors: u32,
    pub(super) segment_sectors: u32,
}

/// How many records were written in the same write before and behind this one. Of several, each has
/// one entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct InWrite {
    pub(super) before: u8,
    pub(super) behind: u8,
}

impl InWrite {
    pub(super) const ALONE: InWrite = InWrite { before: 0, behind: 0 };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeaderError {
    /// Not a header, or a damaged one.
    Invalid,
    /// An intact header of a layout that this version cannot read. Whose it is says the same place
    /// in every version.
    Version { version: u16, journal_id: u64 },
}

impl Header {
    pub(super) fn encode(&self) -> [u8; RECORD_HEADER_LEN] {
        let mut out = [0; RECORD_HEADER_LEN];
        out[0..4].copy_from_slice(&MAGIC);
        let version = if self.is_encrypted { ENCRYPTED_RECORD_VERSION } else { RECORD_VERSION };
        let shared = if self.place == InWrite::ALONE { 0 } else { SHARED_WRITE };
        out[4..6].copy_from_slice(&(version + shared).to_le_bytes());
        out[6] = self.place.before;
        out[7] = self.place.behind;
        out[8..16].copy_from_slice(&self.journal_id.to_le_bytes());
        out[16..24].copy_from_slice(&self.first_seq.get().to_le_bytes());
        out[24..28].copy_from_slice(&self.entries.to_le_bytes());
        out[28..32].copy_from_slice(&self.payload_len.to_le_bytes());
        out[32..36].copy_from_slice(&self.payload_crc.to_le_bytes());
        out[36..40].copy_from_slice(&self.zero_sectors.to_le_bytes());
        out[40..44].copy_from_slice(&self.segment_sectors.to_le_bytes());
        let crc = crc32c::crc32c(&out[..CRC_AT]);
        out[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    pub(super) fn parse(sector: &[u8]) -> Result<Header, HeaderError> {
        assert!(sector.len() >= RECORD_HEADER_LEN, "headers are read by whole sectors");
        let u32_at = |at: usize| u32::from_le_bytes(sector[at..at + 4].try_into().expect("four bytes"));
        let u64_at = |at: usize| u64::from_le_bytes(sector[at..at + 8].try_into().expect("eight bytes"));
        if sector[0..4] != MAGIC || u32_at(CRC_AT) != crc32c::crc32c(&sector[..CRC_AT]) {
            return Err(HeaderError::Invalid);
        }
        let version = u16::from_le_bytes([sector[4], sector[5]]);
        if !(RECORD_VERSION..=ENCRYPTED_RECORD_VERSION + SHARED_WRITE).contains(&version) {
            return Err(HeaderError::Version { version, journal_id: u64_at(8) });
        }
        let place = InWrite { before: sector[6], behind: sector[7] };
        let is_shared = version > ENCRYPTED_RECORD_VERSION;
        if is_shared == (place == InWrite::ALONE) {
            return Err(HeaderError::Invalid);
        }
        let kind = if is_shared { version - SHARED_WRITE } else { version };
        Ok(Header {
            is_encrypted: kind == ENCRYPTED_RECORD_VERSION,
            place,
            journal_id: u64_at(8),
            first_seq: Seq::new(u64_at(16)),
            entries: u32_at(24),
            payload_len: u32_at(28),
            payload_crc: u32_at(32),
            zero_sectors: u32_at(36),
            segment_sectors: u32_at(40),
        })
    }

    /// Whether the record was written in one go with the one that begins with this entry, which is
    /// before it. Then no sync lies between the two.
    pub(super) fn shares_write_with(&self, earlier: Seq) -> bool {
        let began = self.first_seq.get().saturating_sub(u64::from(self.place.before));
        began <= earlier.get() && earlier < self.first_seq
    }

    /// Bytes the record covers on disk.
    pub(super) fn extent(&self) -> u64 {
        extent(u64::from(self.payload_len))
    }
}

/// Bytes on disk of a record with a payload of this length.
pub(super) fn extent(payload_len: u64) -> u64 {
    (RECORD_HEADER_LEN as u64 + payload_len).next_multiple_of(SECTOR as u64)
}

/// Where a record lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) journal_id: u64,
    /// Sequence number of the first entry of the segment.
    pub(super) segment: Seq,
    pub(super) segment_len: u64,
    pub(super) offset: u64,
}

/// How many of the sectors in `extent` are zero from end to end.
pub(super) fn zero_sectors(extent: &[u8]) -> u32 {
    let zero = extent.chunks(SECTOR).filter(|sector| is_zero(sector)).count();
    u32::try_from(zero).expect("payloads are bounded")
}

/// Whether a sector, or the part of one, is all zero.
pub(super) fn is_zero(sector: &[u8]) -> bool {
    const ZEROS: [u8; SECTOR] = [0; SECTOR];
    sector == &ZEROS[..sector.len()]
}
