//! Payload: taking numbers and bytes off the front of a journal payload, and what is wrong with one
//! that does not decode.

use crate::record::BadRecord;

/// A payload that is not a sequence of commands that fits the state before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadCommand {
    #[error("command cut short")]
    Short,
    #[error("unknown command: tag={0}")]
    UnknownTag(u8),
    #[error("trailing bytes in command: tag={0}")]
    Trailing(u8),
    #[error(transparent)]
    Record(#[from] BadRecord),
    #[error("command does not fit the state: {0}")]
    Misfit(&'static str),
}

pub(crate) fn take<'a>(bytes: &mut &'a [u8], len: usize) -> Result<&'a [u8], BadCommand> {
    let (taken, rest) = bytes.split_at_checked(len).ok_or(BadCommand::Short)?;
    *bytes = rest;
    Ok(taken)
}

pub(crate) fn take_u8(bytes: &mut &[u8]) -> Result<u8, BadCommand> {
    Ok(take(bytes, 1)?[0])
}

pub(crate) fn take_u32(bytes: &mut &[u8]) -> Result<u32, BadCommand> {
    Ok(u32::from_le_bytes(take(bytes, 4)?.try_into().expect("four bytes were taken")))
}

pub(crate) fn take_i64(bytes: &mut &[u8]) -> Result<i64, BadCommand> {
    Ok(i64::from_le_bytes(take(bytes, 8)?.try_into().expect("eight bytes were taken")))
}
