//! Limits: what a transaction may cost, and what a record counts for in an answer. `work` and
//! `range` count against them.

use crate::error::StoreError;
use crate::record::Record;
use crate::request::RangeRequest;

/// What the operations of one transaction may cost together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TxnLimits {
    /// Keys examined, beside four times all keys of the store. One that is to be sorted counts
    /// eight times, and a kilobyte of a value that is compared counts as a key.
    pub keys: u64,
    /// Bytes of all ranges' answers, if there is more than one range. A record counts as 64 bytes
    /// at least.
    pub bytes: u64,
}

impl Default for TxnLimits {
    fn default() -> TxnLimits {
        TxnLimits { keys: 256 << 10, bytes: 256 << 20 }
    }
}

/// What a record in an answer takes, however short it is.
pub(crate) const RECORD_MIN: u64 = 64;
/// What a record without its value takes beside its key: it is made for the answer.
const KEYS_ONLY: u64 = 128;

/// The bytes that a transaction's ranges may still answer, if that is to be counted while they are
/// read.
#[derive(Debug, Clone, Copy)]
pub struct AnswerBytes(Option<u64>);

impl AnswerBytes {
    /// For a range that stands alone, or that was counted before.
    pub fn unlimited() -> AnswerBytes {
        AnswerBytes(None)
    }

    pub(crate) fn limited(bytes: u64) -> AnswerBytes {
        AnswerBytes(Some(bytes))
    }

    pub(crate) fn is_limited(self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn take(&mut self, bytes: u64) -> Result<(), StoreError> {
        if let Some(left) = &mut self.0 {
            *left = left.checked_sub(bytes).ok_or(StoreError::RequestTooLarge)?;
        }
        Ok(())
    }
}

/// What a record takes in the answer to a range.
pub(crate) fn answer_bytes(request: &RangeRequest, record: &Record) -> u64 {
    if request.keys_only {
        KEYS_ONLY + record.key().len() as u64
    } else {
        RECORD_MIN.max(record.wire_len() as u64)
    }
}
