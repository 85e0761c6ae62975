//! Header blocks of requests (RFC 7541): whatever is sent a second time is sent as a reference.
//!
//! Requests differ in their path only. The first of a connection inserts its headers into the
//! server's table, the first of each method its path; from then on the block of a method is seven
//! bytes that never change, until another method's path moves the entries of the table.

use crate::wire::Method;

/// Smaller than any table a server may have without saying so.
pub(super) const TABLE_BYTES: u32 = 4096;

/// Entries of the static table that are used whole or by name.
const POST: u8 = 3;
const SCHEME_HTTP: u8 = 6;
const AUTHORITY: u8 = 1;
const PATH: u8 = 4;
const CONTENT_TYPE: u8 = 31;
const USER_AGENT: u8 = 58;
/// The first index of the dynamic table.
const DYNAMIC: usize = 62;

const INDEXED: u8 = 0x80;
const LITERAL_WITH_INDEXING: u8 = 0x40;

pub(super) struct Headers {
    authority: String,
    /// Values in the order in which they were inserted; no two are equal.
    inserted: Vec<String>,
    blocks: [Option<Vec<u8>>; Method::COUNT],
}

impl Headers {
    pub(super) fn new(authority: &str) -> Headers {
        Headers {
            authority: authority.to_owned(),
            inserted: Vec::new(),
            blocks: [const { None }; Method::COUNT],
        }
    }

    /// Writes the block of a method. Every block that is made has to be sent, and in this order.
    pub(super) fn write(&mut self, method: Method, out: &mut impl FnMut(&[u8])) {
        if let Some(block) = &self.blocks[method as usize] {
            return out(block);
        }
        let before = self.inserted.len();
        let block = self.make(method);
        if self.inserted.len() == before {
            out(self.blocks[method as usize].insert(block));
        } else {
            // What was inserted moved every older entry.
            self.blocks = [const { None }; Method::COUNT];
            out(&block);
        }
    }

    fn make(&mut self, method: Method) -> Vec<u8> {
        let mut block = vec![INDEXED | POST, INDEXED | SCHEME_HTTP];
        let authority = self.authority.clone();
        // Those with a colon come first.
        self.header(&mut block, PATH, method.path());
        self.header(&mut block, AUTHORITY, &authority);
        self.header(&mut block, CONTENT_TYPE, "application/grpc");
        self.header(&mut block, USER_AGENT, concat!("vetch-bench/", env!("CARGO_PKG_VERSION")));
        self.header(&mut block, 0, "trailers");
        block
    }

    /// A reference if the table has the value; otherwise the value, with its name from the static
    /// table. Without a name there it is `te`, the only one of ours that the table does not know.
    fn header(&mut self, block: &mut Vec<u8>, name: u8, value: &str) {
        if let Some(place) = self.inserted.iter().position(|known| known == value) {
            let index = DYNAMIC + self.inserted.len() - 1 - place;
            let index = u8::try_from(index).ok().filter(|index| *index < 127).expect("a handful of entries");
            block.push(INDEXED | index);
            return;
        }
        block.push(LITERAL_WITH_INDEXING | name);
        if name == 0 {
            text(block, "te");
        }
        text(block, value);
        self.inserted.push(value.to_owned());
    }
}

/// A string without Huffman coding: it is sent once.
fn text(block: &mut Vec<u8>, value: &str) {
    let length =
        u8::try_from(value.len()).ok().filter(|length| *length < 127).expect("names of ours are short");
    block.push(length);
    block.extend_from_slice(value.as_bytes());
}
