//! Watch responses, looked at without decoding the values, and the stamp by which an event tells
//! when it was to be written.

use std::time::{Duration, Instant};

use prost::bytes::Bytes;

use crate::scan::{self, Field, Malformed};

const MAGIC: &[u8; 8] = b"vtchbnch";
pub(crate) const STAMP: usize = 16;

/// Writes and reads times relative to one moment of this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamper {
    origin: Instant,
}

impl Stamper {
    pub(crate) fn new() -> Stamper {
        Stamper { origin: Instant::now() }
    }

    /// A value of this size that was to be written at that time.
    pub(crate) fn stamped(&self, intended: Instant, filler: &Bytes, size: usize) -> Bytes {
        let mut value = Vec::with_capacity(size.max(STAMP));
        value.extend_from_slice(MAGIC);
        let nanos = intended.saturating_duration_since(self.origin).as_nanos() as u64;
        value.extend_from_slice(&nanos.to_be_bytes());
        value.extend_from_slice(&filler[..size.saturating_sub(STAMP)]);
        Bytes::from(value)
    }

    /// When the value was to be written, if it was written by us.
    pub(crate) fn intended(&self, value: &[u8]) -> Option<Instant> {
        let nanos = value.strip_prefix(MAGIC)?.first_chunk()?;
        Some(self.origin + Duration::from_nanos(u64::from_be_bytes(*nanos)))
    }
}

/// A watch response without its events.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Response {
    pub(crate) revision: i64,
    pub(crate) watch_id: i64,
    pub(crate) created: bool,
    pub(crate) canceled: bool,
    pub(crate) events: usize,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Event<'a> {
    pub(crate) deleted: bool,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
    pub(crate) create_revision: i64,
    pub(crate) mod_revision: i64,
    pub(crate) has_previous: bool,
}

impl Event<'_> {
    /// Whatever is not a creation has a previous value.
    pub(crate) fn lacks_previous(&self) -> bool {
        let is_new = !self.deleted && self.create_revision == self.mod_revision;
        !is_new && !self.has_previous
    }
}

pub(crate) fn response(message: &[u8]) -> Result<Response, Malformed> {
    let mut response = Response::default();
    for field in scan::fields(message) {
        match field? {
            (1, Field::Bytes(header)) => response.revision = scan::number(header, 3)? as i64,
            (2, Field::Number(id)) => response.watch_id = id as i64,
            (3, Field::Number(flag)) => response.created = flag != 0,
            (4, Field::Number(flag)) => response.canceled = flag != 0,
            (11, Field::Bytes(_)) => response.events += 1,
            _ => {}
        }
    }
    Ok(response)
}

/// The events of a response, in order.
pub(crate) fn events(message: &[u8]) -> impl Iterator<Item = Result<Event<'_>, Malformed>> {
    scan::fields(message).filter_map(|field| match field {
        Ok((11, Field::Bytes(event))) => Some(one(event)),
        Ok(_) => None,
        Err(error) => Some(Err(error)),
    })
}

fn one(bytes: &[u8]) -> Result<Event<'_>, Malformed> {
    let mut event = Event::default();
    for field in scan::fields(bytes) {
        match field? {
            (1, Field::Number(kind)) => event.deleted = kind == 1,
            (2, Field::Bytes(kv)) => key_value(kv, &mut event)?,
            (3, Field::Bytes(_)) => event.has_previous = true,
            _ => {}
        }
    }
    Ok(event)
}

fn key_value<'a>(kv: &'a [u8], event: &mut Event<'a>) -> Result<(), Malformed> {
    for field in scan::fields(kv) {
        match field? {
            (1, Field::Bytes(key)) => event.key = key,
            (2, Field::Number(revision)) => event.create_revision = revision as i64,
            (3, Field::Number(revision)) => event.mod_revision = revision as i64,
            (5, Field::Bytes(value)) => event.value = value,
            _ => {}
        }
    }
    Ok(())
}
