//! Record: one immutable version of a key, in the wire form every response and event carries.
//!
//! A record is a single reference-counted allocation: fixed metadata, then the bytes of the encoded
//! `mvccpb.KeyValue`. The store, the event log, responses in flight and the checkpoint writer share it by
//! pointer; sending it anywhere is one copy of [`Record::wire`], never an encoding field by field.
//!
//! A tombstone is a record too. Its wire form is what a DELETE event shows: the key and the revision of the
//! delete. Its `create_revision` remembers the life it ended, which the checkpoint needs to know when the
//! tombstone itself may be forgotten.

use bytes::BufMut;
use triomphe::{HeaderSlice, ThinArc};

/// What the store asks of a version without parsing its wire form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Meta {
    create_revision: i64,
    mod_revision: i64,
    /// 0 marks a tombstone; a living version counts from 1.
    version: i64,
    lease: i64,
    /// Position among the changes of its revision.
    sub: u32,
    key_len: u32,
    value_len: u32,
    /// Where the value's bytes start in the wire form; 0 if it is empty.
    value_at: u32,
}

/// One version of a key. Cloning copies a pointer.
#[derive(Clone)]
pub struct Record(ThinArc<Meta, u8>);

/// The fields of a version, as given to [`Record::new`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fields<'a> {
    pub key: &'a [u8],
    pub value: &'a [u8],
    pub create_revision: i64,
    pub mod_revision: i64,
    pub version: i64,
    pub lease: i64,
    pub sub: u32,
}

