//! Record: one immutable version of a key, in the wire form every response and event carries.
//!
//! A record is a reference-counted allocation: a mark, then the bytes of the encoded
//! `mvccpb.KeyValue`. The store, the event log, responses in flight and the checkpoint writer share
//! it by pointer; sending it anywhere is one copy of [`Record::wire`], never an encoding field by
//! field.
//!
//! The mark says what the wire form does not. Everything else is read from there when it is wanted,
//! which costs a few instructions; a copy of it would cost every key its bytes. The end of a long
//! value is an allocation of its own where that wastes less memory: see [`head_len`].
//!
//! A tombstone is a record too. Its wire form is what a DELETE event shows: the key and the
//! revision of the delete. Its `create_revision` remembers the life it ended, which the checkpoint
//! needs to know when the tombstone itself may be forgotten; it lies behind the wire form.

use std::borrow::Cow;
use std::cell::RefCell;
use std::cmp::Ordering;

use bytes::BufMut;
use triomphe::{HeaderSlice, ThinArc};

/// One version of a key. Cloning copies a pointer.
///
/// The slice is a number, the mark, which is twice the position among the changes of its revision,
/// and one more for a tombstone; then the wire form; then what only a tombstone has. The header is
/// the end of the wire form, if that is kept apart.
#[derive(Clone)]
pub struct Record(ThinArc<Box<[u8]>, u8>);

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

