//! From fields to header blocks.
//!
//! Two fields make up nearly all that a gRPC server says: the content type, and that all went well.
//! These two are put into the client's table when they are sent first, and are a byte each from
//! then on. Everything else is written out: it is rare, and tables are for what repeats.

use http::HeaderMap;

use super::{DEFAULT_TABLE_SIZE, integer};

/// `:status: 200` in the static table, as an indexed field.
const STATUS_200: u8 = 0x88;
const STATUS: usize = 8;
const CONTENT_TYPE: usize = 31;
/// Where the dynamic table begins.
const NEWEST: usize = 62;

const GRPC: &[u8] = b"application/grpc";
/// What the two fields take in a table, generously. A client with less room gets them written out.
const ROOM: usize = 256;

const INDEXED: u8 = 0x80;
const REMEMBERED: u8 = 0x40;
const RESIZE: u8 = 0x20;
const PLAIN: u8 = 0;

/// Writes the header blocks of one connection, which have to be sent in that order.
#[derive(Debug, Default)]
pub struct Encoder {
    /// The client's table is too small to be used.
    is_cramped: bool,
    /// The size of the table, to be sent to the client with the next block.
    resize: Option<usize>,
    /// How many fields were in the client's table after the field was put there.
    content_type_at: Option<usize>,
    grpc_ok_at: Option<usize>,
    remembered: usize,
}

impl Encoder {
    /// The client says how large a table it keeps.
    pub fn set_table_size(&mut self, size: usize) {
        if size < DEFAULT_TABLE_SIZE {
            self.resize = Some(self.resize.unwrap_or(size).min(size));
        }
        if size < ROOM {
            self.is_cramped = true;
            (self.content_type_at, self.grpc_ok_at, self.remembered) = (None, None, 0);
        }
    }

    /// The head of a gRPC answer that has a message.
    pub fn grpc_head(&mut self, out: &mut Vec<u8>) {
        self.begin(out);
        out.push(STATUS_200);
        match self.content_type_at {
            Some(at) => integer::write(out, INDEXED, 7, NEWEST + self.remembered - at),
            None => {
                let first = self.first_byte();
                integer::write(out, first, if first == PLAIN { 4 } else { 6 }, CONTENT_TYPE);
                text(out, GRPC);
                self.content_type_at = self.remember();
            }
        }
    }

    /// The end of a gRPC answer when all went well.
    pub fn grpc_ok(&mut self, out: &mut Vec<u8>) {
        self.begin(out);
        match self.grpc_ok_at {
            Some(at) => integer::write(out, INDEXED, 7, NEWEST + self.remembered - at),
            None => {
                out.push(self.first_byte());
                text(out, b"grpc-status");
                text(out, b"0");
                self.grpc_ok_at = self.remember();
            }
        }
    }

    /// Any head.
    pub fn head(&mut self, status: http::StatusCode, fields: &HeaderMap, out: &mut Vec<u8>) {
        self.begin(out);
        if status == http::StatusCode::OK {
            out.push(STATUS_200);
        } else {
            integer::write(out, PLAIN, 4, STATUS);
            text(out, status.as_str().as_bytes());
        }
        write_fields(fields, out);
    }

    /// Any trailers.
    pub fn trailers(&mut self, fields: &HeaderMap, out: &mut Vec<u8>) {
        self.begin(out);
        write_fields(fields, out);
    }

    fn begin(&mut self, out: &mut Vec<u8>) {
        if let Some(size) = self.resize.take() {
            integer::write(out, RESIZE, 5, size);
        }
    }

    fn first_byte(&self) -> u8 {
        if self.is_cramped { PLAIN } else { REMEMBERED }
    }

    fn remember(&mut self) -> Option<usize> {
        if self.is_cramped {
            return None;
        }
        self.remembered += 1;
        Some(self.remembered)
    }
}

fn write_fields(fields: &HeaderMap, out: &mut Vec<u8>) {
    for (name, value) in fields {
        out.push(PLAIN);
        text(out, name.as_str().as_bytes());
        text(out, value.as_bytes());
    }
}

fn text(out: &mut Vec<u8>, text: &[u8]) {
    integer::write(out, 0, 7, text.len());
    out.extend_from_slice(text);
}
