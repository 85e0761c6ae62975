//! Reads single fields of encoded protobuf messages, without decoding the rest.
//!
//! Hundreds of thousands of responses arrive every second, and only a field or two of each is
//! checked. A message that is not well formed is an error, never skipped.

use crate::failure::WrongAnswer;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message, in order.
#[derive(Clone, Copy)]
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the response is not a well-formed message")]
pub(crate) struct Malformed;

impl From<Malformed> for WrongAnswer {
    fn from(_: Malformed) -> WrongAnswer {
        WrongAnswer::Malformed
    }
}

pub(crate) fn fields(message: &[u8]) -> Fields<'_> {
    Fields { rest: message }
}

/// The last number of that field; 0 if there is none.
pub(crate) fn number(message: &[u8], name: u32) -> Result<u64, Malformed> {
    let mut found = 0;
    for field in fields(message) {
        if let (field, Field::Number(number)) = field?
            && field == name
        {
            found = number;
        }
    }
    Ok(found)
}

/// The last bytes of that field.
pub(crate) fn bytes(message: &[u8], name: u32) -> Result<Option<&[u8]>, Malformed> {
    let mut found = None;
    for field in fields(message) {
        if let (field, Field::Bytes(bytes)) = field?
            && field == name
        {
            found = Some(bytes);
        }
    }
    Ok(found)
}

/// The revision in the header of any answer.
pub(crate) fn revision(answer: &[u8]) -> Result<i64, Malformed> {
    let header = bytes(answer, 1)?.ok_or(Malformed)?;
    Ok(number(header, 3)? as i64)
}

impl<'a> Fields<'a> {
    fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.rest.split_first().ok_or(Malformed)?;
            self.rest = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Malformed)
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], Malformed> {
        let length = usize::try_from(length).map_err(|_| Malformed)?;
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Malformed)?;
        self.rest = rest;
        Ok(taken)
    }

    fn read(&mut self) -> Result<(u32, Field<'a>), Malformed> {
        let key = self.varint()?;
        let field = match key & 7 {
            0 => Field::Number(self.varint()?),
            1 => Field::Bytes(self.take(8)?),
            2 => {
                let length = self.varint()?;
                Field::Bytes(self.take(length)?)
            }
            5 => Field::Bytes(self.take(4)?),
            _ => return Err(Malformed),
        };
        Ok((u32::try_from(key >> 3).map_err(|_| Malformed)?, field))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Field<'a>), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let read = self.read();
        if read.is_err() {
            self.rest = &[];
        }
        Some(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message;
    use vetch_api::pb;

    #[test]
    fn fields_are_found_where_the_encoder_put_them() {
        let header = pb::ResponseHeader { revision: 77, ..Default::default() };
        let answer = pb::TxnResponse { header: Some(header), succeeded: true, responses: Vec::new() };
        let bytes = answer.encode_to_vec();
        assert_eq!(revision(&bytes), Ok(77));
        assert_eq!(number(&bytes, 2), Ok(1));
        assert_eq!(number(&bytes, 9), Ok(0));
    }

    #[test]
    fn a_message_that_is_cut_short_is_refused() {
        let header = pb::ResponseHeader { revision: 77, ..Default::default() };
        let bytes = pb::PutResponse { header: Some(header), prev_kv: None }.encode_to_vec();
        for length in 1..bytes.len() {
            assert_eq!(revision(&bytes[..length]), Err(Malformed), "{length}");
        }
    }
}
