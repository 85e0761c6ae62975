//! Makes checksums and links right again in mutated files, as far as the bytes can be understood at
//! all.
//!
//! Written from docs/format.md and on purpose not with the shipped encoders, which would never
//! write such files.

use vetch_journal::{ENTRY_HEADER_LEN, RECORD_HEADER_LEN, SECTOR};

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn set_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

/// Where a journal is while its segments are repaired one after another.
pub struct Chain {
    pub epoch: u64,
    pub seq: u64,
    pub hash: [u8; 32],
    pub next_rev: i64,
}

impl Default for Chain {
    fn default() -> Chain {
        Chain { epoch: 0, seq: 0, hash: [0; 32], next_rev: 2 }
    }
}

/// A journal segment: every record that starts at a sector gets right checksums and, with a chain,
/// right links.
pub fn segment(content: &mut [u8], mut chain: Option<&mut Chain>) {
    let sectors = u32::try_from(content.len() / SECTOR).expect("small");
    let mut at = 0;
    while at + SECTOR <= content.len() {
        if content[at..at + 4] != *b"VJRN" {
            at += SECTOR;
            continue;
        }
        let record = &mut content[at..];
        let payload_len = u32_at(record, 28) as usize;
        let mut extent = SECTOR;
        if let Some(end) = RECORD_HEADER_LEN.checked_add(payload_len).filter(|&end| end <= record.len()) {
            if let Some(chain) = chain.as_deref_mut() {
                record[16..24].copy_from_slice(&(chain.seq + 1).to_le_bytes());
                let entries = link(&mut record[RECORD_HEADER_LEN..end], chain);
                set_u32(record, 24, entries);
            }
            let crc = crc32c::crc32c(&record[RECORD_HEADER_LEN..end]);
            set_u32(record, 32, crc);
            extent = end.next_multiple_of(SECTOR);
        }
        set_u32(record, 40, sectors);
        let crc = crc32c::crc32c(&record[..44]);
        set_u32(record, 44, crc);
        at += extent;
    }
}

/// Gives the entries of a payload their place behind each other; how many there are.
fn link(mut payload: &mut [u8], chain: &mut Chain) -> u32 {
    let mut entries = 0;
    while payload.len() >= ENTRY_HEADER_LEN {
        let len = u32_at(payload, 0) as usize;
        if !(ENTRY_HEADER_LEN..=payload.len()).contains(&len) {
            break;
        }
        let (entry, rest) = payload.split_at_mut(len);
        chain.epoch += u64::from(entry[5] == 2);
        chain.seq += 1;
        entry[8..16].copy_from_slice(&chain.epoch.to_le_bytes());
        entry[16..24].copy_from_slice(&chain.seq.to_le_bytes());
        entry[24..32].copy_from_slice(&chain.next_rev.to_le_bytes());
        entry[32..64].copy_from_slice(&chain.hash);
        chain.hash = blake3::hash(entry).into();
        chain.next_rev = chain.next_rev.saturating_add(i64::from(units(entry)));
        entries += 1;
        payload = rest;
    }
    entries
}

/// Revisions that the first part of an entry consumes; more parts are left to be refused.
fn units(entry: &[u8]) -> u32 {
    if entry.len() < ENTRY_HEADER_LEN + 8 { 0 } else { u32_at(entry, ENTRY_HEADER_LEN + 4) }
}

/// Above everything that a life reaches, and far from overflow: what a checksum vouches for is not
/// doubted.
const PLAUSIBLE: u64 = 1 << 40;

/// Takes away what is implausible about a number.
fn tame(bytes: &mut [u8], at: usize, below: u64) {
    let number = u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    bytes[at..at + 8].copy_from_slice(&(number % below).to_le_bytes());
}

/// A data file of a checkpoint under the id of its name; its checksum in the footer, if it is long
/// enough for one.
pub fn data_file(content: &mut [u8], id: u64) -> Option<u32> {
    const HEADER: usize = 32;
    const TRAILER: usize = 64;
    if content.len() < HEADER + TRAILER {
        return None;
    }
    content[16..24].copy_from_slice(&id.to_le_bytes());
    let crc = crc32c::crc32c(&content[..28]);
    set_u32(content, 28, crc);
    let trailer = content.len() - TRAILER;
    // Tables are sized by the number of keys.
    tame(content, trailer + 8, content.len() as u64);
    let blocks = u32_at(content, trailer + 40) as usize;
    let index = trailer.checked_sub(blocks.checked_mul(4)?).filter(|&at| at >= HEADER)?;
    let mut at = HEADER;
    for block in 0..blocks {
        let len = (u32_at(content, index + 4 * block) as usize).checked_add(12)?;
        if len > index - at {
            break;
        }
        let crc = crc32c::crc32c(&id.to_le_bytes());
        let crc = crc32c::crc32c_append(crc, &(at as u64).to_le_bytes());
        let crc = crc32c::crc32c_append(crc, &content[at..at + 8]);
        let crc = crc32c::crc32c_append(crc, &content[at + 12..at + len]);
        set_u32(content, at + 8, crc);
        at += len;
    }
    let end = content.len() - 4;
    let crc = crc32c::crc32c_append(crc32c::crc32c(&id.to_le_bytes()), &content[index..end]);
    set_u32(content, end, crc);
    Some(crc)
}

/// A manifest under the number of its name, which names the data files as they are now: id, size
/// and checksum.
pub fn manifest(content: &mut [u8], number: u64, files: &[(u64, usize, u32)]) {
    const HEAD: usize = 104;
    if content.len() < HEAD + 4 {
        return;
    }
    let end = content.len() - 4;
    content[16..24].copy_from_slice(&number.to_le_bytes());
    for at in [72, 80, 88, 96] {
        tame(content, at, PLAUSIBLE);
    }
    let mut at = HEAD;
    while at + 8 <= end {
        let len = u32_at(content, at + 4) as usize;
        let is_files = content[at..at + 2] == [1, 0];
        at += 8;
        if len > end - at {
            break;
        }
        if is_files {
            for item in content[at..at + len].chunks_exact_mut(56) {
                let id = u64::from_le_bytes(item[..8].try_into().expect("eight bytes"));
                if let Some((_, size, crc)) = files.iter().find(|(found, _, _)| *found == id) {
                    item[24..32].copy_from_slice(&(*size as u64).to_le_bytes());
                    set_u32(item, 48, *crc);
                }
            }
        }
        at += len;
    }
    let crc = crc32c::crc32c(&content[..end]);
    set_u32(content, end, crc);
}