/// Bytes behind the wire form of a tombstone: the create revision of the life that it ended.
const REMEMBERED: usize = size_of::<i64>();
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
        assert!(fields.create_revision >= 1 && fields.mod_revision >= 1, "revisions count from 1");
        Record::build(fields, fields.create_revision)
    }

    /// The mark that `key` was deleted at `mod_revision`, ending the life created at
    /// `create_revision`.
    pub fn tombstone(key: &[u8], mod_revision: i64, sub: u32, create_revision: i64) -> Record {
        let shown = Fields { key, value: b"", create_revision: 0, mod_revision, version: 0, lease: 0, sub };
        Record::build(shown, create_revision)
    }

    /// The same version without its value, as a keys-only range returns it. `lease` is given
    /// because etcd answers most keys-only ranges from its index, which does not know the lease.
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
        with_scratch(|slice| {
            put_varint(slice, mark_of(&fields));
            let wire_at = slice.len();
            put_bytes(slice, TAG_KEY, fields.key);
            put_int(slice, TAG_CREATE, fields.create_revision);
            put_int(slice, TAG_MOD, fields.mod_revision);
            put_int(slice, TAG_VERSION, fields.version);
            if fields.version == 0 {
                return Record::remembering(slice, create_revision);
            }
            let value_at = slice.len() - wire_at;
            put_bytes(slice, TAG_VALUE, fields.value);
            put_int(slice, TAG_LEASE, fields.lease);
            let head = head_len(wire_at, slice.len() - wire_at, value_at);
            let (slice, tail) = slice.split_at(wire_at + head);
            Record(ThinArc::from_header_and_slice(tail.into(), slice))
        })
    }

    /// As [`Record::build`], of a wire form that is there. `value_at` is where the field of the
    /// value starts or would.
    fn copy(wire: &[u8], value_at: usize, fields: &Fields<'_>, create_revision: i64) -> Record {
        with_scratch(|slice| {
            put_varint(slice, mark_of(fields));
            if fields.version == 0 {
                slice.extend_from_slice(wire);
                return Record::remembering(slice, create_revision);
            }
            let (head, tail) = wire.split_at(head_len(slice.len(), wire.len(), value_at));
            slice.extend_from_slice(head);
            Record(ThinArc::from_header_and_slice(tail.into(), slice))
        })
    }

    /// A tombstone of a mark and a wire form.
    fn remembering(slice: &mut Vec<u8>, create_revision: i64) -> Record {
        slice.put_i64_le(create_revision);
        Record(ThinArc::from_header_and_slice(Box::default(), slice))
    }

    /// Rebuilds a record from [`Record::wire`] bytes read back from a journal or a checkpoint.
    pub fn from_wire(wire: &[u8], sub: u32) -> Result<Record, BadRecord> {
        let (fields, value_at) = parse(wire)?;
        if u32::try_from(wire.len()).is_err() {
            return Err(BadRecord("longer than 4 GiB"));
        }
        Ok(Record::copy(wire, value_at, &Fields { sub, ..fields }, fields.create_revision))
    }

    /// The form in which checkpoints keep a record: what the wire form does not say, then the wire
    /// form.
    pub fn save(&self, out: &mut Vec<u8>) {
        out.put_u32_le(self.sub());
        out.put_i64_le(self.create_revision());
        out.put_u32_le(len_u32(self.wire_len()));
        self.wire().iter().for_each(|part| out.extend_from_slice(part));
    }

    /// Bytes that [`Record::save`] appends.
    pub fn saved_len(&self) -> usize {
        SAVED_HEAD + self.wire_len()
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
        let (fields, value_at) = parse(wire)?;
        let fields = Fields { sub, ..fields };
        if fields.version != 0 && fields.create_revision != create_revision {
            return Err(BadRecord("create revisions differ"));
        }
        Ok(Record::copy(wire, value_at, &fields, create_revision))
    }

    fn tail(&self) -> &[u8] {
        let inner: &HeaderSlice<_, [u8]> = &self.0;
        &inner.header.header
    }

    /// The mark, and what lies behind it.
    fn split_mark(&self) -> (u64, &[u8]) {
        let mut rest = &self.0.slice;
        let mark = read_varint(&mut rest);
        (mark, rest)
    }

    /// The wire form but for its tail.
    fn head(&self) -> &[u8] {
        match self.split_mark() {
            (mark, rest) if mark & 1 == 1 => &rest[..rest.len() - REMEMBERED],
            (_, rest) => rest,
        }
    }

    /// The encoded `mvccpb.KeyValue`, in two parts of which the second may be empty.
    pub fn wire(&self) -> [&[u8]; 2] {
        [self.head(), self.tail()]
    }

    pub fn wire_len(&self) -> usize {
        self.head().len() + self.tail().len()
    }

    /// The wire form up to the end of the key, which is what etcd keeps of a tombstone.
    pub fn wire_of_key(&self) -> &[u8] {
        let key = self.key();
        &self.split_mark().1[..1 + varint_len(key.len() as u64) + key.len()]
    }

    pub fn key(&self) -> &[u8] {
        self.split_key().0
    }

    /// The key, and what follows it.
    #[inline(always)]
    fn split_key(&self) -> (&[u8], &[u8]) {
        let slice = &self.0.slice;
        // Nearly always mark and length are a byte each.
        if let [mark, _, len, rest @ ..] = slice
            && mark & 0x80 == 0
            && len & 0x80 == 0
        {
            return rest.split_at(usize::from(*len));
        }
        let mut rest = &self.split_mark().1[1..];
        let len = read_varint(&mut rest) as usize;
        rest.split_at(len)
    }

    /// The value. It is copied if it is stored in two parts: for its length alone use
    /// [`Record::value_len`].
    pub fn value(&self) -> Cow<'_, [u8]> {
        let (len, head) = self.value_head();
        match head.get(..len) {
            Some(value) => Cow::Borrowed(value),
            None if head.is_empty() => Cow::Borrowed(&self.tail()[..len]),
            None => Cow::Owned([head, &self.tail()[..len - head.len()]].concat()),
        }
    }

    /// The value in the two pieces in which it lies, without copying it.
    fn value_parts(&self) -> [&[u8]; 2] {
        let (len, head) = self.value_head();
        match head.get(..len) {
            Some(value) => [value, &[]],
            None => [head, &self.tail()[..len - head.len()]],
        }
    }

    /// Compares values byte by byte; costs no more than the shorter of them.
    pub fn cmp_value(&self, other: &Record) -> Ordering {
        cmp_pieces(self.value_parts(), other.value_parts())
    }

    /// The same with bytes that are not of a record.
    pub fn cmp_value_to(&self, bytes: &[u8]) -> Ordering {
        cmp_pieces(self.value_parts(), [bytes, &[]])
    }

    pub fn value_len(&self) -> usize {
        self.value_head().0
    }

    /// Length of the value, and what lies in the head from its first byte on, or from where it
    /// would be.
    fn value_head(&self) -> (usize, &[u8]) {
        if self.is_tombstone() {
            return (0, &[]);
        }
        let (_, from) = self.split_version();
        match from.split_first() {
            Some((&TAG_VALUE, mut rest)) => {
                let len = read_varint(&mut rest) as usize;
                (len, rest)
            }
            _ => (0, from),
        }
    }

    /// The version of a living version and what follows it.
    fn split_version(&self) -> (i64, &[u8]) {
        let (_, mut rest) = self.split_key();
        skip_field(&mut rest);
        skip_field(&mut rest);
        (take_field(&mut rest), rest)
    }

    pub fn mod_revision(&self) -> i64 {
        let (_, mut rest) = self.split_key();
        // A tombstone shows no other number.
        if !self.is_tombstone() {
            skip_field(&mut rest);
        }
        take_field(&mut rest)
    }

    /// Revision of the create that began this life; for a tombstone, of the life it ended.
    pub fn create_revision(&self) -> i64 {
        match self.0.slice.last_chunk::<REMEMBERED>() {
            Some(remembered) if self.is_tombstone() => i64::from_le_bytes(*remembered),
            _ => take_field(&mut self.split_key().1),
        }
    }

    /// How many changes this life of the key has had; 0 for a tombstone.
    pub fn version(&self) -> i64 {
        if self.is_tombstone() { 0 } else { self.split_version().0 }
    }

    pub fn lease(&self) -> i64 {
        let (len, head) = self.value_head();
        // The only field behind the value. It is never torn: see `head_len`.
        let behind = head.get(len..).unwrap_or_else(|| &self.tail()[len - head.len()..]);
        behind.split_first().map_or(0, |(_, mut number)| read_varint(&mut number) as i64)
    }

    pub fn sub(&self) -> u32 {
        u32::try_from(self.split_mark().0 >> 1).expect("it was one when the mark was made")
    }

    pub fn is_tombstone(&self) -> bool {
        self.0.slice[0] & 1 == 1
    }

    /// Bytes of memory this version occupies, near enough for accounting.
    pub fn footprint(&self) -> usize {
        RECORD_HEAD + self.0.slice.len() + self.tail().len()
    }
}

