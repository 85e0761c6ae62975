//! The bytes of an entry.
//!
//! ```text
//! entry   0 u32 length of all | 4 u8 version | 5 u8 kind | 6 u16 parts | 8 u64 epoch | 16 u64 seq
//!        24 i64 base_rev | 32 [32] prev_hash | 64 parts...
//! part    0 u32 partition | 4 u32 count | 8 u64 owner_epoch | 16 u64 pseq | 24 u8 payload kind | 25 [3] zero
//!        28 u32 payload length | 32 payload
//! ref     0 u64 stream | 8 u64 position | 16 u64 length | 24 [32] hash
//! ```

use bytes::{Buf, Bytes};
use vetch_base::{Epoch, Seq};

use super::{
    ENTRY_HEADER_LEN, ENTRY_VERSION, Entry, EntryError, Hash, Kind, MAX_ENTRY_LEN, PART_HEADER_LEN, Part,
    PartId, Payload, PayloadRef, REF_LEN,
};

const INLINE: u8 = 0;
const REF: u8 = 1;

/// Where an entry has the hash of the one before it.
pub(super) const PREV_HASH: std::ops::Range<usize> = 32..64;

/// The fields that place an entry in the chain; the rest of the header follows from the content.
pub(super) struct Place {
    pub(super) epoch: Epoch,
    pub(super) seq: Seq,
    pub(super) base_rev: i64,
    pub(super) prev_hash: Hash,
}

/// Fills the header room at the start of `buf`, whose parts are complete.
pub(super) fn write_header(buf: &mut [u8], kind: Kind, parts: u16, place: &Place) {
    assert!(buf.len() <= MAX_ENTRY_LEN, "an entry of {} bytes is above the limit of the format", buf.len());
    let len = u32::try_from(buf.len()).expect("MAX_ENTRY_LEN fits u32");
    buf[0..4].copy_from_slice(&len.to_le_bytes());
    buf[4] = ENTRY_VERSION;
    buf[5] = kind as u8;
    buf[6..8].copy_from_slice(&parts.to_le_bytes());
    buf[8..16].copy_from_slice(&place.epoch.get().to_le_bytes());
    buf[16..24].copy_from_slice(&place.seq.get().to_le_bytes());
    buf[24..32].copy_from_slice(&place.base_rev.to_le_bytes());
    buf[PREV_HASH].copy_from_slice(&place.prev_hash);
}

/// Reserves room for the header of a part whose payload the caller appends next.
pub(super) fn begin_part(buf: &mut Vec<u8>, id: PartId) -> usize {
    let at = buf.len();
    buf.extend_from_slice(&id.partition.to_le_bytes());
    buf.extend_from_slice(&[0; 4]);
    buf.extend_from_slice(&id.owner_epoch.to_le_bytes());
    buf.extend_from_slice(&id.pseq.to_le_bytes());
    buf.extend_from_slice(&[0; 8]);
    at
}

/// Completes the part that began at `at`: everything behind its header is the inline payload.
pub(super) fn end_part(buf: &mut [u8], at: usize, count: u32) {
    let len = buf.len().checked_sub(at + PART_HEADER_LEN).expect("a payload may only be appended to");
    assert!(len <= MAX_ENTRY_LEN, "a payload of {len} bytes is above the limit of the format");
    finish_part(&mut buf[at..], INLINE, count, len);
}

pub(super) fn push_ref(buf: &mut Vec<u8>, id: PartId, count: u32, reference: &PayloadRef) {
    let at = begin_part(buf, id);
    buf.extend_from_slice(&reference.stream.to_le_bytes());
    buf.extend_from_slice(&reference.position.to_le_bytes());
    buf.extend_from_slice(&reference.len.to_le_bytes());
    buf.extend_from_slice(&reference.hash);
    finish_part(&mut buf[at..], REF, count, REF_LEN);
}

fn finish_part(part: &mut [u8], payload_kind: u8, count: u32, len: usize) {
    part[4..8].copy_from_slice(&count.to_le_bytes());
    part[24] = payload_kind;
    part[28..32].copy_from_slice(&u32::try_from(len).expect("checked against MAX_ENTRY_LEN").to_le_bytes());
}

