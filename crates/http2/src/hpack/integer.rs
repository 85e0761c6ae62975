//! Integers with a prefix (RFC 7541, section 5.1).

use super::Broken;

/// No length or index here is ever near it.
const LARGEST: u32 = 1 << 28;

/// Reads an integer whose first byte has `prefix` bits of it, and moves past it.
#[inline]
pub(super) fn read(input: &mut &[u8], prefix: u32) -> Result<usize, Broken> {
    let (&first, mut rest) = input.split_first().ok_or(Broken)?;
    let mask = (1u32 << prefix) - 1;
    let mut value = u32::from(first) & mask;
    if value == mask {
        let mut shift = 0;
        loop {
            let (&byte, further) = rest.split_first().ok_or(Broken)?;
            rest = further;
            if shift > 21 {
                return Err(Broken);
            }
            value += (u32::from(byte) & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
        }
        if value > LARGEST {
            return Err(Broken);
        }
    }
    *input = rest;
    Ok(value as usize)
}

/// Writes `value`, with the bits `first` above the prefix.
pub(super) fn write(out: &mut Vec<u8>, first: u8, prefix: u32, value: usize) {
    let mask = (1usize << prefix) - 1;
    if value < mask {
        out.push(first | value as u8);
        return;
    }
    out.push(first | mask as u8);
    let mut rest = value - mask;
    while rest >= 0x80 {
        out.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}
