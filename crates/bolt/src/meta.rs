//! Meta pages: where the tree begins.

use crate::page::{HEADER, Header, META, PAGE_SIZE, u32_at, u64_at};

const MAGIC: u32 = 0xED0C_DAED;
const VERSION: u32 = 2;
/// Bytes of the fields, the checksum included.
const LEN: usize = 64;
const CHECKSUM_AT: usize = 56;

/// Bytes of a meta page that have to be read.
pub(crate) const META_BYTES: usize = HEADER + LEN;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Meta {
    pub(crate) page_size: u32,
    /// Root page of the outermost tree.
    pub(crate) root: u64,
    pub(crate) freelist: u64,
    /// How many pages there are.
    pub(crate) pages: u64,
    pub(crate) txid: u64,
}

impl Meta {
    /// The whole page `id`.
    pub(crate) fn encode(self, id: u64) -> [u8; PAGE_SIZE] {
        let mut page = [0; PAGE_SIZE];
        page[..HEADER].copy_from_slice(&Header { id, kind: META, count: 0, overflow: 0 }.encode());
        let fields = &mut page[HEADER..HEADER + LEN];
        fields[..4].copy_from_slice(&MAGIC.to_le_bytes());
        fields[4..8].copy_from_slice(&VERSION.to_le_bytes());
        fields[8..12].copy_from_slice(&self.page_size.to_le_bytes());
        fields[16..24].copy_from_slice(&self.root.to_le_bytes());
        fields[32..40].copy_from_slice(&self.freelist.to_le_bytes());
        fields[40..48].copy_from_slice(&self.pages.to_le_bytes());
        fields[48..56].copy_from_slice(&self.txid.to_le_bytes());
        let checksum = fnv64a(&fields[..CHECKSUM_AT]);
        fields[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        page
    }

    /// Reads the first [`META_BYTES`] of a meta page.
    pub(crate) fn decode(page: &[u8]) -> Result<Meta, &'static str> {
        let short = "too short for a meta page";
        let fields = page.get(HEADER..META_BYTES).ok_or(short)?;
        if u32_at(fields, 0) != Some(MAGIC) {
            return Err("not a bbolt file: the magic number is missing");
        }
        if u32_at(fields, 4) != Some(VERSION) {
            return Err("a version of bbolt's format that is not known here");
        }
        if u64_at(fields, CHECKSUM_AT) != Some(fnv64a(&fields[..CHECKSUM_AT])) {
            return Err("the checksum of the meta page does not match");
        }
        let number = |at| u64_at(fields, at).ok_or(short);
        Ok(Meta {
            page_size: u32_at(fields, 8).ok_or(short)?,
            root: number(16)?,
            freelist: number(32)?,
            pages: number(40)?,
            txid: number(48)?,
        })
    }
}

fn fnv64a(bytes: &[u8]) -> u64 {
    let step = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_fnv_1a() {
        assert_eq!(fnv64a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv64a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv64a(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn every_changed_bit_is_noticed() {
        let meta = Meta { page_size: 4096, root: 9, freelist: 2, pages: 12, txid: 3 };
        let page = meta.encode(0);
        assert_eq!(Meta::decode(&page), Ok(meta));
        for bit in HEADER * 8..META_BYTES * 8 {
            let mut bad = page;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Meta::decode(&bad).is_err(), "bit {bit}");
        }
    }
}
