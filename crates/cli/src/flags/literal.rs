//! Literals: the forms in which Go accepts booleans, numbers and durations.

use std::time::Duration;

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
    }
}
