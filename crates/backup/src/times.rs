//! Times as people write them.

use std::time::{SystemTime, UNIX_EPOCH};

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Milliseconds since 1970, now.
pub fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// As 2026-01-31T12:00:00.5Z.
pub fn shown(millis: u64) -> String {
    let nanos = i128::from(millis) * 1_000_000;
    let time = OffsetDateTime::from_unix_timestamp_nanos(nanos).ok();
    time.and_then(|time| time.format(&Rfc3339).ok()).unwrap_or_else(|| format!("{millis} ms after 1970"))
}

/// A text that is no time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither a time like 2026-01-31T12:00:00Z nor seconds since 1970")]
pub struct NoTime(String);

/// A time with its zone, as in RFC 3339, or seconds since 1970.
pub fn parse(text: &str) -> Result<u64, NoTime> {
    let wrong = || NoTime(text.to_owned());
    if let Ok(seconds) = text.parse::<f64>() {
        let is_possible = seconds.is_finite() && (0.0..1e12).contains(&seconds);
        return if is_possible { Ok((seconds * 1000.0) as u64) } else { Err(wrong()) };
    }
    let time = OffsetDateTime::parse(text, &Rfc3339).map_err(|_| wrong())?;
    u64::try_from(time.unix_timestamp_nanos() / 1_000_000).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_back() {
        assert_eq!(parse("1970-01-01T00:00:01.5Z"), Ok(1500));
        assert_eq!(parse("1970-01-01T02:00:00+02:00"), Ok(0));
        assert_eq!(parse("1.25"), Ok(1250));
        assert_eq!(parse(&shown(1_763_000_000_123)), Ok(1_763_000_000_123));
        for wrong in ["yesterday", "-5", "nan", "2026-01-31", "2026-01-31T12:00:00"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