/// A decoding failure: the bytes are not the canonical wire form of a KeyValue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a canonical key-value record: {0}")]
pub struct BadRecord(&'static str);

/// Position, create revision and length in front of a saved record.
const SAVED_HEAD: usize = 4 + 8 + 4;

const TAG_KEY: u8 = 0x0a;
const TAG_CREATE: u8 = 0x10;
const TAG_MOD: u8 = 0x18;
const TAG_VERSION: u8 = 0x20;
const TAG_VALUE: u8 = 0x2a;
const TAG_LEASE: u8 = 0x30;

impl Record {
    /// A living version.
    pub fn new(fields: Fields<'_>) -> Record {
        assert!(fields.version >= 1, "a living version counts from 1");
        Record::build(fields, fields.create_revision)
    }

    /// The mark that `key` was deleted at `mod_revision`, ending the life created at `create_revision`.
    pub fn tombstone(key: &[u8], mod_revision: i64, sub: u32, create_revision: i64) -> Record {
        let shown = Fields { key, value: b"", create_revision: 0, mod_revision, version: 0, lease: 0, sub };
        Record::build(shown, create_revision)
    }

    /// The same version without its value, as a keys-only range returns it. `lease` is given because etcd
    /// answers most keys-only ranges from its index, which does not know the lease.
    pub fn keys_only(&self, lease: i64) -> Record {
        Record::new(Fields {
            key: self.key(),
            value: b"",
            create_revision: self.create_revision(),
            mod_revision: self.mod_revision(),
            version: self.version(),
            lease,
            sub: self.sub(),
        })
    }

    /// `fields` is what the wire form shows; `create_revision` is what the store remembers.
    fn build(fields: Fields<'_>, create_revision: i64) -> Record {
        let mut wire = Vec::with_capacity(fields.key.len() + fields.value.len() + 48);
        put_bytes(&mut wire, TAG_KEY, fields.key);
        put_int(&mut wire, TAG_CREATE, fields.create_revision);
        put_int(&mut wire, TAG_MOD, fields.mod_revision);
        put_int(&mut wire, TAG_VERSION, fields.version);
        put_bytes(&mut wire, TAG_VALUE, fields.value);
        let value_at = if fields.value.is_empty() { 0 } else { wire.len() - fields.value.len() };
        put_int(&mut wire, TAG_LEASE, fields.lease);
        let meta = Meta {
            create_revision,
            mod_revision: fields.mod_revision,
            version: fields.version,
            lease: fields.lease,
            sub: fields.sub,
            key_len: len_u32(fields.key),
            value_len: len_u32(fields.value),
            value_at: u32::try_from(value_at).expect("a record is far below 4 GiB"),
        };
        Record(ThinArc::from_header_and_slice(meta, &wire))
    }

    /// Rebuilds a record from [`Record::wire`] bytes read back from a journal or a checkpoint.
    pub fn from_wire(wire: &[u8], sub: u32) -> Result<Record, BadRecord> {
        let fields = parse(wire)?;
        let value_at = match fields.value {
            b"" => 0,
            // `value` is a sub-slice of `wire`, so the distance of their ends gives its place.
            value => value.as_ptr() as usize - wire.as_ptr() as usize,
        };
        let meta = Meta {
            create_revision: fields.create_revision,
            mod_revision: fields.mod_revision,
            version: fields.version,
            lease: fields.lease,
            sub,
            key_len: len_u32(fields.key),
            value_len: len_u32(fields.value),
            value_at: u32::try_from(value_at).map_err(|_| BadRecord("longer than 4 GiB"))?,
        };
        Ok(Record(ThinArc::from_header_and_slice(meta, wire)))
    }

    /// The form in which checkpoints keep a record: what the wire form does not say, then the wire form.
    pub fn save(&self, out: &mut Vec<u8>) {
        out.put_u32_le(self.sub());
        out.put_i64_le(self.create_revision());
        out.put_u32_le(len_u32(self.wire()));
        out.extend_from_slice(self.wire());
    }

    /// Bytes that [`Record::save`] appends.
    pub fn saved_len(&self) -> usize {
        SAVED_HEAD + self.wire().len()
    }

    /// Reads back what [`Record::save`] wrote and moves past it.
    pub fn restore(bytes: &mut &[u8]) -> Result<Record, BadRecord> {
        let short = BadRecord("cut short");
        let (head, rest) = bytes.split_at_checked(SAVED_HEAD).ok_or(short)?;
        let sub = u32::from_le_bytes(head[..4].try_into().expect("four bytes"));
        let create_revision = i64::from_le_bytes(head[4..12].try_into().expect("eight bytes"));
        let len = u32::from_le_bytes(head[12..].try_into().expect("four bytes")) as usize;
        let (wire, rest) = rest.split_at_checked(len).ok_or(short)?;
        *bytes = rest;
        let record = Record::from_wire(wire, sub)?;
        if record.is_tombstone() {
            let tombstone = Record::tombstone(record.key(), record.mod_revision(), sub, create_revision);
            let is_bare = tombstone.wire() == wire;
            return if is_bare {
                Ok(tombstone)
            } else {
                Err(BadRecord("a tombstone with more than its key"))
            };
        }
        if record.create_revision() != create_revision {
            return Err(BadRecord("create revisions differ"));
        }
        Ok(record)
    }

    fn meta(&self) -> &Meta {
        let inner: &HeaderSlice<_, [u8]> = &self.0;
        &inner.header.header
    }

    /// The encoded `mvccpb.KeyValue`.
    pub fn wire(&self) -> &[u8] {
        &self.0.slice
    }

    /// The wire form up to the end of the key, which is what etcd keeps of a tombstone.
    pub fn wire_of_key(&self) -> &[u8] {
        let len = self.meta().key_len as usize;
        &self.0.slice[..1 + varint_len(len as u64) + len]
    }

    pub fn key(&self) -> &[u8] {
        let len = self.meta().key_len as usize;
        let at = 1 + varint_len(len as u64);
        &self.0.slice[at..at + len]
    }

    pub fn value(&self) -> &[u8] {
        let meta = self.meta();
        if meta.value_len == 0 {
            return b"";
        }
        &self.0.slice[meta.value_at as usize..][..meta.value_len as usize]
    }

    pub fn mod_revision(&self) -> i64 {
        self.meta().mod_revision
    }

    /// Revision of the create that began this life; for a tombstone, of the life it ended.
    pub fn create_revision(&self) -> i64 {
        self.meta().create_revision
    }

    pub fn version(&self) -> i64 {
        self.meta().version
    }

    pub fn lease(&self) -> i64 {
        self.meta().lease
    }

    pub fn sub(&self) -> u32 {
        self.meta().sub
    }

    pub fn is_tombstone(&self) -> bool {
        self.meta().version == 0
    }

    /// Bytes of memory this version occupies, near enough for accounting.
    pub fn footprint(&self) -> usize {
        size_of::<Meta>() + 2 * size_of::<usize>() + self.0.slice.len()
    }
}

impl std::fmt::Debug for Record {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let key = String::from_utf8_lossy(self.key());
        write!(f, "{key}@{}.{}", self.mod_revision(), self.sub())?;
        if self.is_tombstone() { write!(f, "!") } else { write!(f, "v{}", self.version()) }
    }
}

/// Records are equal when they would look equal on the wire and sort at the same place.
impl PartialEq for Record {
    fn eq(&self, other: &Self) -> bool {
        self.meta() == other.meta() && self.wire() == other.wire()
    }
}

impl Eq for Record {}

fn len_u32(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).expect("requests are limited far below 4 GiB")
}

fn varint_len(value: u64) -> usize {
    (70 - (value | 1).leading_zeros() as usize) / 7
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.put_u8(value as u8 | 0x80);
        value >>= 7;
    }
    out.put_u8(value as u8);
}

fn put_int(out: &mut Vec<u8>, tag: u8, value: i64) {
    if value != 0 {
        out.put_u8(tag);
        put_varint(out, value as u64);
    }
}

fn put_bytes(out: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
    if !bytes.is_empty() {
        out.put_u8(tag);
        put_varint(out, bytes.len() as u64);
        out.extend_from_slice(bytes);
    }
}

