//! What a watcher asks for: a key range and two filters.
//!
//! The rules are etcd's: an empty key means the smallest key `\0`; an empty range end means the
//! single key; the range end `\0` means every key from `key` on; anything else is the half-open
//! span `[key, range_end)`, which must not be empty. A span that holds exactly one possible key is
//! stored as that key, so that it is matched by hash.

use crate::log_event::LogEvent;

#[cfg(test)]
mod tests;

/// The span is empty: `key >= range_end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("mvcc: watcher range is empty")]
pub struct EmptyRange;

/// A set of keys, in one of the three shapes a request can describe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyRange {
    /// One key.
    Key(Box<[u8]>),
    /// Keys from `start` up to but not including `end`; no end means every key from `start` on.
    Span {
        /// First key of the span.
        start: Box<[u8]>,
        /// First key behind the span.
        end: Option<Box<[u8]>>,
    },
}

impl KeyRange {
    /// Reads the two byte strings of a request.
    pub fn new(key: &[u8], range_end: &[u8]) -> Result<KeyRange, EmptyRange> {
        let key = if key.is_empty() { b"\0" } else { key };
        match range_end {
            b"" => Ok(KeyRange::Key(key.into())),
            b"\0" => Ok(KeyRange::Span { start: key.into(), end: None }),
            end if key >= end => Err(EmptyRange),
            end if is_successor(key, end) => Ok(KeyRange::Key(key.into())),
            end => Ok(KeyRange::Span { start: key.into(), end: Some(end.into()) }),
        }
    }

    /// The first key.
    pub(crate) fn start(&self) -> &[u8] {
        match self {
            KeyRange::Key(key) | KeyRange::Span { start: key, .. } => key,
        }
    }

    /// True if `key` is in the range.
    pub fn contains(&self, key: &[u8]) -> bool {
        match self {
            KeyRange::Key(own) => own.as_ref() == key,
            KeyRange::Span { start, end } => {
                start.as_ref() <= key && end.as_ref().is_none_or(|end| key < end.as_ref())
            }
        }
    }
}

/// True if `end` is the very next key after `key`, so that nothing fits between them.
fn is_successor(key: &[u8], end: &[u8]) -> bool {
    end.strip_prefix(key) == Some(b"\0")
}

/// Kinds of events a watcher does not want.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Filters {
    /// Drop puts.
    pub no_put: bool,
    /// Drop deletions.
    pub no_delete: bool,
}

impl Filters {
    /// True if an event of this kind is wanted.
    pub fn admit<E: LogEvent>(self, event: &E) -> bool {
        if event.is_delete() { !self.no_delete } else { !self.no_put }
    }

    /// True if nothing is filtered.
    pub fn is_open(self) -> bool {
        !self.no_put && !self.no_delete
    }
}
