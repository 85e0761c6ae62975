//! Values of flags by their kind, with Go's error texts.

use vetch_server::http::url::{Url, UrlError};

use super::Kind;
use super::gates::{self, GateError};
use super::literal::{boolean, duration, integer};

/// Why a value is refused.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ValueError {
    #[error("parse error")]
    Syntax,
    #[error("value out of range")]
    Range,
    #[error("invalid value")]
    Choice,
    #[error("invalid value {0:?}")]
    Choices(String),
    #[error(transparent)]
    Url(#[from] UrlError),
    #[error(transparent)]
    Gates(#[from] GateError),
}

/// Whether a flag of this kind takes the value.
pub(super) fn check(kind: Kind, value: &str) -> Result<(), ValueError> {
    let syntax = || Err(ValueError::Syntax);
    let range = || Err(ValueError::Range);
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
        Kind::Urls | Kind::Origins => Ok(Url::parse_list(value).map(drop)?),
        Kind::Choice(allowed) if !allowed.contains(&value) => Err(ValueError::Choice),
        Kind::Choices(allowed) => match value.split(',').find(|word| !allowed.contains(word)) {
            Some(word) => Err(ValueError::Choices(word.to_string())),
            None => Ok(()),
        },
        Kind::Gates => Ok(gates::check(value)?),
        Kind::Bool | Kind::Duration | Kind::Choice(_) | Kind::Text | Kind::Words => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_a_range() {
        assert_eq!(check(Kind::Uint32, "4294967296"), Err(ValueError::Range));
        assert_eq!(check(Kind::Uint, "-1"), Err(ValueError::Syntax));
    }
}
