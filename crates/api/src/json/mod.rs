//! JSON bodies: protobuf's JSON mapping as etcd's gateway applies it.
//!
//! Written: the field names of the protobuf files, 64-bit integers as strings, bytes in base64, enums by name,
//! nothing that has its default value. Read: also camel-case names, integers as numbers, enums as numbers, bytes in
//! either base64 alphabet with or without padding, `null` for "not set"; unknown fields are skipped.
//!
//! Deliberately narrower than etcd: an enum value that has no meaning is refused, whether name or number. etcd's
//! gateway skips the name, so that a mistyped filter filters nothing, and passes the number on to be refused later.

mod tree;

#[cfg(test)]
mod tests;

use bytes::{Buf, BytesMut};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Deserializer, Error};

use tree::Tree;

/// Reads the message in a body. An empty body is the default message, and what follows the message is ignored.
pub fn from_slice<M: DeserializeOwned + Default>(body: &[u8]) -> Result<M, Error> {
    match Deserializer::from_slice(body).into_iter::<Tree>().next() {
        None => Ok(M::default()),
        Some(tree) => serde_json::from_value(tree?.0),
    }
}

/// Takes the next message off the front of a streamed body; `None` means that more bytes are needed.
pub fn take<M: DeserializeOwned>(buf: &mut BytesMut) -> Result<Option<M>, Error> {
    let mut trees = Deserializer::from_slice(buf).into_iter::<Tree>();
    match trees.next() {
        None => {
            // Only white space was there, and nothing will ever need it.
            buf.clear();
            Ok(None)
        }
        Some(Err(error)) if error.is_eof() => Ok(None),
        Some(tree) => {
            let Tree(value) = tree?;
            let taken = trees.byte_offset();
            buf.advance(taken);
            serde_json::from_value(value).map(Some)
        }
    }
}

/// The message as a body.
pub fn to_vec<M: Serialize>(message: &M) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(message)
}

/// The message as one line of a streamed answer.
pub fn to_stream_line<M: Serialize>(message: &M) -> Result<Vec<u8>, Error> {
    let mut line = b"{\"result\":".to_vec();
    serde_json::to_writer(&mut line, message)?;
    line.extend_from_slice(b"}\n");
    Ok(line)
}
