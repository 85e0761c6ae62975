//! JSON web tokens: signed claims that any server with the key accepts.
//!
//! The claims are etcd's: the user, the auth revision at which the password was right, and the
//! expiry. No state is kept, so a token cannot be revoked; but its access to keys ends with the
//! next change of users or roles, because its revision is then outdated.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, EncodingKey, Header, Validation};
use serde::{Deserialize, Serialize};
use vetch_node::store::auth::Caller;

mod keys;
#[cfg(test)]
mod tests;

const DEFAULT_TTL: Duration = Duration::from_secs(300);

pub struct Jwt {
    algorithm: Algorithm,
    /// None: tokens are signed elsewhere.
    signing: Option<EncodingKey>,
    verifying: DecodingKey,
    ttl: Duration,
}

/// Keys are not printed.
impl std::fmt::Debug for Jwt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Jwt").field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}

/// Why the options of `--auth-token jwt` are not valid.
#[derive(Debug, thiserror::Error)]
pub enum JwtError {
    #[error("sign-method is missing; name the algorithm that tokens are signed with, such as RS256")]
    NoMethod,
    #[error("sign-method {0:?} is not supported; use one of {METHODS}")]
    UnknownMethod(String),
    #[error("ttl {0:?} is no duration; write for example 10m")]
    BadTtl(String),
    #[error("cannot read {option} {path:?}: {source}")]
    Unreadable { option: &'static str, path: String, source: std::io::Error },
    #[error("{0} needs a key: give priv-key, or pub-key to verify tokens that are signed elsewhere")]
    MissingKey(&'static str),
    #[error("{option} {path:?} is no {family} key in PEM form")]
    BadKey { option: &'static str, path: String, family: &'static str },
    #[error("pub-key and priv-key do not belong together")]
    Mismatch,
}

const METHODS: &str = "RS256, RS384, RS512, PS256, PS384, PS512, ES256, ES384, EdDSA, HS256, HS384, HS512";

/// The claims of a token besides its expiry.
#[derive(Deserialize)]
struct Claims {
    username: String,
    revision: f64,
}

impl Jwt {
    pub(super) fn new(
        options: &[(String, String)],
        duration: fn(&str) -> Option<Duration>,
    ) -> Result<Jwt, JwtError> {
        let option = |name: &str| {
            let found = options.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
        };
        for (name, _) in options {
            if !["sign-method", "pub-key", "priv-key", "ttl"].contains(&name.as_str()) {
                tracing::warn!(option = name, "unknown JWT option, ignored");
            }
        }
        let ttl = match option("ttl") {
            None => DEFAULT_TTL,
            Some(text) => duration(text).ok_or_else(|| JwtError::BadTtl(text.to_owned()))?,
        };
        let public = option("pub-key").map(|path| KeyFile::read("pub-key", path)).transpose()?;
        let private = option("priv-key").map(|path| KeyFile::read("priv-key", path)).transpose()?;
        let algorithm = algorithm(option("sign-method").ok_or(JwtError::NoMethod)?)?;
        let (signing, verifying) = keys::load(algorithm, public.as_ref(), private.as_ref())?;
        Ok(Jwt { algorithm, signing, verifying, ttl })
    }

    /// None if tokens are only verified here.
    pub(super) fn sign(&self, user: &str, revision: u64) -> Option<String> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let claims = SignedClaims { username: user, revision, exp: (now + self.ttl).as_secs() };
        jsonwebtoken::encode(&Header::new(self.algorithm), &claims, self.signing.as_ref()?).ok()
    }

    /// The user of a token, if it is signed by our key and has not expired.
    pub(super) fn verify(&self, token: &str) -> Option<Caller> {
        let mut validation = Validation::new(self.algorithm);
        validation.leeway = 0;
        validation.validate_nbf = true;
        validation.validate_aud = false;
        validation.required_spec_claims.clear();
        let token = jsonwebtoken::decode::<Claims>(token, &self.verifying, &validation).ok()?;
        let Claims { username, revision } = token.claims;
        Some(Caller::user(&username, revision as u64))
    }
}

/// The claims of a new token.
#[derive(Serialize)]
struct SignedClaims<'a> {
    username: &'a str,
    revision: u64,
    exp: u64,
}

/// The content of a key file, and where it came from for error messages.
struct KeyFile {
    option: &'static str,
    path: String,
    content: Vec<u8>,
}

impl KeyFile {
    fn read(option: &'static str, path: &str) -> Result<KeyFile, JwtError> {
        let content = fs::read(Path::new(path)).map_err(|source| JwtError::Unreadable {
            option,
            path: path.to_owned(),
            source,
        })?;
        Ok(KeyFile { option, path: path.to_owned(), content })
    }

    fn bad(&self, family: &'static str) -> JwtError {
        JwtError::BadKey { option: self.option, path: self.path.clone(), family }
    }
}

fn algorithm(name: &str) -> Result<Algorithm, JwtError> {
    Ok(match name {
        "HS256" => Algorithm::HS256,
        "HS384" => Algorithm::HS384,
        "HS512" => Algorithm::HS512,
        "RS256" => Algorithm::RS256,
        "RS384" => Algorithm::RS384,
        "RS512" => Algorithm::RS512,
        "PS256" => Algorithm::PS256,
        "PS384" => Algorithm::PS384,
        "PS512" => Algorithm::PS512,
        "ES256" => Algorithm::ES256,
        "ES384" => Algorithm::ES384,
        "EdDSA" => Algorithm::EdDSA,
        other => return Err(JwtError::UnknownMethod(other.to_owned())),
    })
}

/// The name of a key family in messages.
fn family_name(family: AlgorithmFamily) -> &'static str {
    match family {
        AlgorithmFamily::Hmac => "HMAC",
        AlgorithmFamily::Rsa => "RSA",
        AlgorithmFamily::Ec => "EC",
        AlgorithmFamily::Ed => "Ed25519",
    }
}
