//! From a header block to fields.

use bytes::Bytes;

use super::table::{Field, Table};
use super::{Broken, DEFAULT_TABLE_SIZE, huffman, integer};

/// Decodes the header blocks of one connection, in the order in which they came.
#[derive(Debug)]
pub struct Decoder {
    table: Table,
    /// Room for text that has to be put together.
    scratch: Vec<u8>,
}

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder { table: Table::new(DEFAULT_TABLE_SIZE), scratch: Vec::new() }
    }
}

impl Decoder {
    /// Changes with the table. As long as it is the same, the same bytes mean the same fields.
    pub fn changes(&self) -> u64 {
        self.table.changes
    }

    /// Hands every field of a whole block to `take`.
    pub fn decode(&mut self, mut block: &[u8], mut take: impl FnMut(&Field)) -> Result<(), Broken> {
        let mut may_resize = true;
        while let Some(&first) = block.first() {
            let is_resize = first & 0b1110_0000 == 0b0010_0000;
            if is_resize {
                self.resize(&mut block, may_resize)?;
                continue;
            }
            may_resize = false;
            if first & 0b1000_0000 != 0 {
                let index = integer::read(&mut block, 7)?;
                take(self.table.get(index).ok_or(Broken)?);
            } else if first & 0b0100_0000 != 0 {
                let field = self.literal(&mut block, 6)?;
                take(&field);
                self.table.insert(field);
            } else {
                // Whether or not intermediaries may index it.
                take(&self.literal(&mut block, 4)?);
            }
        }
        Ok(())
    }

    /// Changes of the table's size come first in a block, and never go beyond what we offered.
    fn resize(&mut self, block: &mut &[u8], may: bool) -> Result<(), Broken> {
        let limit = integer::read(block, 5)?;
        if !may || limit > DEFAULT_TABLE_SIZE {
            return Err(Broken);
        }
        self.table.set_limit(limit);
        Ok(())
    }

    fn literal(&mut self, block: &mut &[u8], prefix: u32) -> Result<Field, Broken> {
        let index = integer::read(block, prefix)?;
        if index > 0 {
            let value = self.text(block)?;
            return Ok(self.table.get(index).ok_or(Broken)?.renamed(value));
        }
        let name = self.text(block)?;
        Ok(Field::new(&name, self.text(block)?))
    }

    fn text(&mut self, block: &mut &[u8]) -> Result<Bytes, Broken> {
        let is_coded = block.first().ok_or(Broken)? & 0x80 != 0;
        let length = integer::read(block, 7)?;
        let (raw, rest) = block.split_at_checked(length).ok_or(Broken)?;
        *block = rest;
        if !is_coded {
            return Ok(Bytes::copy_from_slice(raw));
        }
        self.scratch.clear();
        huffman::decode(raw, &mut self.scratch)?;
        Ok(Bytes::copy_from_slice(&self.scratch))
    }

    #[cfg(test)]
    pub(super) fn table(&self) -> (usize, Vec<Field>) {
        self.table.contents()
    }

    #[cfg(test)]
    pub(super) fn set_limit(&mut self, limit: usize) {
        self.table.set_limit(limit);
    }
}
