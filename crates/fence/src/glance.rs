//! Glance: single looks at a log, in real time, by who is no member yet: a server that has to find
//! a checkpoint first, and tools. What is seen is what lies there; what of it counts, only a member
//! that has read everything knows.

use std::time::{Duration, Instant};

use bytes::Bytes;
use vetch_journal::{Position, Tip};

use crate::log::{Log, News, Page, Ticket};
use crate::record::{self, Record};
use crate::view::Index;

/// Beyond the end of every log: a read from there tells where the end is.
const BEYOND: Position = Position(1 << 62);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GlanceError {
    #[error("the journal gave no answer: {0}")]
    NoAnswer(String),
    #[error(
        "the journal is not empty, its last record is number {0}: name another stream, or remove this one if nothing in it is \
         needed"
    )]
    NotEmpty(u64),
    #[error("whether the journal took its first record is not known: {0}; look again")]
    Unknown(String),
}

/// Whether a log holds what a checkpoint says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Witness {
    /// The record that made the tip is there.
    Holds,
    /// Something else is there, or the log ends before.
    Differs,
    /// It was trimmed.
    Trimmed,
}

/// The first position that the log holds or will fill next, and its last.
pub fn end(log: &mut dyn Log, patience: Duration) -> Result<(Position, Position), GlanceError> {
    let page = ask(log, BEYOND, patience, |page| page.end.is_some())?;
    Ok((page.first, page.end.unwrap_or(Position(0))))
}

/// Whether the record that made `index` lies where it says.
pub fn witness(log: &mut dyn Log, index: &Index, patience: Duration) -> Result<Witness, GlanceError> {
    let (first, end) = end(log, patience)?;
    if first > index.position {
        return Ok(Witness::Trimmed);
    }
    if end < index.position {
        return Ok(Witness::Differs);
    }
    let at = index.position;
    let is_at = |record: &&(Position, Bytes)| record.0 == at;
    let page = ask(log, Position(at.0.saturating_sub(1)), patience, |page| {
        page.first > at || page.records.iter().any(|record| is_at(&record))
    })?;
    let found = page.records.iter().find(is_at);
    let print = found.and_then(|(_, bytes)| Record::decode(bytes).ok()).map(|record| record.print());
    Ok(match print {
        Some(print) if print == index.tip.hash => Witness::Holds,
        None if page.first > at => Witness::Trimmed,
        _ => Witness::Differs,
    })
}

/// Shows records behind `after`, and new ones as they come, until `look` has seen enough or the
/// time is over.
pub fn since(
    log: &mut dyn Log,
    after: Position,
    wait: Duration,
    mut look: impl FnMut(Position, &Bytes) -> bool,
) {
    let until = Instant::now() + wait;
    log.read(after);
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        if let Some(News::Records(page)) = log.next(left)
            && page.records.iter().any(|(at, bytes)| look(*at, bytes))
        {
            return;
        }
    }
}

/// Begins an empty log with a seed on `tip`, and returns what a checkpoint of that state must
/// remember. A log that has this very seed, and nothing else, has been begun already.
pub fn seed_log(log: &mut dyn Log, tip: Tip, patience: Duration) -> Result<Index, GlanceError> {
    let seed = record::seed(tip);
    let index = Index { position: Position(1), tip: *seed.after() };
    let (_, last) = end(log, patience)?;
    if last.0 == 0 {
        append_first(log, record::join(std::slice::from_ref(&seed)), patience)?;
    }
    // Read like everything else, whatever became of the append; the end may lag behind it for a
    // moment.
    let until = Instant::now() + patience;
    loop {
        let (_, last) = end(log, patience)?;
        match witness(log, &index, patience)? {
            Witness::Holds if last.0 == 1 => return Ok(index),
            _ if last.0 > 0 => return Err(GlanceError::NotEmpty(last.0)),
            _ if Instant::now() >= until => return Err(GlanceError::Unknown("it is still empty".into())),
            _ => std::thread::sleep(Duration::from_millis(50)),
        }
    }
}

fn append_first(log: &mut dyn Log, record: Bytes, patience: Duration) -> Result<(), GlanceError> {
    let ticket = Ticket(1);
    log.append(ticket, Position(0), record);
    let until = Instant::now() + patience;
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        match log.next(left) {
            Some(News::Appended { ticket: one, .. } | News::Refused { ticket: one, .. }) if one == ticket => {
                return Ok(());
            }
            Some(News::Full { .. }) => return Err(GlanceError::Unknown("the journal is full".into())),
            Some(News::Unknown { ticket: one, why }) if one == ticket => {
                return Err(GlanceError::Unknown(why));
            }
            _ => {}
        }
    }
    Err(GlanceError::Unknown("no answer in time".into()))
}

/// Reads behind `after` until a page is as wanted.
fn ask(
    log: &mut dyn Log,
    after: Position,
    patience: Duration,
    wanted: impl Fn(&Page) -> bool,
) -> Result<Page, GlanceError> {
    let until = Instant::now() + patience;
    let mut why = format!("nothing for {patience:?}");
    log.read(after);
    while let Some(left) = until.checked_duration_since(Instant::now()) {
        match log.next(left) {
            Some(News::Records(page)) if wanted(&page) => return Ok(page),
            Some(News::ReadFailed { why: failed }) => {
                why = failed;
                std::thread::sleep(Duration::from_millis(50).min(left));
                log.read(after);
            }
            Some(News::Reconnected) => log.read(after),
            _ => {}
        }
    }
    Err(GlanceError::NoAnswer(why))
}
