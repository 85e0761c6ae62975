//! Sealing: the payload of a record of version 2.
//!
//! ```text
//! 48 [16] name of the key | 64 [16] its check value | 80 [32] salt | 112 sealed entries | [16] tag
//! ```
//!
//! The salt is random for every record, so every record has a key of its own. Bound to it are the
//! journal, the segment and the place in it, the sequence number and how many entries there are: a
//! record that was moved, or copied from another journal or an older copy of this one, does not
//! open. What it says about entries is then checked by their chain.

use bytes::Bytes;
use vetch_seal::{Altered, HEAD_LEN, Head, KeyError, KeyId, Keys, Purpose, Sealer, TAG_LEN};

use super::record::{Header, Place, RECORD_HEADER_LEN};

/// What a payload is longer for being sealed.
pub(super) const OVERHEAD: usize = HEAD_LEN + TAG_LEN;

/// Every sealer seals one record, so one number is enough.
const ONLY: u64 = 0;

/// Why the payload of an intact record cannot be had.
pub(super) enum Unopened {
    Key(KeyError),
    Damaged(&'static str),
}

/// Seals what stands behind the header and the head in `buf`.
pub(super) fn seal(buf: &mut Vec<u8>, sealer: &Sealer, place: &Place, first_seq: u64, entries: u32) {
    let tag = sealer.seal(ONLY, &bound(place, first_seq, entries), &mut buf[RECORD_HEADER_LEN + HEAD_LEN..]);
    buf.extend_from_slice(&tag);
}

/// The encoded entries in the payload of a sealed record.
pub(super) fn open(keys: &Keys, payload: &[u8], place: &Place, header: &Header) -> Result<Bytes, Unopened> {
    let head = head(payload).ok_or(Unopened::Damaged("a sealed record does not name its key"))?;
    let opener = keys.opener(Purpose::JournalRecord, &head).map_err(Unopened::Key)?;
    let mut piece = payload[HEAD_LEN..].to_vec();
    let opened = opener.open(ONLY, &bound(place, header.first_seq, header.entries), &mut piece);
    let len = opened
        .map_err(|Altered| Unopened::Damaged("a sealed record was altered, or belongs to another place"))?
        .len();
    piece.truncate(len);
    Ok(Bytes::from(piece))
}

/// The head at the beginning of a payload, which may be cut short behind it. None: there is none.
fn head(payload: &[u8]) -> Option<Head> {
    Head::parse(payload.first_chunk::<HEAD_LEN>()?)
}

/// The key that sealed the record which begins with this sector, or none if it is plain. `Err`: no
/// record of ours begins here.
pub(super) fn key_of(sector: &[u8]) -> Result<Option<KeyId>, ()> {
    let header = Header::parse(sector).map_err(drop)?;
    if !header.is_sealed {
        return Ok(None);
    }
    head(&sector[RECORD_HEADER_LEN..]).map(|head| Some(head.key)).ok_or(())
}

fn bound(place: &Place, first_seq: u64, entries: u32) -> [u64; 6] {
    [place.journal_id, place.segment, place.segment_len, place.offset, first_seq, u64::from(entries)]
}
