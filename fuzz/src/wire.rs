//! Requests on the wire: what is decoded encodes to something that decodes to the same; and those
//! of the key-value service go all the way through translation, validation, evaluation and back
//! into wire form.

use std::fmt::Debug;

use prost::Message;

use crate::key_value;
use crate::messages::with_message;

/// The first byte says which message it is.
pub fn run(data: &[u8]) {
    let Some((&number, bytes)) = data.split_first() else { return };
    with_message!(number, round_trip(bytes));
    key_value::serve(number, bytes);
}

fn round_trip<M: Message + Default + PartialEq + Debug>(bytes: &[u8]) {
    let Ok(message) = M::decode(bytes) else { return };
    let encoded = message.encode_to_vec();
    assert_eq!(encoded.len(), message.encoded_len());
    assert!(encoded.len() <= bytes.len().max(16) * 2, "no message grows by being read");
    assert!(M::decode(&*encoded).expect("just encoded") == message, "{message:?}");
}
