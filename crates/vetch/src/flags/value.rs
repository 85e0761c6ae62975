//! Values of flags, in the forms Go accepts.

use std::time::Duration;

use super::Kind;

/// Why a value does not fit its flag, in the words Go's flag package has for it.
pub(super) fn check(kind: Kind, value: &str) -> Result<(), &'static str> {
    let fits = match kind {
        Kind::Bool => boolean(value).is_some(),
        Kind::Int => value.parse::<i64>().is_ok(),
        Kind::Uint => value.parse::<u64>().is_ok(),
        Kind::Duration => duration(value).is_some(),
        Kind::Text => true,
    };
    if fits { Ok(()) } else { Err("parse error") }
}

pub(super) fn boolean(value: &str) -> Option<bool> {
    match value {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// A sequence of numbers with units, such as `300ms` or `1h30m`; zero needs no unit.
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
