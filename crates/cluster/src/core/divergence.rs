//! Divergence: what an honest log cannot show. A replica that reads it halts and reports it; it
//! never guesses which history is right.

use vetch_base::{Epoch, Seq};
use vetch_journal::{ChainError, Position, Tip};

use super::record::RecordError;

/// Why a server may not follow the log any further.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Divergence {
    /// This position holds another record than the one that was read or appended here.
    #[error("position {at} of the log holds another record than the one that was there before")]
    Overwritten { at: u64 },
    /// A leader built on entries that this server did not see at earlier positions.
    #[error(
        "position {at} of the log builds on entry {builds_on} of epoch {epoch}, but the log before it ends with \
             entry {tip} of epoch {tip_epoch}: the log lost acknowledged entries, or this server read another one"
    )]
    Missing { at: u64, epoch: Epoch, builds_on: Seq, tip: Seq, tip_epoch: Epoch },
    /// Two histories: the same sequence number, but another entry.
    #[error(
        "position {at} of the log does not continue what this server holds: {why}. The log has two histories"
    )]
    Forked { at: u64, why: String },
    /// Bytes that no leader of this version writes.
    #[error("position {at} of the log is damaged or was written by a newer version: {why}")]
    Damaged { at: u64, why: RecordError },
    /// The log begins behind a checkpoint that this server does not have.
    #[error("the log goes on, from position {at}, behind a checkpoint that this server does not have")]
    Seeded { at: u64 },
    /// A reserved kind of entry or payload, which this version must not skip.
    #[error("position {at} of the log holds {what}, which this version cannot act on; use a newer version")]
    NotSupported { at: u64, what: String },
}

impl Divergence {
    pub(crate) fn missing(at: Position, epoch: Epoch, seq: Seq, tip: &Tip) -> Divergence {
        let builds_on = seq.prev_or_zero();
        Divergence::Missing { at: at.0, epoch, builds_on, tip: tip.seq, tip_epoch: tip.epoch }
    }

    pub(crate) fn forked(at: Position, why: impl Into<String>) -> Divergence {
        Divergence::Forked { at: at.0, why: why.into() }
    }

    pub(crate) fn chain(at: Position, error: &ChainError) -> Divergence {
        Divergence::forked(at, error.to_string())
    }
}
