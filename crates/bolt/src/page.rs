//! Pages: the header they all begin with, and the elements of leaves and branches.
//!
//! | page header | size | |
//! |---:|---:|---|
//! | 0 | 8 | id: which page of the file this is |
//! | 8 | 2 | kind: 1 branch, 2 leaf, 4 meta, 16 list of free pages |
//! | 10 | 2 | count of elements |
//! | 12 | 4 | overflow: how many pages after this one belong to it |
//!
//! An element is 16 bytes; all of them stand behind the header, then come their keys and values. A
//! leaf's has flags (1: the value is a bucket), position, key length and value length, 4 bytes
//! each; a branch's has position and key length, 4 bytes each, and the child's page id. A position
//! counts from the beginning of its own element. Little-endian.

/// The size of the pages this crate writes. It reads others too.
pub const PAGE_SIZE: usize = 4096;

pub(crate) const HEADER: usize = 16;
pub(crate) const ELEMENT: usize = 16;

pub(crate) const BRANCH: u16 = 1;
pub(crate) const LEAF: u16 = 2;
pub(crate) const META: u16 = 4;
pub(crate) const FREELIST: u16 = 16;

/// Flag of a leaf element whose value is a bucket.
pub(crate) const IS_BUCKET: u32 = 1;

/// A bucket as a value: its root page, 0 if that follows right here, and a sequence number, which
/// etcd does not use.
pub(crate) const BUCKET: usize = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) id: u64,
    pub(crate) kind: u16,
    pub(crate) count: u16,
    pub(crate) overflow: u32,
}

impl Header {
    pub(crate) fn encode(self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..8].copy_from_slice(&self.id.to_le_bytes());
        bytes[8..10].copy_from_slice(&self.kind.to_le_bytes());
        bytes[10..12].copy_from_slice(&self.count.to_le_bytes());
        bytes[12..].copy_from_slice(&self.overflow.to_le_bytes());
        bytes
    }

    /// None if there are not enough bytes.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Header> {
        Some(Header {
            id: u64_at(bytes, 0)?,
            kind: u16::from_le_bytes(bytes.get(8..10)?.try_into().ok()?),
            count: u16::from_le_bytes(bytes.get(10..12)?.try_into().ok()?),
            overflow: u32_at(bytes, 12)?,
        })
    }
}

/// An element of a leaf, resolved to places in its page.
pub(crate) struct LeafElement<'p> {
    pub(crate) flags: u32,
    pub(crate) key: &'p [u8],
    pub(crate) value: &'p [u8],
}

/// The element at `index` of a leaf; None if it points outside of the page.
pub(crate) fn leaf_element(page: &[u8], index: usize) -> Option<LeafElement<'_>> {
    let at = HEADER + index * ELEMENT;
    let key_at = at.checked_add(u32_at(page, at + 4)? as usize)?;
    let value_at = key_at.checked_add(u32_at(page, at + 8)? as usize)?;
    let end = value_at.checked_add(u32_at(page, at + 12)? as usize)?;
    Some(LeafElement {
        flags: u32_at(page, at)?,
        key: page.get(key_at..value_at)?,
        value: page.get(value_at..end)?,
    })
}

/// Key and child of the element at `index` of a branch; None if it points outside of the page.
pub(crate) fn branch_element(page: &[u8], index: usize) -> Option<(&[u8], u64)> {
    let at = HEADER + index * ELEMENT;
    let key_at = at.checked_add(u32_at(page, at)? as usize)?;
    let end = key_at.checked_add(u32_at(page, at + 4)? as usize)?;
    Some((page.get(key_at..end)?, u64_at(page, at + 8)?))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}
