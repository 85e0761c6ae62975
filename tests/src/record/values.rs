//! Values that are large on the wire and small in the record.
//!
//! A value names itself and its length (`v17:60000;`) and is filled up by repeating that name; a
//! length below that of the name adds nothing. The record keeps the name alone; whatever comes back
//! is shortened again only if every byte of the filling is right, so nothing is taken on trust.
//! Names differ before the filling begins, so short forms sort as the values themselves do.

/// The short form of the value with this number, `length` bytes long on the wire.
pub(super) fn name(number: u64, length: usize) -> Vec<u8> {
    format!("v{number}:{length};").into_bytes()
}

/// The value as it is sent.
pub(super) fn expand(short: &[u8]) -> Vec<u8> {
    match length_named(short) {
        Some((name, length)) if name == short.len() && length > name => {
            short.iter().copied().cycle().take(length).collect()
        }
        _ => short.to_vec(),
    }
}

/// The short form of a value that was received, or the value itself if it is not one of ours in
/// full.
pub(super) fn shorten(full: &[u8]) -> Vec<u8> {
    match length_named(full) {
        Some((name, length)) if is_filled(full, name, length) => full[..name].to_vec(),
        _ => full.to_vec(),
    }
}

fn is_filled(full: &[u8], name: usize, length: usize) -> bool {
    // A name longer than the length asked for is sent as it is.
    full.len() == length.max(name) && full[name..] == full[..full.len() - name]
}

/// How long the name at the beginning is, and the length that it gives.
fn length_named(value: &[u8]) -> Option<(usize, usize)> {
    let end = value.iter().take(40).position(|byte| *byte == b';')?;
    let text = std::str::from_utf8(&value[..end]).ok()?;
    let (number, length) = text.strip_prefix('v')?.split_once(':')?;
    number.parse::<u64>().ok()?;
    Some((end + 1, length.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::{expand, name, shorten};

    #[test]
    fn a_value_comes_back_as_its_name() {
        for length in [0, 5, 8, 100, 60_000] {
            let short = name(17, length);
            let full = expand(&short);
            assert_eq!(full.len(), length.max(short.len()));
            assert_eq!(shorten(&full), short);
        }
    }

    #[test]
    fn a_damaged_value_stays_as_it_came() {
        let mut full = expand(&name(17, 1_000));
        full[999] ^= 1;
        assert_eq!(shorten(&full), full);
        full[999] ^= 1;
        full.pop();
        assert_eq!(shorten(&full), full);
        assert_eq!(shorten(b"other"), b"other");
    }
}
