//! Tail: what lies behind the last good record. A power loss leaves one of few pictures; anything
//! else is damage.
//!
//! Only what the last write wrote is unsynced, or what the last cut zeroed; the sectors of a write
//! were zero before, and a sector is written entirely or not at all. A write is one record, or
//! several of one entry each. So a torn write shows as: a zero sector where a header should be,
//! perhaps with loose sectors behind it; or an intact header with more zero sectors in its extent
//! than were written. Behind a record that was written alone there are only zeros then.
//!
//! Of several records in one write any sectors may be missing, so intact records may follow a torn
//! one, and none of them was acknowledged. But a record behind a hole usually is the proof that the
//! hole was synced, and that acknowledged entries are lost. The headers tell the two apart: each
//! counts the records of its write before and behind it. A write begins after the one before it was
//! synced, so
//! * a record behind the torn one whose write began with the torn one, or before it, proves
//!   nothing: the torn one and all behind it are cut;
//! * a record whose write began behind the torn one proves that the torn one was synced: damage.
//!
//! No write but the last can look like the first case, because what was written later is behind it,
//! or replaced a part of it after a cut that was synced. What is accepted before the torn record
//! was written before it or with it, and is a beginning of what was given. A cut zeroes the records
//! of one write at a time, newest write first, and syncs: all it can leave behind are sectors of
//! one write that are zero, with zeros behind that write, the picture of a torn write.

use vetch_base::Seq;

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

/// The sector where the record of entry `missing` would begin is zero: nothing may lie behind it
/// that was written later.
pub(super) fn judge_end(
    open: &mut OpenSegment,
    journal_id: Option<u64>,
    missing: Seq,
) -> Result<Tail, JournalError> {
    let hole = open.offset;
    Ok(match remains(open, hole, hole, missing, journal_id)? {
        None => Tail::Clean,
        Some((from, to)) => {
            Tail::Torn { from, to, reason: "the first sector of the last write is missing".to_owned() }
        }
    })
}

/// What is not zero from `at` on: where it begins and ends. It may only be of the write that entry
/// `missing` belonged to, whose record is torn or missing at `hole`.
fn remains(
    open: &mut OpenSegment,
    mut at: u64,
    hole: u64,
    missing: Seq,
    journal_id: Option<u64>,
) -> Result<Option<(u64, u64)>, JournalError> {
    let mut found: Option<(u64, u64)> = None;
    while at < open.len {
        let sector = open.bytes(at, SECTOR as u64)?;
        if !header::is_zero(&sector) {
            refuse_later_write(open, at, &sector, hole, missing, journal_id)?;
            found = Some((found.map_or(at, |(from, _)| from), at + SECTOR as u64));
        }
        at += SECTOR as u64;
    }
    Ok(found)
}

fn refuse_later_write(
    open: &OpenSegment,
    at: u64,
    sector: &[u8],
    hole: u64,
    missing: Seq,
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
        Ok(header) if header.shares_write_with(missing) => Ok(()),
        Ok(header) => {
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
    let lost = format!("a record has lost {missing} sectors");
    let end = from + header.extent();
    // The record says itself whether others were written with it.
    if header.place.behind == 0
        && let Some(at) = first_data(open, end)?
    {
        return Err(open.corrupt(from, format!("{lost}, yet data follows at byte {at}")));
    }
    let behind = remains(open, end, from, header.first_seq, Some(header.journal_id))?;
    if !is_last_segment {
        return Err(open.corrupt(from, format!("{lost}, yet another segment follows")));
    }
    let to = behind.map_or(end, |(_, to)| to);
    Ok(Tail::Torn { from, to, reason: format!("{missing} sectors of the last write are missing") })
}

fn first_data(open: &mut OpenSegment, mut at: u64) -> Result<Option<u64>, JournalError> {
    while at < open.len {
        if !header::is_zero(&open.bytes(at, SECTOR as u64)?) {
            return Ok(Some(at));
        }
        at += SECTOR as u64;
    }
    Ok(None)
}