impl std::fmt::Debug for Record {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let key = String::from_utf8_lossy(self.key());
        write!(f, "{key}@{}.{}", self.mod_revision(), self.sub())?;
        if self.is_tombstone() { write!(f, "!") } else { write!(f, "v{}", self.version()) }
    }
}

/// Compares two strings of bytes, each in two pieces.
fn cmp_pieces([a, a_rest]: [&[u8]; 2], [b, b_rest]: [&[u8]; 2]) -> Ordering {
    let shared = a.len().min(b.len());
    a[..shared].cmp(&b[..shared]).then_with(|| match a.len().cmp(&b.len()) {
        Ordering::Equal => a_rest.cmp(b_rest),
        Ordering::Less => {
            let b = &b[shared..];
            let shared = a_rest.len().min(b.len());
            a_rest[..shared].cmp(&b[..shared]).then_with(|| match shared == b.len() {
                true => a_rest[shared..].cmp(b_rest),
                false => Ordering::Less,
            })
        }
        Ordering::Greater => cmp_pieces([b, b_rest], [a, a_rest]).reverse(),
    })
}

/// Records are equal when they would look equal on the wire and sort at the same place.
impl PartialEq for Record {
    fn eq(&self, other: &Self) -> bool {
        self.tail() == other.tail() && self.0.slice == other.0.slice
    }
}

