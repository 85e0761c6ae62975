//! Responses that carry key-values in the form they already have on the wire.
//!
//! A stored version is encoded once, when it is written. Every response and every event with it
//! copies those bytes. The types here are byte for byte what the generated ones of the same name
//! would encode to, but where those hold a `KeyValue` these hold any [`WireKv`], so this crate need
//! not know the store.
//!
//! They can only be encoded, not decoded. Callers that need the fields (the JSON gateway, tests)
//! turn one into its generated twin with [`WireMessage::to_typed`].
//!
//! Lengths: protobuf writes the length of a nested message before it, and computing lengths
//! top-down again at each level would make a deep transaction quadratic. A [`ResponseOp`] therefore
//! computes its length once, when it is made; all other levels nest to a small fixed depth.

mod event;
mod field;
mod keyvalue;
mod kv;
mod pieces;
mod txn;

#[cfg(test)]
pub(crate) mod tests;

use bytes::BufMut;

pub use event::{Event, WatchResponse};
pub use keyvalue::KeyValue;
pub use kv::{DeleteRangeResponse, PutResponse, RangeResponse, RangeStreamResponse};
pub use pieces::{LayOut, Pieces};
pub use txn::{OpResponse, ResponseOp, TxnResponse};

/// A value with the encoded form of an `mvccpb.KeyValue`.
///
/// The bytes must not change while the value is shared: they are measured first and copied
/// afterwards.
pub trait WireKv: Clone + Send + Sync + 'static {
    /// The encoded `mvccpb.KeyValue`, without tag and length: these parts one after the other.
    fn wire(&self) -> [&[u8]; 2];

    /// How many bytes that is.
    fn wire_len(&self) -> usize {
        self.wire().iter().map(|part| part.len()).sum()
    }
}

impl WireKv for bytes::Bytes {
    fn wire(&self) -> [&[u8]; 2] {
        [self, &[]]
    }
}

/// A message that encodes itself, and the generated message that is its twin.
pub trait WireMessage: Send + 'static {
    /// The generated message that decodes what this one encodes.
    type Typed: prost::Message + Default;

    /// How many bytes [`encode`](Self::encode) will write.
    fn encoded_len(&self) -> usize;

    /// Writes the message. The buffer grows as needed; reserve [`encoded_len`](Self::encoded_len)
    /// to grow it once.
    fn encode(&self, buf: &mut impl BufMut);

    /// The encoded message in a vector of its own.
    fn encode_to_vec(&self) -> Vec<u8> {
        let mut buf = Vec::with_capacity(self.encoded_len());
        self.encode(&mut buf);
        assert_eq!(buf.len(), self.encoded_len(), "a message must be as long as it says");
        buf
    }

    /// The generated twin. This decodes the whole message, so it does not belong on a hot path.
    fn to_typed(&self) -> Result<Self::Typed, prost::DecodeError> {
        prost::Message::decode(self.encode_to_vec().as_slice())
    }
}
