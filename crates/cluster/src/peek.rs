//! Peek: single reads of a log in real time, before there is a replica: for a server that has to
//! find a checkpoint first, and for tools. They show what is stored; which of it is committed only
//! a replica knows that has read everything.
#![expect(clippy::disallowed_methods, reason = "runs a replica in real time")]

use std::time::{Duration, Instant};

use bytes::Bytes;
use vetch_journal::{Position, Tip};

use crate::core::{LogIndex, Record, join, seed};
use crate::log::{Log, LogEvent, Page, Ticket};

/// Beyond the end of every log: a read from there returns where the end is.
const BEYOND_END: Position = Position(1 << 62);
const RETRY_DELAY: Duration = Duration::from_millis(50);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeekError {
    #[error("the journal gave no answer: {0}")]
    NoAnswer(String),
    #[error(
        "the journal is not empty, its last record is number {0}: name another stream, or remove this one if nothing in it is \
         needed"
    )]
    NotEmpty(u64),
    #[error("whether the journal took its first record is not known: {0}; try again")]
    Unknown(String),
}

/// Whether a log holds the record that made the tip of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointMatch {
    /// The record is there.
    Matches,
    /// Another record is there, or the log ends before.
    Differs,
    /// It was trimmed.
    Trimmed,
}

/// The first position that the log holds or will fill next, and its last.
pub fn bounds(log: &mut dyn Log, timeout: Duration) -> Result<(Position, Position), PeekError> {
    let page = read_until(log, BEYOND_END, timeout, |page| page.end.is_some())?;
    Ok((page.first, page.end.unwrap_or(Position(0))))
}

/// Whether the record that made `index` lies at its position.
pub fn match_checkpoint(
    log: &mut dyn Log,
    index: &LogIndex,
    timeout: Duration,
) -> Result<CheckpointMatch, PeekError> {
    let (first, end) = bounds(log, timeout)?;
    if first > index.position {
        return Ok(CheckpointMatch::Trimmed);
    }
    if end < index.position {
        return Ok(CheckpointMatch::Differs);
    }
    let at = index.position;
    let is_at = |record: &&(Position, Bytes)| record.0 == at;
    let page = read_until(log, Position(at.0.saturating_sub(1)), timeout, |page| {
        page.first > at || page.records.iter().any(|record| is_at(&record))
    })?;
    let found = page.records.iter().find(is_at);
    let hash = found.and_then(|(_, bytes)| Record::decode(bytes).ok()).map(|record| record.last_hash());
    Ok(match hash {
        Some(hash) if hash == index.tip.hash => CheckpointMatch::Matches,
        None if page.first > at => CheckpointMatch::Trimmed,
        _ => CheckpointMatch::Differs,
    })
}

/// Calls `visit` with the records behind `after`, and with new ones as they are pushed, until it
/// returns true or the time is over.
pub fn scan_after(
    log: &mut dyn Log,
    after: Position,
    timeout: Duration,
    mut visit: impl FnMut(Position, &Bytes) -> bool,
) {
    let until = Instant::now() + timeout;
    log.read(after);
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        if let Some(LogEvent::Records(page)) = log.next(left)
            && page.records.iter().any(|(at, bytes)| visit(*at, bytes))
        {
            return;
        }
    }
}

/// Begins an empty log with a seed on `tip`, and returns what a checkpoint of that state must
/// remember. A log that holds this very seed and nothing else is accepted: it was seeded before.
pub fn seed_log(log: &mut dyn Log, tip: Tip, timeout: Duration) -> Result<LogIndex, PeekError> {
    let seed = seed(tip);
    let index = LogIndex { position: Position(1), tip: *seed.after() };
    let (_, last) = bounds(log, timeout)?;
    if last.0 == 0 {
        append_first(log, join(std::slice::from_ref(&seed)), timeout)?;
    }
    // Whatever the outcome of the append was, only reading decides. The end may lag behind the
    // append for a moment.
    let until = Instant::now() + timeout;
    loop {
        let (_, last) = bounds(log, timeout)?;
        match match_checkpoint(log, &index, timeout)? {
            CheckpointMatch::Matches if last.0 == 1 => return Ok(index),
            _ if last.0 > 0 => return Err(PeekError::NotEmpty(last.0)),
            _ if Instant::now() >= until => return Err(PeekError::Unknown("it is still empty".into())),
            _ => std::thread::sleep(RETRY_DELAY),
        }
    }
}

fn append_first(log: &mut dyn Log, record: Bytes, timeout: Duration) -> Result<(), PeekError> {
    let own = Ticket(1);
    log.append(own, Position(0), record);
    let until = Instant::now() + timeout;
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        match log.next(left) {
            Some(LogEvent::Appended { ticket, .. } | LogEvent::Refused { ticket, .. }) if ticket == own => {
                return Ok(());
            }
            Some(LogEvent::Full { .. }) => return Err(PeekError::Unknown("the journal is full".into())),
            Some(LogEvent::Unknown { ticket, why }) if ticket == own => {
                return Err(PeekError::Unknown(why));
            }
            _ => {}
        }
    }
    Err(PeekError::Unknown("no answer in time".into()))
}

/// Reads behind `after` until a page is as wanted. A failed read is repeated.
fn read_until(
    log: &mut dyn Log,
    after: Position,
    timeout: Duration,
    is_wanted: impl Fn(&Page) -> bool,
) -> Result<Page, PeekError> {
    let until = Instant::now() + timeout;
    let mut last_failure = format!("nothing for {timeout:?}");
    log.read(after);
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        match log.next(left) {
            Some(LogEvent::Records(page)) if is_wanted(&page) => return Ok(page),
            Some(LogEvent::ReadFailed { why }) => {
                last_failure = why;
                std::thread::sleep(RETRY_DELAY.min(left));
                log.read(after);
            }
            Some(LogEvent::Reconnected) => log.read(after),
            _ => {}
        }
    }
    Err(PeekError::NoAnswer(last_failure))
}