/// Reads the canonical wire form: fields in order, each at most once, nothing unknown.
fn parse(wire: &[u8]) -> Result<Fields<'_>, BadRecord> {
    let mut rest = wire;
    let mut last_tag = 0;
    let mut fields =
        Fields { key: b"", value: b"", create_revision: 0, mod_revision: 0, version: 0, lease: 0, sub: 0 };
    while let Some((&tag, after)) = rest.split_first() {
        if tag <= last_tag {
            return Err(BadRecord("fields out of order"));
        }
        last_tag = tag;
        rest = after;
        match tag {
            TAG_KEY => fields.key = take_bytes(&mut rest)?,
            TAG_CREATE => fields.create_revision = take_varint(&mut rest)? as i64,
            TAG_MOD => fields.mod_revision = take_varint(&mut rest)? as i64,
            TAG_VERSION => fields.version = take_varint(&mut rest)? as i64,
            TAG_VALUE => fields.value = take_bytes(&mut rest)?,
            TAG_LEASE => fields.lease = take_varint(&mut rest)? as i64,
            _ => return Err(BadRecord("unknown field")),
        }
    }
    if fields.key.is_empty() {
        return Err(BadRecord("no key"));
    }
    // Every change of a key takes a revision of its own.
    if fields.mod_revision <= 0 || fields.version < 0 || fields.version > fields.mod_revision {
        return Err(BadRecord("impossible revision or version"));
    }
    Ok(fields)
}

fn take_varint(rest: &mut &[u8]) -> Result<u64, BadRecord> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, after) = rest.split_first().ok_or(BadRecord("cut short"))?;
        *rest = after;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            // A zero is left out, and a number has neither leading zeros nor bits to spare.
            let canonical = byte != 0 && (shift < 63 || byte == 1);
            return if canonical { Ok(value) } else { Err(BadRecord("number not canonical")) };
        }
    }
    Err(BadRecord("number too long"))
}

fn take_bytes<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], BadRecord> {
    let len = usize::try_from(take_varint(rest)?).map_err(|_| BadRecord("length too large"))?;
    if rest.len() < len {
        return Err(BadRecord("cut short"));
    }
    let (bytes, after) = rest.split_at(len);
    *rest = after;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Fields<'static> {
        Fields {
            key: b"/registry/pods/a",
            value: b"value",
            create_revision: 300,
            mod_revision: 70_000,
            version: 5,
            lease: -1,
            sub: 3,
        }
    }

    #[test]
    fn wire_round_trip_keeps_every_field() {
        let record = Record::new(sample());
        let back = Record::from_wire(record.wire(), 3).unwrap();
        assert_eq!(back, record);
        assert_eq!(back.key(), b"/registry/pods/a");
        assert_eq!(back.value(), b"value");
        assert_eq!((back.lease(), back.version()), (-1, 5));
    }

    #[test]
    fn long_keys_and_empty_values_are_found_in_the_wire_form() {
        let key = vec![b'k'; 300];
        let record = Record::new(Fields { key: &key, value: b"", lease: 0, ..sample() });
        assert_eq!(record.key(), key);
        assert_eq!(record.value(), b"");
        assert_eq!(Record::from_wire(record.wire(), 3).unwrap(), record);
    }

    #[test]
    fn a_tombstone_shows_key_and_revision_only() {
        let record = Record::tombstone(b"k", 9, 0, 4);
        assert!(record.is_tombstone());
        assert_eq!(record.wire(), [0x0a, 1, b'k', 0x18, 9]);
        assert_eq!(record.create_revision(), 4);
    }

    #[test]
    fn saved_records_come_back_whole() {
        let mut bytes = Vec::new();
        let records = [Record::new(sample()), Record::tombstone(b"gone", 9, 2, 4)];
        records.iter().for_each(|record| record.save(&mut bytes));
        assert_eq!(bytes.len(), records.iter().map(Record::saved_len).sum::<usize>());
        let mut rest = bytes.as_slice();
        for record in &records {
            assert_eq!(Record::restore(&mut rest).as_ref(), Ok(record));
        }
        assert!(rest.is_empty());
        assert!(Record::restore(&mut &bytes[..bytes.len() / 2 - 1]).is_err());
    }

    #[test]
    fn keys_only_drops_the_value() {
        let record = Record::new(sample()).keys_only(0);
        assert_eq!((record.value(), record.lease(), record.version()), (&b""[..], 0, 5));
    }

    #[test]
    fn damaged_wire_forms_are_refused() {
        let record = Record::new(sample());
        for cut in 0..record.wire().len() {
            // A cut between two fields can leave a shorter canonical record; anything else must be refused.
            if let Ok(short) = Record::from_wire(&record.wire()[..cut], 0) {
                assert_ne!(short, record);
            }
        }
        assert!(Record::from_wire(b"\x0a\x01k\x18\x02\x18\x02", 0).is_err());
        assert!(Record::from_wire(b"\x18\x02", 0).is_err());
    }
}