/// The length the entry at the start of `bytes` claims, checked against what is there.
pub fn entry_len(bytes: &[u8]) -> Result<usize, EntryError> {
    let have = bytes.len() as u64;
    if bytes.len() < ENTRY_HEADER_LEN {
        return Err(EntryError::Short { need: ENTRY_HEADER_LEN as u64, have });
    }
    let said = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize;
    if !(ENTRY_HEADER_LEN..=MAX_ENTRY_LEN).contains(&said) || said > bytes.len() {
        return Err(EntryError::Length { said: said as u64, have });
    }
    Ok(said)
}

impl Entry {
    /// Reads an entry that fills `bytes` exactly; inline payloads become slices of `bytes`, not
    /// copies.
    pub fn decode(bytes: &Bytes) -> Result<Entry, EntryError> {
        let said = entry_len(bytes)?;
        if said != bytes.len() {
            return Err(EntryError::Length { said: said as u64, have: bytes.len() as u64 });
        }
        let mut rest = bytes.clone();
        rest.advance(4);
        let version = rest.get_u8();
        if version != ENTRY_VERSION {
            return Err(EntryError::Version(version));
        }
        let kind = rest.get_u8();
        let kind = Kind::from_number(kind).ok_or(EntryError::Kind(kind))?;
        let parts = usize::from(rest.get_u16_le());
        let epoch = Epoch::new(rest.get_u64_le());
        let seq = Seq::new(rest.get_u64_le());
        let base_rev = rest.get_i64_le();
        let prev_hash = take_hash(&mut rest);
        // A hostile count reserves no more than the bytes behind it could hold.
        let mut decoded = Vec::with_capacity(parts.min(rest.len() / PART_HEADER_LEN));
        for _ in 0..parts {
            decoded.push(decode_part(&mut rest)?);
        }
        if !rest.is_empty() {
            return Err(EntryError::Trailing(rest.len() as u64));
        }
        Ok(Entry { epoch, seq, prev_hash, base_rev, kind, parts: decoded })
    }

    /// The bytes of this entry. Writers on the hot path use a `Draft`, which builds them in place.
    pub fn encode(&self) -> Vec<u8> {
        let mut buf = vec![0; ENTRY_HEADER_LEN];
        for part in &self.parts {
            match &part.payload {
                Payload::Inline(payload) => {
                    let at = begin_part(&mut buf, part.id);
                    buf.extend_from_slice(payload);
                    end_part(&mut buf, at, part.count);
                }
                Payload::Ref(reference) => push_ref(&mut buf, part.id, part.count, reference),
            }
        }
        let parts = u16::try_from(self.parts.len()).expect("an entry has at most 65535 parts");
        let place =
            Place { epoch: self.epoch, seq: self.seq, base_rev: self.base_rev, prev_hash: self.prev_hash };
        write_header(&mut buf, self.kind, parts, &place);
        buf
    }
}

fn decode_part(rest: &mut Bytes) -> Result<Part, EntryError> {
    need(rest, PART_HEADER_LEN)?;
    let partition = rest.get_u32_le();
    let count = rest.get_u32_le();
    let id = PartId { partition, owner_epoch: rest.get_u64_le(), pseq: rest.get_u64_le() };
    let payload_kind = rest.get_u8();
    if rest.get_u8() != 0 || rest.get_u16_le() != 0 {
        return Err(EntryError::Reserved);
    }
    let len = rest.get_u32_le();
    let payload = match payload_kind {
        INLINE => {
            need(rest, len as usize)?;
            Payload::Inline(rest.split_to(len as usize))
        }
        REF if len as usize != REF_LEN => return Err(EntryError::RefLength(len)),
        REF => {
            need(rest, REF_LEN)?;
            let (stream, position, len) = (rest.get_u64_le(), rest.get_u64_le(), rest.get_u64_le());
            Payload::Ref(PayloadRef { stream, position, len, hash: take_hash(rest) })
        }
        other => return Err(EntryError::PayloadKind(other)),
    };
    Ok(Part { id, count, payload })
}

fn take_hash(rest: &mut Bytes) -> Hash {
    let mut hash = [0; 32];
    rest.copy_to_slice(&mut hash);
    hash
}

fn need(rest: &Bytes, len: usize) -> Result<(), EntryError> {
    if rest.len() < len {
        return Err(EntryError::Short { need: len as u64, have: rest.len() as u64 });
    }
    Ok(())
}
