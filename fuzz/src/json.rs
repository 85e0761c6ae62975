//! Bodies of the JSON gateway: what is read is written as something that reads as the same, in one
//! piece or streamed; and every message that can be written can be read.

use std::fmt::Debug;

use prost::Message;
use serde::Serialize;
use serde::de::DeserializeOwned;
use vetch_api::gateway;
use vetch_api::json::{Stream, from_slice, to_stream_line, to_vec};

use crate::messages::with_message;

/// The first byte says which message it is, and whether the rest is JSON or the protobuf form of
/// what is written.
pub fn run(data: &[u8]) {
    let Some((&number, bytes)) = data.split_first() else { return };
    if number < 128 {
        with_message!(number, read(bytes));
        gateway::route(&String::from_utf8_lossy(bytes));
    } else {
        with_message!(number - 128, write(bytes));
    }
}

fn read<M: Message + Default + PartialEq + Debug + Serialize + DeserializeOwned>(body: &[u8]) {
    let whole = from_slice::<M>(body);
    if let Ok(message) = &whole {
        check(message);
    }
    streamed(body, whole.ok());
}

/// Whatever arrives in parts is read as if it had arrived in one.
fn streamed<M: Message + PartialEq + Debug + DeserializeOwned>(body: &[u8], whole: Option<M>) {
    let all = drain::<M>(&[body]);
    let (front, back) = body.split_at(body.len() / 2);
    let parts = drain::<M>(&[front, back]);
    if let (Ok(all), Ok(parts)) = (&all, &parts) {
        assert!(all == parts, "{all:?} {parts:?}");
    }
    if let (Ok(all), Some(whole)) = (&all, &whole) {
        assert!(all.first().is_none_or(|first| first == whole), "{all:?} {whole:?}");
    }
}

fn drain<M: DeserializeOwned>(parts: &[&[u8]]) -> Result<Vec<M>, ()> {
    let (mut stream, mut found) = (Stream::default(), Vec::new());
    for part in parts {
        stream.push(part);
        while let Some(message) = stream.take::<M>().map_err(drop)? {
            found.push(message);
        }
    }
    Ok(found)
}

fn write<M: Message + Default + PartialEq + Debug + Serialize + DeserializeOwned>(bytes: &[u8]) {
    if let Ok(message) = M::decode(bytes) {
        check(&message);
    }
}

/// An enum number without a meaning has no name to be written as; nothing else stands in the way.
fn check<M: Message + Default + PartialEq + Debug + Serialize + DeserializeOwned>(message: &M) {
    let Ok(body) = to_vec(message) else { return };
    let again = from_slice::<M>(&body);
    assert!(again.as_ref().is_ok_and(|again| again == message), "{message:?} {again:?}");
    let line = to_stream_line(message).expect("it was written before");
    assert!(line.starts_with(b"{\"result\":") && line.ends_with(b"}\n"));
}
