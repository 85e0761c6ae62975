//! Encryption of a record's payload: version 2 of the record layout.
//!
//! ```text
//! 48 [16] name of the key | 64 [16] its check value | 80 [32] salt | 112 encrypted entries | [16] tag
//! ```
//!
//! The salt is random for every record, so every record has a key of its own. The associated data
//! are the journal, the segment, the offset in it, the first sequence number and the count of
//! entries: a record that was moved, or copied from another journal or an older copy of this one,
//! does not decrypt. The hash chain then checks the entries.

use bytes::Bytes;
use vetch_base::Seq;
use vetch_encryption::{
    DecryptError, ENVELOPE_HEADER_LEN, EncryptionKeys, Encryptor, EnvelopeHeader, KeyError, KeyId, Purpose,
    TAG_LEN,
};

use super::header::{Header, Place, RECORD_HEADER_LEN};

/// Bytes that encryption adds to a payload.
pub(super) const OVERHEAD: usize = ENVELOPE_HEADER_LEN + TAG_LEN;

/// Every encryptor encrypts one record, so one counter is enough.
const COUNTER: u64 = 0;

/// Why the payload of an intact record cannot be decrypted.
pub(super) enum Undecryptable {
    Key(KeyError),
    Damaged(&'static str),
}

/// Encrypts the entries at the end of `buf`, which follow the record header at `start` and the
/// envelope header.
pub(super) fn encrypt(
    buf: &mut Vec<u8>,
    start: usize,
    encryptor: &Encryptor,
    place: &Place,
    first_seq: Seq,
    entries: u32,
) {
    let tag = encryptor.encrypt(
        COUNTER,
        &context(place, first_seq, entries),
        &mut buf[start + RECORD_HEADER_LEN + ENVELOPE_HEADER_LEN..],
    );
    buf.extend_from_slice(&tag);
}

/// The encoded entries in the payload of an encrypted record.
pub(super) fn decrypt(
    keys: &EncryptionKeys,
    payload: &[u8],
    place: &Place,
    header: &Header,
) -> Result<Bytes, Undecryptable> {
    let envelope = envelope_header(payload)
        .ok_or(Undecryptable::Damaged("an encrypted record does not name its key"))?;
    let decryptor = keys.decryptor(Purpose::JournalRecord, &envelope).map_err(Undecryptable::Key)?;
    let mut piece = payload[ENVELOPE_HEADER_LEN..].to_vec();
    let plaintext = decryptor.decrypt(COUNTER, &context(place, header.first_seq, header.entries), &mut piece);
    let len = plaintext
        .map_err(|DecryptError| {
            Undecryptable::Damaged("an encrypted record was altered, or belongs to another place")
        })?
        .len();
    piece.truncate(len);
    Ok(Bytes::from(piece))
}

/// The envelope header at the beginning of a payload, which may be cut short behind it.
fn envelope_header(payload: &[u8]) -> Option<EnvelopeHeader> {
    EnvelopeHeader::parse(payload.first_chunk::<ENVELOPE_HEADER_LEN>()?)
}

/// The key of the record that begins with this sector, or none if the record is plain. `Err` if no
/// record of ours begins here.
pub(super) fn key_of(sector: &[u8]) -> Result<Option<KeyId>, ()> {
    let header = Header::parse(sector).map_err(drop)?;
    if !header.is_encrypted {
        return Ok(None);
    }
    envelope_header(&sector[RECORD_HEADER_LEN..]).map(|envelope| Some(envelope.key)).ok_or(())
}

fn context(place: &Place, first_seq: Seq, entries: u32) -> [u64; 6] {
    [
        place.journal_id,
        place.segment.get(),
        place.segment_len,
        place.offset,
        first_seq.get(),
        u64::from(entries),
    ]
}
