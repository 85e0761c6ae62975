//! Tail: what lies behind the last good record. A power loss leaves one of few pictures; anything
//! else is damage.
//!
//! At most one record is unsynced, its sectors were zero before, and a sector is written entirely
//! or not at all. So a torn write shows as: a zero sector where the header should be, perhaps with
//! loose sectors behind it; or an intact header with more zero sectors in its extent than were
//! written, and only zeros behind the extent.

use super::header::{self, Header, HeaderError, SECTOR};
use super::open_segment::OpenSegment;
use crate::contract::JournalError;

/// The judged end of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Tail {
    /// Only zeros behind the last record.
    Clean,
    /// A write that was never acknowledged left `from..to` behind; zeroing it completes what the
    /// power loss began.
    Torn { from: u64, to: u64, reason: String },
}

/// The sector where a record would begin is zero: nothing valid may lie behind it.
pub(super) fn judge_end(open: &mut OpenSegment, journal_id: Option<u64>) -> Result<Tail, JournalError> {
    let mut loose: Option<(u64, u64)> = None;
    let mut at = open.offset;
    while at < open.len {
        let sector = open.bytes(at, SECTOR as u64)?;
        if !header::is_zero(&sector) {
            refuse_record(open, at, &sector, journal_id)?;
            loose = Some((loose.map_or(at, |(from, _)| from), at + SECTOR as u64));
        }
        at += SECTOR as u64;
    }
    Ok(match loose {
        None => Tail::Clean,
        Some((from, to)) => {
            Tail::Torn { from, to, reason: "the first sector of the last write is missing".to_owned() }
        }
    })
}

fn refuse_record(
    open: &OpenSegment,
    at: u64,
    sector: &[u8],
    journal_id: Option<u64>,
) -> Result<(), JournalError> {
    // A client's value may look like a header. It cannot know the journal's id.
    let is_foreign = |found: u64| journal_id.is_some_and(|id| id != found);
    match Header::parse(sector) {
        Err(HeaderError::Invalid) => Ok(()),
        Ok(Header { journal_id, .. }) | Err(HeaderError::Version { journal_id, .. })
            if is_foreign(journal_id) =>
        {
            Ok(())
        }
        Err(HeaderError::Version { version, .. }) => Err(open.unsupported(at, version)),
        Ok(header) => {
            let hole = open.offset;
            let reason =
                format!("a hole: entry {} follows here, behind zeros from byte {hole} on", header.first_seq);
            Err(open.corrupt(at, reason))
        }
    }
}

/// The header at the current offset is intact but the payload is not what was written.
pub(super) fn judge_damaged_record(
    open: &mut OpenSegment,
    header: &Header,
    extent: &[u8],
    is_last_segment: bool,
) -> Result<Tail, JournalError> {
    let from = open.offset;
    let missing = header::zero_sectors(extent).saturating_sub(header.zero_sectors);
    if missing == 0 {
        return Err(open.corrupt(from, "the payload of a record does not match its checksum"));
    }
    let to = from + header.extent();
    let mut at = to;
    while at < open.len {
        let sector = open.bytes(at, SECTOR as u64)?;
        if !header::is_zero(&sector) {
            let reason = format!("a record has lost {missing} sectors, yet data follows at byte {at}");
            return Err(open.corrupt(from, reason));
        }
        at += SECTOR as u64;
    }
    if !is_last_segment {
        return Err(
            open.corrupt(from, format!("a record has lost {missing} sectors, yet another segment follows"))
        );
    }
    Ok(Tail::Torn { from, to, reason: format!("{missing} sectors of the last write are missing") })
}
