//! Reading query strings.

/// The decoded `key=value` pairs of a query. A key without `=` has an empty value.
pub(super) fn pairs(query: Option<&str>) -> Vec<(String, String)> {
    let parts = query.unwrap_or_default().split('&').filter(|part| !part.is_empty());
    parts
        .map(|part| part.split_once('=').unwrap_or((part, "")))
        .map(|(key, value)| (decoded(key), decoded(value)))
        .collect()
}

/// Percent escapes and `+` for space; a malformed escape is kept.
fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escape = bytes.get(at + 1..at + 3).and_then(|hex| std::str::from_utf8(hex).ok());
        match (bytes[at], escape.and_then(|hex| u8::from_str_radix(hex, 16).ok())) {
            (b'%', Some(byte)) => {
                out.push(byte);
                at += 2;
            }
            (b'+', _) => out.push(b' '),
            (byte, _) => out.push(byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_read_as_browsers_write_them() {
        let own = |k: &str, v: &str| (k.to_string(), v.to_string());
        assert_eq!(pairs(None), []);
        assert_eq!(
            pairs(Some("verbose&exclude=a%2Fb&exclude=c+d&x=%zz%4")),
            [own("verbose", ""), own("exclude", "a/b"), own("exclude", "c d"), own("x", "%zz%4")]
        );
    }
}
