//! HPACK (RFC 7541): header fields as few bytes, by tables that both ends keep.
//!
//! What is decoded is kept in the types of the `http` crate from the beginning, so a field that a
//! client sends by its index costs two reference counts. Nothing that a client sends can make the
//! tables differ: fields that are no valid HTTP are remembered as such, and make a request
//! malformed only when it uses them.

mod codes;
mod decoder;
mod encoder;
mod fixed;
mod huffman;
mod integer;
mod table;

pub use decoder::Decoder;
pub use encoder::Encoder;
pub use table::{Field, Name};

/// Bytes that do not follow RFC 7541. The tables of both ends may differ from here on, so the
/// connection has to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken;

/// What both ends' tables may hold unless they agree on something else.
pub const DEFAULT_TABLE_SIZE: usize = 4096;

#[cfg(test)]
mod tests;
