//! Header fields, and the two tables that hold those which are sent by index.

use std::collections::VecDeque;
use std::sync::LazyLock;

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};

use super::fixed::STATIC;

/// What a field is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Name {
    Method,
    Scheme,
    Authority,
    Path,
    /// Only in responses.
    Status,
    Header(HeaderName),
    /// Capitals, an unknown pseudo-header, bytes that are no name.
    Malformed,
}

impl Name {
    fn parse(name: &[u8]) -> Name {
        match name {
            b":method" => Name::Method,
            b":scheme" => Name::Scheme,
            b":authority" => Name::Authority,
            b":path" => Name::Path,
            b":status" => Name::Status,
            name => HeaderName::from_lowercase(name).map_or(Name::Malformed, Name::Header),
        }
    }
}

/// A field. If its value is none that HTTP knows, its name is [`Name::Malformed`].
#[derive(Debug, Clone)]
pub struct Field {
    pub name: Name,
    pub value: HeaderValue,
    /// As RFC 7541 counts it, which is by the bytes that were sent.
    pub size: usize,
    name_len: usize,
}

/// What a field counts besides its name and its value.
const OVERHEAD: usize = 32;

impl Field {
    pub(super) fn new(name: &[u8], value: Bytes) -> Field {
        Field::with_name(Name::parse(name), name.len(), value)
    }

    /// A field called like this one.
    pub(super) fn renamed(&self, value: Bytes) -> Field {
        Field::with_name(self.name.clone(), self.name_len, value)
    }

    fn with_name(name: Name, name_len: usize, value: Bytes) -> Field {
        let size = name_len + value.len() + OVERHEAD;
        match HeaderValue::from_maybe_shared(value) {
            Ok(value) => Field { name, value, size, name_len },
            Err(_) => Field { name: Name::Malformed, value: HeaderValue::from_static(""), size, name_len },
        }
    }
}

static FIXED: LazyLock<Vec<Field>> = LazyLock::new(|| {
    STATIC
        .iter()
        .map(|(name, value)| Field::new(name.as_bytes(), Bytes::from_static(value.as_bytes())))
        .collect()
});

/// The static table and one connection's dynamic table behind it.
#[derive(Debug)]
pub(super) struct Table {
    /// The newest first.
    fields: VecDeque<Field>,
    size: usize,
    limit: usize,
    /// Counts changes: while it stays, equal bytes mean equal fields.
    pub(super) changes: u64,
}

impl Table {
    pub(super) fn new(limit: usize) -> Table {
        Table { fields: VecDeque::new(), size: 0, limit, changes: 0 }
    }

    /// Indexes begin with 1; those behind the static table are in the dynamic one.
    #[inline]
    pub(super) fn get(&self, index: usize) -> Option<&Field> {
        let index = index.checked_sub(1)?;
        match index.checked_sub(STATIC.len()) {
            None => Some(&FIXED[index]),
            Some(index) => self.fields.get(index),
        }
    }

    /// Fields are forgotten, the oldest first, until the new one fits. One that is larger than the
    /// table empties it.
    pub(super) fn insert(&mut self, field: Field) {
        self.changes += 1;
        self.shrink(self.limit.saturating_sub(field.size));
        if field.size <= self.limit {
            self.size += field.size;
            self.fields.push_front(field);
        }
    }

    pub(super) fn set_limit(&mut self, limit: usize) {
        self.changes += 1;
        self.limit = limit;
        self.shrink(limit);
    }

    fn shrink(&mut self, size: usize) {
        while self.size > size
            && let Some(oldest) = self.fields.pop_back()
        {
            self.size -= oldest.size;
        }
    }

    #[cfg(test)]
    pub(super) fn contents(&self) -> (usize, Vec<Field>) {
        (self.size, self.fields.iter().cloned().collect())
    }
}
