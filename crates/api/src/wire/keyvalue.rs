//! The wire form of one key-value, made from its parts.

use bytes::BufMut;

use super::field::{bytes_len, int64_len, put_bytes, put_int64};

mod tag {
    pub(super) const KEY: u32 = 1;
    pub(super) const CREATE_REVISION: u32 = 2;
    pub(super) const MOD_REVISION: u32 = 3;
    pub(super) const VERSION: u32 = 4;
    pub(super) const VALUE: u32 = 5;
    pub(super) const LEASE: u32 = 6;
}

/// The parts of an `mvccpb.KeyValue`, borrowed for as long as it takes to encode them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyValue<'a> {
    pub key: &'a [u8],
    pub create_revision: i64,
    pub mod_revision: i64,
    pub version: i64,
    pub value: &'a [u8],
    pub lease: i64,
}

impl KeyValue<'_> {
    /// How many bytes [`encode`](Self::encode) will write.
    pub fn encoded_len(&self) -> usize {
        bytes_len(tag::KEY, self.key)
            + int64_len(tag::CREATE_REVISION, self.create_revision)
            + int64_len(tag::MOD_REVISION, self.mod_revision)
            + int64_len(tag::VERSION, self.version)
            + bytes_len(tag::VALUE, self.value)
            + int64_len(tag::LEASE, self.lease)
    }

    /// Writes the fields in the order of their tags.
    pub fn encode(&self, buf: &mut impl BufMut) {
        put_bytes(tag::KEY, self.key, buf);
        put_int64(tag::CREATE_REVISION, self.create_revision, buf);
        put_int64(tag::MOD_REVISION, self.mod_revision, buf);
        put_int64(tag::VERSION, self.version, buf);
        put_bytes(tag::VALUE, self.value, buf);
        put_int64(tag::LEASE, self.lease, buf);
    }

    /// The encoded form in a vector of exactly its size.
    pub fn encode_to_vec(&self) -> Vec<u8> {
        let mut buf = Vec::with_capacity(self.encoded_len());
        self.encode(&mut buf);
        buf
    }
}
