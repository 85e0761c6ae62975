//! Settings of tokens and passwords, from the flags.

use std::sync::Arc;
use std::time::Duration;

use super::jwt::{Jwt, JwtError};

/// The default lifetime of a token.
const DEFAULT_TTL: Duration = Duration::from_secs(300);
/// The costs that bcrypt allows; any other is replaced by the default, as in etcd.
const COSTS: std::ops::RangeInclusive<u32> = 4..=31;
const DEFAULT_COST: u32 = 10;

#[derive(Debug, Clone)]
pub struct Settings {
    pub tokens: TokenKind,
    pub bcrypt_cost: u32,
    /// The common name of a client's certificate is the name of its user, unless it sends a token.
    pub client_cert_auth: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        let tokens = TokenKind::Simple { ttl: DEFAULT_TTL };
        Settings { tokens, bcrypt_cost: DEFAULT_COST, client_cert_auth: false }
    }
}

#[derive(Debug, Clone)]
pub enum TokenKind {
    /// No tokens: certificates only.
    None,
    Simple {
        ttl: Duration,
    },
    Jwt(Arc<Jwt>),
}

/// Why `--auth-token` is not valid.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error("invalid token option {0:?}; options have the form name=value")]
    NotAPair(String),
    #[error("token option {0:?} is given twice")]
    Twice(String),
    #[error("unknown token type {0:?}; it must be simple, or jwt with its options")]
    UnknownType(String),
    #[error(transparent)]
    Jwt(#[from] JwtError),
}

impl Settings {
    /// `auth_token` is `simple`, or `jwt` and its options; `ttl` is that of simple tokens, 0 for
    /// the usual one. Reads the key files that are named.
    pub fn new(
        auth_token: &str,
        ttl: Duration,
        cost: u32,
        duration: fn(&str) -> Option<Duration>,
    ) -> Result<Settings, SettingsError> {
        let mut parts = auth_token.split(',');
        let kind = parts.next().unwrap_or_default();
        let options = options(parts)?;
        let tokens = match kind {
            "simple" => TokenKind::Simple { ttl: if ttl.is_zero() { DEFAULT_TTL } else { ttl } },
            "jwt" => TokenKind::Jwt(Arc::new(Jwt::new(&options, duration)?)),
            "" => TokenKind::None,
            other => return Err(SettingsError::UnknownType(other.to_owned())),
        };
        Ok(Settings { tokens, bcrypt_cost: checked(cost), client_cert_auth: false })
    }
}

fn checked(cost: u32) -> u32 {
    if COSTS.contains(&cost) {
        return cost;
    }
    tracing::warn!(given = cost, used = DEFAULT_COST, "bcrypt-cost must be from 4 to 31; using the default");
    DEFAULT_COST
}

type Options = Vec<(String, String)>;

fn options<'a>(parts: impl Iterator<Item = &'a str>) -> Result<Options, SettingsError> {
    let mut options = Options::new();
    for part in parts {
        let not_a_pair = || SettingsError::NotAPair(part.to_owned());
        let (name, value) = part.split_once('=').ok_or_else(not_a_pair)?;
        if value.contains('=') {
            return Err(not_a_pair());
        }
        if options.iter().any(|(known, _)| known == name) {
            return Err(SettingsError::Twice(name.to_owned()));
        }
        options.push((name.to_owned(), value.to_owned()));
    }
    Ok(options)
}
