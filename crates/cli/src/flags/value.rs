//! Values of flags, in the forms that Go accepts, with Go's error texts.

use std::time::Duration;

use vetch_server::http::url::Url;

use super::{Kind, gates};

/// Errors of a value.
pub(super) fn check(kind: Kind, value: &str) -> Result<(), String> {
    let syntax = || Err("parse error".to_string());
    let range = || Err("value out of range".to_string());
    match kind {
        Kind::Bool if boolean(value).is_none() => syntax(),
        Kind::Duration if duration(value).is_none() => syntax(),
        Kind::Int | Kind::Uint | Kind::Uint32 => match integer(value) {
            None => syntax(),
            Some(n) if kind == Kind::Int => i64::try_from(n).map(drop).or_else(|_| range()),
            Some(n) if n < 0 => syntax(),
            Some(n) if kind == Kind::Uint => u64::try_from(n).map(drop).or_else(|_| range()),
            Some(n) => u32::try_from(n).map(drop).or_else(|_| range()),
        },
        Kind::Urls | Kind::Origins if value.is_empty() => Ok(()),
        Kind::Origins if value == "*" => Ok(()),
        Kind::Urls | Kind::Origins => Url::parse_list(value).map(drop).map_err(|error| error.to_string()),
        Kind::Choice(allowed) if !allowed.contains(&value) => Err("invalid value".to_string()),
        Kind::Choices(allowed) => match value.split(',').find(|word| !allowed.contains(word)) {
            Some(word) => Err(format!("invalid value {word:?}")),
            None => Ok(()),
        },
        Kind::Gates => gates::check(value),
        Kind::Bool | Kind::Duration | Kind::Choice(_) | Kind::Text | Kind::Words => Ok(()),
    }
}

pub(super) fn boolean(value: &str) -> Option<bool> {
    match value {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// An integer in decimal, or with a prefix that says otherwise: `0x`, `0b`, `0o` or just `0`.
pub(super) fn integer(text: &str) -> Option<i128> {
    let (sign, digits) = match text.strip_prefix(['-', '+']) {
        Some(digits) => (if text.starts_with('-') { -1 } else { 1 }, digits),
        None => (1, text),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, &lower[2..]),
        [b'0', b'b', ..] => (2, &lower[2..]),
        [b'0', b'o', ..] => (8, &lower[2..]),
        [b'0', _, ..] => (8, &lower[1..]),
        _ => (10, lower.as_str()),
    };
    // Go allows an underscore between two digits, and only there.
    let grouped = digits.replace('_', "");
    if digits.starts_with(['_', '-', '+']) && radix == 10 || digits.ends_with('_') || digits.contains("__") {
        return None;
    }
    i128::from_str_radix(&grouped, radix).ok().map(|n| sign * n)
}

/// A sequence of numbers with units, such as `300ms` or `1h30m`; zero needs no unit. No flag takes
/// a negative duration.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let unit_end = rest.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(rest.len());
        let seconds = match &rest[..unit_end] {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        total = total.checked_add(Duration::try_from_secs_f64(number * seconds).ok()?)?;
        rest = &rest[unit_end..];
    }
    (!text.is_empty()).then_some(total)
}

/// A duration, or a bare number of hours.
pub(crate) fn duration_or_hours(text: &str) -> Option<Duration> {
    match text.parse::<u64>() {
        Ok(hours) => hours.checked_mul(3600).map(Duration::from_secs),
        Err(_) => duration(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_go_durations() {
        for (text, millis) in
            [("0", 0), ("0s", 0), ("300ms", 300), ("1h30m", 5_400_000), ("1.5s", 1500), ("2h", 7_200_000)]
        {
            assert_eq!(duration(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "5", "s", "5x", "-1s", "1h30"] {
            assert_eq!(duration(text), None, "{text}");
        }
        assert_eq!(duration_or_hours("3"), Some(Duration::from_secs(10_800)));
    }

    #[test]
    fn integers_are_go_integers() {
        for (text, number) in [
            ("10", 10),
            ("-3", -3),
            ("0x10", 16),
            ("0b11", 3),
            ("0o17", 15),
            ("017", 15),
            ("1_000", 1000),
            ("0", 0),
        ] {
            assert_eq!(integer(text), Some(number), "{text}");
        }
        for text in ["", "x", "1.5", "1 ", "--1", "_1", "1_", "0x", "08"] {
            assert_eq!(integer(text), None, "{text}");
        }
        assert_eq!(check(Kind::Uint32, "4294967296"), Err("value out of range".into()));
        assert_eq!(check(Kind::Uint, "-1"), Err("parse error".into()));
    }
}
