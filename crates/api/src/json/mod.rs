//! JSON bodies: protobuf's JSON mapping as etcd's gateway applies it.
//!
//! Written: the field names of the protobuf files, 64-bit integers as strings, bytes in base64, enums by name,
//! nothing that has its default value. Read: also camel-case names, integers as numbers, enums as numbers, bytes in
//! either base64 alphabet with or without padding, `null` for "not set"; unknown fields are skipped.
//!
//! Deliberately narrower than the mapping allows: an enum number without a name is refused, and so is an integer
//! written with a fraction or an exponent.

#[cfg(test)]
mod tests;

use bytes::{Buf, BytesMut};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Deserializer, Error, Value};

/// Reads the message in a body. An empty body is the default message, and what follows the message is ignored.
pub fn from_slice<M: DeserializeOwned + Default>(body: &[u8]) -> Result<M, Error> {
    match Deserializer::from_slice(body).into_iter::<Value>().next() {
        None => Ok(M::default()),
        Some(value) => from_value(value?),
    }
}

/// Takes the next message off the front of a streamed body; `None` means that more bytes are needed.
pub fn take<M: DeserializeOwned>(buf: &mut BytesMut) -> Result<Option<M>, Error> {
    let mut values = Deserializer::from_slice(buf).into_iter::<Value>();
    match values.next() {
        None => {
            // Only white space was there, and nothing will ever need it.
            buf.clear();
            Ok(None)
        }
        Some(Err(error)) if error.is_eof() => Ok(None),
        Some(value) => {
            let value = value?;
            let taken = values.byte_offset();
            buf.advance(taken);
            from_value(value).map(Some)
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

fn from_value<M: DeserializeOwned>(mut value: Value) -> Result<M, Error> {
    drop_nulls(&mut value);
    serde_json::from_value(value)
}

/// A field that is `null` is a field that is not set. The parser allowed a bounded depth only, so recursion is safe.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}
