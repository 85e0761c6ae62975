//! How often a request was forwarded from one server to the next.
//!
//! While leadership changes, a server may forward to one that does not lead any more, which
//! forwards it again. That ends by itself; servers that take each other for the leader, because two
//! of them announce the same address, would go on for ever.

use http::{HeaderMap, HeaderName, HeaderValue};

/// A request that was forwarded this often is not forwarded again.
pub(super) const HOPS_MAX: u8 = 3;

const HOPS: HeaderName = HeaderName::from_static("vetch-hops");

/// A value that no server sets counts as the largest: such a request is served by the leader
/// alone.
pub(super) fn count(headers: &HeaderMap) -> u8 {
    let Some(value) = headers.get(HOPS) else { return 0 };
    value.to_str().ok().and_then(|text| text.parse().ok()).unwrap_or(HOPS_MAX)
}

pub(super) fn set(headers: &mut HeaderMap, hops: u8) {
    headers.insert(HOPS, HeaderValue::from(u16::from(hops)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hops_are_counted_and_nonsense_is_not_forwarded() {
        let mut headers = HeaderMap::new();
        assert_eq!(count(&headers), 0);
        set(&mut headers, 2);
        assert_eq!(count(&headers), 2);
        for value in ["", "x", "-1", "999"] {
            headers.insert(HOPS, HeaderValue::from_static(value));
            assert_eq!(count(&headers), HOPS_MAX, "{value}");
        }
    }
}
