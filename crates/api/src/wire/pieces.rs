//! A response that is encoded piece by piece.
//!
//! A list of a million keys is a million pointers; encoded, it would be a gigabyte held until the
//! client has read it. [`Pieces`] keeps the pointers and encodes as much as the client has room
//! for. The few bytes between the key-values are encoded first.

use std::collections::VecDeque;
use std::vec;

use bytes::{BufMut, Bytes, BytesMut};

use super::field::{put_kv, put_part_head};
use super::{WireKv, WireMessage};

/// A response that can be taken apart into [`Pieces`].
pub trait LayOut<K>: WireMessage {
    /// Appends what [`WireMessage::encode`] would write.
    fn lay_out(self, out: &mut Pieces<K>);
}

/// The rest of an encoded response.
#[derive(Debug)]
pub struct Pieces<K> {
    segments: VecDeque<Segment<K>>,
    /// A key-value that was encoded in part.
    begun: Option<Begun<K>>,
    remaining: usize,
}

#[derive(Debug)]
enum Segment<K> {
    Bytes {
        bytes: Vec<u8>,
        /// How many of them were returned.
        given: usize,
    },
    /// Key-values under one tag.
    Kvs { tag: u32, kvs: vec::IntoIter<K> },
}

#[derive(Debug)]
struct Begun<K> {
    /// Tag and length.
    head: Vec<u8>,
    kv: K,
    /// Bytes of head and key-value that were returned.
    given: usize,
}

impl<K: WireKv> Pieces<K> {
    /// `prefix` and then the encoded `message`.
    pub fn new(prefix: &[u8], message: impl LayOut<K>) -> Pieces<K> {
        let remaining = prefix.len() + message.encoded_len();
        let mut pieces = Pieces { segments: VecDeque::new(), begun: None, remaining };
        pieces.bytes().extend_from_slice(prefix);
        message.lay_out(&mut pieces);
        pieces
    }

    /// Bytes that are still to come.
    pub fn remaining(&self) -> usize {
        self.remaining
    }

    /// Bytes of memory that this takes, without the key-values themselves.
    pub fn held(&self) -> usize {
        let of = |segment: &Segment<K>| match segment {
            Segment::Bytes { bytes, .. } => bytes.capacity(),
            Segment::Kvs { kvs, .. } => kvs.len() * size_of::<K>(),
        };
        self.segments.iter().map(of).sum()
    }

    /// The next `max` bytes, or all that remain.
    pub fn next(&mut self, max: usize) -> Bytes {
        let len = max.min(self.remaining);
        let mut out = BytesMut::with_capacity(len);
        while out.len() < len {
            self.fill(&mut out, len);
        }
        self.remaining -= out.len();
        out.freeze()
    }

    /// Appends to `out`, up to a length of `len` bytes.
    fn fill(&mut self, out: &mut BytesMut, len: usize) {
        if let Some(begun) = &mut self.begun {
            if begun.give(out, len) {
                self.begun = None;
            }
            return;
        }
        let segment = self.segments.front_mut().expect("a response is as long as it says");
        match segment {
            Segment::Bytes { bytes, given } => {
                let rest = &bytes[*given..];
                let taken = &rest[..rest.len().min(len - out.len())];
                out.put_slice(taken);
                *given += taken.len();
                if *given == bytes.len() {
                    self.segments.pop_front();
                }
            }
            Segment::Kvs { tag, kvs } => {
                let Some(kv) = kvs.next() else {
                    self.segments.pop_front();
                    return;
                };
                if kv.wire_len() + HEAD_MAX <= len - out.len() {
                    put_kv(*tag, &kv, out);
                } else {
                    self.begun = Some(Begun::new(*tag, kv));
                }
            }
        }
    }

    /// The buffer for bytes between key-values.
    pub(super) fn bytes(&mut self) -> &mut Vec<u8> {
        if !matches!(self.segments.back(), Some(Segment::Bytes { .. })) {
            self.segments.push_back(Segment::Bytes { bytes: Vec::new(), given: 0 });
        }
        match self.segments.back_mut() {
            Some(Segment::Bytes { bytes, .. }) => bytes,
            _ => unreachable!("it was just put there"),
        }
    }

    pub(super) fn kvs(&mut self, tag: u32, kvs: Vec<K>) {
        if !kvs.is_empty() {
            self.segments.push_back(Segment::Kvs { tag, kvs: kvs.into_iter() });
        }
    }
}

/// Tag and length of a key-value take no more.
const HEAD_MAX: usize = 16;

impl<K: WireKv> Begun<K> {
    fn new(tag: u32, kv: K) -> Begun<K> {
        let mut head = Vec::with_capacity(HEAD_MAX);
        put_part_head(tag, kv.wire_len(), &mut head);
        Begun { head, kv, given: 0 }
    }

    /// Adds to `out`, to at most `len` bytes in all. True: that was the last of it.
    fn give(&mut self, out: &mut BytesMut, len: usize) -> bool {
        let [first, second] = self.kv.wire();
        let mut skip = self.given;
        for part in [&self.head[..], first, second] {
            let rest = &part[skip.min(part.len())..];
            skip = skip.saturating_sub(part.len());
            let taken = &rest[..rest.len().min(len - out.len())];
            out.put_slice(taken);
            self.given += taken.len();
        }
        self.given == self.head.len() + first.len() + second.len()
    }
}