impl Eq for Record {}

fn mark_of(fields: &Fields<'_>) -> u64 {
    u64::from(fields.sub) << 1 | u64::from(fields.version == 0)
}

/// Memory that a thread keeps for the next record.
const SCRATCH: usize = 64 << 10;

/// Lends memory in which a record is put together: its size is not known before, and its own memory
/// is allocated once it is.
fn with_scratch(build: impl FnOnce(&mut Vec<u8>) -> Record) -> Record {
    thread_local!(static SPARE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) });
    SPARE.with_borrow_mut(|spare| {
        let record = build(spare);
        spare.clear();
        spare.shrink_to(SCRATCH);
        record
    })
}

fn len_u32(len: usize) -> u32 {
    u32::try_from(len).expect("requests are limited far below 4 GiB")
}

/// Wire forms shorter than this lie in one piece: a second allocation would cost a busy small key
/// more than it saves.
const SPLIT_FROM: usize = 1024;
/// Nor is one made that saves less than this.
const SPLIT_GAIN: usize = 64;

/// How many bytes of a wire form lie behind the mark, which has a length too; the others are the
/// tail.
///
/// Allocators hand out sizes in steps of up to a quarter of the size below, so that a record just
/// beyond a step wastes a fifth of its memory. With a tail of exactly such a size and a small head,
/// only the head wastes something. A tail holds nothing but the end of the value and all that
/// follows it, so key, revisions and version are always in the head.
fn head_len(mark: usize, wire: usize, value_at: usize) -> usize {
    if wire < SPLIT_FROM {
        return wire;
    }
    let tail = step_below(wire);
    let head = wire - tail;
    // Tag and length of the value are in the head, and the field behind it is not torn.
    let fits = head > value_at + varint_len(wire as u64) && tail >= LEASE_FIELD;
    let front = RECORD_HEAD + mark;
    let (whole, split) = (step_above(front + wire), tail + step_above(front + head));
    if fits && split + SPLIT_GAIN <= whole { head } else { wire }
}

/// Bytes in front of the mark in its allocation: the counter, where the tail is, the length.
const RECORD_HEAD: usize = 2 * size_of::<usize>() + size_of::<Box<[u8]>>();
/// The most that the field behind the value takes.
const LEASE_FIELD: usize = 1 + 10;

/// The smallest size the allocator hands out for `size` bytes.
fn step_above(size: usize) -> usize {
    size.next_multiple_of(step(size - 1))
}

/// The largest size the allocator hands out that is not above `size`.
fn step_below(size: usize) -> usize {
    size - size % step(size)
}

