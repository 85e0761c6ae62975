//! Which versions may be named as the target of a downgrade.

use vetch_api::EtcdError;

#[cfg(test)]
mod tests;

/// The cluster's version in the form that answers about downgrades use.
pub(super) const CLUSTER: &str = "3.7";
/// The one version etcd lets a cluster of this version go back to.
const TARGET: (i64, i64) = (3, 6);

/// Refuses a target that is not a version, or not the minor version right before this one.
pub(super) fn check(target: &str) -> Result<(), EtcdError> {
    // The patch level may be left out.
    let version = major_minor(target)
        .or_else(|| major_minor(&format!("{target}.0")))
        .ok_or(EtcdError::WrongDowngradeVersionFormat)?;
    if version == TARGET { Ok(()) } else { Err(EtcdError::InvalidDowngradeTargetVersion) }
}

/// The first two numbers of `major.minor.patch[-prerelease][+metadata]`. Leading zeros are
/// accepted, as in etcd.
fn major_minor(text: &str) -> Option<(i64, i64)> {
    let (text, metadata) = cut(text, '+');
    let (numbers, prerelease) = cut(text, '-');
    if !is_identifiers(metadata) || !is_identifiers(prerelease) {
        return None;
    }
    let mut numbers = numbers.splitn(3, '.').map(number);
    let version = (numbers.next()??, numbers.next()??);
    numbers.next()??;
    Some(version)
}

fn cut(text: &str, at: char) -> (&str, Option<&str>) {
    match text.split_once(at) {
        Some((before, after)) => (before, Some(after)),
        None => (text, None),
    }
}

fn number(text: &str) -> Option<i64> {
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

fn is_identifiers(text: Option<&str>) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
    text.is_none_or(|text| text.split('.').all(|part| part.bytes().all(allowed)))
}
