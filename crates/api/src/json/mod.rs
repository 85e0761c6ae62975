//! JSON bodies: protobuf's JSON mapping as etcd's gateway applies it.
//!
//! Written: the field names of the protobuf files, 64-bit integers as strings, bytes in base64,
//! enums by name, nothing that has its default value. Read: also camel-case names, integers as
//! numbers, enums as numbers, bytes in either base64 alphabet with or without padding, `null` for
//! "not set"; unknown fields are skipped.
//!
//! Deliberately narrower than etcd: an enum value that has no meaning is refused, whether name or
//! number. etcd's gateway skips the name, so that a mistyped filter filters nothing, and passes the
//! number on to be refused later.

mod split;
mod tree;

#[cfg(test)]
mod tests;

use bytes::{Buf, BytesMut};
use serde::Serialize;
use serde::de::{DeserializeOwned, Error as _};
use serde_json::{Deserializer, Error};

use split::Splitter;

/// Reads the message in a body. An empty body is the default message, and what follows the message
/// is ignored.
pub fn from_slice<M: DeserializeOwned + Default>(body: &[u8]) -> Result<M, Error> {
    if body.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')) {
        return Ok(M::default());
    }
    serde_json::from_value(tree::read(&mut Deserializer::from_slice(body))?)
}

/// A body that is a stream of messages and arrives in parts. Its cost does not depend on the parts.
#[derive(Debug, Default)]
pub struct Stream {
    buffer: BytesMut,
    splitter: Splitter,
}

impl Stream {
    pub fn push(&mut self, part: &[u8]) {
        self.buffer.extend_from_slice(part);
    }

    /// Bytes that arrived and were not consumed.
    pub fn len(&self) -> usize {
        self.buffer.len()
    }

    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Takes the next message; `None` means that more bytes are needed. After an error there is
    /// nothing to take.
    pub fn take<M: DeserializeOwned>(&mut self) -> Result<Option<M>, Error> {
        match self.splitter.find_end(&self.buffer).map_err(Error::custom)? {
            Some(end) => {
                let message = tree::read(&mut Deserializer::from_slice(&self.buffer[..end]))
                    .and_then(serde_json::from_value);
                self.buffer.advance(end);
                message.map(Some)
            }
            None => {
                if self.splitter.is_between_values() {
                    // There was only white space, which is not needed.
                    self.buffer.clear();
                    self.splitter.restart();
                }
                Ok(None)
            }
        }
    }
}

/// The message as a body.
pub fn to_vec<M: Serialize>(message: &M) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(message)
}

/// The message as one line of a streamed response.
pub fn to_stream_line<M: Serialize>(message: &M) -> Result<Vec<u8>, Error> {
    let mut line = b"{\"result\":".to_vec();
    serde_json::to_writer(&mut line, message)?;
    line.extend_from_slice(b"}\n");
    Ok(line)
}