/// The distance between the sizes around `size`: a quarter of the power of two below it.
fn step(size: usize) -> usize {
    (1 << size.max(64).ilog2()) / 4
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

/// The highest bit of every byte of a word: set in all bytes of a number but its last.
const CONTINUED: u64 = 0x8080_8080_8080_8080;

/// The first eight bytes, if there are as many: most numbers are read from there at once.
#[inline(always)]
fn first_word(bytes: &[u8]) -> Option<u64> {
    bytes.first_chunk().map(|word| u64::from_le_bytes(*word))
}

/// Bytes of the number that `bytes` begins with, and the word that holds it, if one does.
#[inline(always)]
fn measure_varint(bytes: &[u8]) -> (usize, Option<u64>) {
    if let Some(word) = first_word(bytes)
        && !word & CONTINUED != 0
    {
        return ((!word & CONTINUED).trailing_zeros() as usize / 8 + 1, Some(word));
    }
    (1 + bytes.iter().take_while(|&&byte| byte >= 0x80).count(), None)
}

/// Reads a number of a wire form that was checked when its record was made.
#[inline(always)]
fn read_varint(rest: &mut &[u8]) -> u64 {
    let bytes = *rest;
    if bytes[0] < 0x80 {
        *rest = &bytes[1..];
        return u64::from(bytes[0]);
    }
    let (len, word) = measure_varint(bytes);
    *rest = &bytes[len..];
    match word {
        Some(word) => join_sevens(word & (u64::MAX >> (64 - 8 * len))),
        None => bytes[..len].iter().rev().fold(0, |value, byte| value << 7 | u64::from(byte & 0x7f)),
    }
}

/// The number of which each byte holds seven bits, the lowest first.
#[inline(always)]
fn join_sevens(word: u64) -> u64 {
    let pairs = (word & 0x007f_007f_007f_007f) | (word & 0x7f00_7f00_7f00_7f00) >> 1;
    let fours = (pairs & 0x0000_3fff_0000_3fff) | (pairs & 0x3fff_0000_3fff_0000) >> 2;
    (fours & 0x0fff_ffff) | (fours & 0x0fff_ffff_0000_0000) >> 4
}

/// Moves past a field that is a number.
#[inline(always)]
fn skip_field(rest: &mut &[u8]) {
    let number = &rest[1..];
    *rest = &number[measure_varint(number).0..];
}

/// Reads a field that is a number, as [`read_varint`] does.
#[inline(always)]
fn take_field(rest: &mut &[u8]) -> i64 {
    *rest = &rest[1..];
    read_varint(rest) as i64
}

/// Reads the canonical wire form: fields in order, each at most once, nothing unknown. Tells as
/// well where the field of the value starts or would.
fn parse(wire: &[u8]) -> Result<(Fields<'_>, usize), BadRecord> {
    let mut rest = wire;
    let mut last_tag = 0;
    let mut value_at = wire.len();
    let mut fields =
        Fields { key: b"", value: b"", create_revision: 0, mod_revision: 0, version: 0, lease: 0, sub: 0 };
    while let Some((&tag, after)) = rest.split_first() {
        if tag <= last_tag {
            return Err(BadRecord("fields out of order"));
        }
        if tag >= TAG_VALUE && last_tag < TAG_VALUE {
            value_at = wire.len() - rest.len();
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
    // The numbers are found again by their places: a living version has all of them.
    if fields.version > 0 && fields.create_revision <= 0 {
        return Err(BadRecord("a version without the revision of its creation"));
    }
    // A tombstone shows its key and its revision.
    let Fields { key, mod_revision, .. } = fields;
    let bare = Fields { key, value: b"", create_revision: 0, mod_revision, version: 0, lease: 0, sub: 0 };
    if fields.version == 0 && fields != bare {
        return Err(BadRecord("a tombstone with more than its key"));
    }
    Ok((fields, value_at))
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
        let back = Record::from_wire(&record.wire().concat(), 3).unwrap();
        assert_eq!(back, record);
        assert_eq!(back.key(), b"/registry/pods/a");
        assert_eq!(*back.value(), *b"value");
        assert_eq!((back.lease(), back.version()), (-1, 5));
    }

    #[test]
    fn numbers_of_every_length_are_read_wherever_they_end() {
        for number in
            (0..64).flat_map(|bits| [(1u64 << bits) - 1, 1 << bits, (1 << bits) + 1]).chain([u64::MAX])
        {
            for behind in 0..12 {
                let mut bytes = Vec::new();
                put_varint(&mut bytes, number);
                let len = bytes.len();
                bytes.extend(std::iter::repeat_n(0xff, behind));
                let mut rest = bytes.as_slice();
                assert_eq!((read_varint(&mut rest), rest.len()), (number, behind));
                assert_eq!((varint_len(number), measure_varint(&bytes).0), (len, len));
            }
        }
    }

    #[test]
    fn the_position_is_told_whatever_its_size() {
        for sub in [0, 1, 63, 64, 1 << 20, u32::MAX] {
            let living = Record::new(Fields { sub, ..sample() });
            let gone = Record::tombstone(b"gone", 1 << 40, sub, 1 << 39);
            assert_eq!((living.sub(), living.is_tombstone()), (sub, false));
            assert_eq!((living.create_revision(), living.mod_revision(), living.version()), (300, 70_000, 5));
            assert_eq!((gone.sub(), gone.is_tombstone(), gone.key()), (sub, true, &b"gone"[..]));
            assert_eq!((gone.create_revision(), gone.mod_revision(), gone.version()), (1 << 39, 1 << 40, 0));
            assert_eq!((gone.value_len(), gone.lease()), (0, 0));
        }
    }

    #[test]
    fn long_keys_and_empty_values_are_found_in_the_wire_form() {
        let key = vec![b'k'; 300];
        let record = Record::new(Fields { key: &key, value: b"", lease: 0, ..sample() });
        assert_eq!(record.key(), key);
        assert_eq!(*record.value(), *b"");
        assert_eq!(Record::from_wire(&record.wire().concat(), 3).unwrap(), record);
    }

    #[test]
    fn every_field_is_found_wherever_the_wire_form_is_cut() {
        let mut split = 0;
        for (key_len, lease, version) in [(1, 0, 1), (30, i64::MAX, 300), (200, -1, 1 << 40), (3000, 7, 5)] {
            let key = vec![b'k'; key_len];
            for value_len in (0..5000).step_by(7).chain([40_000, 1 << 20]) {
                let value: Vec<u8> = (0..value_len).map(|at| at as u8).collect();
                let fields =
                    Fields { key: &key, value: &value, lease, version, mod_revision: 1 << 41, ..sample() };
                let record = Record::new(fields);
                split += usize::from(!record.wire()[1].is_empty());
                assert_eq!((record.key(), &*record.value()), (&key[..], &value[..]));
                assert_eq!((record.lease(), record.version()), (lease, version));
                assert_eq!(
                    (record.value_len(), record.wire_len()),
                    (value_len, record.wire().concat().len())
                );
                assert_eq!(Record::from_wire(&record.wire().concat(), 3), Ok(record));
            }
        }
        assert!(split > 500, "{split}");
    }

    #[test]
    fn a_split_record_takes_what_the_allocator_hands_out_for_it() {
        assert_eq!(
            [1, 64, 65, 128, 129, 1024, 1025, 1281].map(step_above),
            [16, 64, 80, 128, 160, 1024, 1280, 1536]
        );
        assert_eq!([1023, 1024, 1279, 1280, 5000].map(step_below), [896, 1024, 1024, 1280, 4096]);
        // A key of 45 bytes with a value of 1 KiB: 96 and 1024 bytes instead of 1280.
        assert_eq!(RECORD_HEAD, 32);
        assert_eq!((head_len(1, 1084, 57), head_len(1, 1024 - 33, 57)), (60, 1024 - 33));
        assert_eq!(step_above(RECORD_HEAD + 1 + 60), 96);
    }

    #[test]
    fn a_tombstone_shows_key_and_revision_only() {
        let record = Record::tombstone(b"k", 9, 0, 4);
        assert!(record.is_tombstone());
        assert_eq!(record.wire().concat(), [0x0a, 1, b'k', 0x18, 9]);
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
        assert_eq!((record.value_len(), record.lease(), record.version()), (0, 0, 5));
    }

    #[test]
    fn damaged_wire_forms_are_refused() {
        let record = Record::new(sample());
        let wire = record.wire().concat();
        for cut in 0..wire.len() {
            // A cut between two fields can leave a shorter canonical record; anything else must be
            // refused.
            if let Ok(short) = Record::from_wire(&wire[..cut], 0) {
                assert_ne!(short, record);
            }
        }
        assert!(Record::from_wire(b"\x0a\x01k\x18\x02\x18\x02", 0).is_err());
        assert!(Record::from_wire(b"\x18\x02", 0).is_err());
        // A life that never began, and a deletion with a value.
        assert!(Record::from_wire(b"\x0a\x01k\x18\x02\x20\x01", 0).is_err());
        assert!(Record::from_wire(b"\x0a\x01k\x18\x02\x2a\x01v", 0).is_err());
    }
}
