//! From credentials to callers, and from passwords to tokens.

use std::sync::Arc;

use bytes::Bytes;
use vetch_node::Node;
use vetch_node::store::auth::{Auth, Caller};

use super::credentials::Credentials;
use super::jwt::Jwt;
use super::password::{PasswordError, Passwords};
use super::settings::{Settings, TokenKind};
use super::simple::{SimpleTokens, TokenOwner};
use crate::turns::Turns;

/// How often a password is compared again because users changed during the comparison.
const LOGIN_ATTEMPTS: usize = 8;

pub struct Authenticator {
    tokens: Tokens,
    passwords: Passwords,
    client_cert_auth: bool,
}

enum Tokens {
    None,
    Simple(SimpleTokens),
    Jwt(Arc<Jwt>),
}

/// A token that is not valid, or no longer valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidToken;

/// Why a login failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    #[error("authentication is not enabled")]
    NotEnabled,
    /// No such user, or a wrong password; a client must not learn which.
    #[error("authentication failed")]
    Failed,
    #[error("password was given for no password user")]
    NoPasswordUser,
    #[error("tokens are only verified here")]
    VerifyOnly,
    #[error("too many requests")]
    TooMany,
    #[error("users kept changing")]
    UsersChanging,
}

impl From<PasswordError> for LoginError {
    fn from(error: PasswordError) -> LoginError {
        match error {
            PasswordError::TooMany => LoginError::TooMany,
            PasswordError::Failed => LoginError::Failed,
        }
    }
}

impl Authenticator {
    pub fn new(settings: &Settings) -> Authenticator {
        let tokens = match &settings.tokens {
            TokenKind::None => Tokens::None,
            TokenKind::Simple { ttl } => Tokens::Simple(SimpleTokens::new(*ttl)),
            TokenKind::Jwt(jwt) => Tokens::Jwt(Arc::clone(jwt)),
        };
        let passwords = Passwords::new(settings.bcrypt_cost);
        Authenticator { tokens, passwords, client_cert_auth: settings.client_cert_auth }
    }

    /// The user with these credentials. While authentication is off, credentials are ignored.
    pub fn caller(&self, node: &Node, credentials: &Credentials) -> Result<Caller, InvalidToken> {
        if !node.auth_enabled() {
            return Ok(Caller::Anonymous);
        }
        let auth = node.auth();
        if let Some(token) = credentials.token() {
            return self.find(&auth, token).ok_or(InvalidToken);
        }
        Ok(match credentials.peer() {
            Some(peer) if self.client_cert_auth => Caller::user(peer.common_name(), auth.revision()),
            _ => Caller::Anonymous,
        })
    }

    /// The caller's token, if authentication is on, and the token is simple and unknown to this
    /// server.
    pub fn unknown_token<'a>(&self, node: &Node, credentials: &'a Credentials) -> Option<&'a str> {
        let Tokens::Simple(tokens) = &self.tokens else { return None };
        let token = credentials.token().filter(|_| node.auth_enabled())?;
        tokens.find(&node.auth(), token).is_none().then_some(token)
    }

    /// The user of a simple token. The lookup keeps the token alive.
    pub fn owner(&self, node: &Node, token: &str) -> Option<TokenOwner> {
        match &self.tokens {
            Tokens::Simple(tokens) if node.auth_enabled() => tokens.owner(&node.auth(), token),
            _ => None,
        }
    }

    /// Simple tokens in memory.
    pub fn tokens(&self) -> usize {
        match &self.tokens {
            Tokens::Simple(tokens) => tokens.len(),
            _ => 0,
        }
    }

    /// Caches the user of a token that another server issued.
    pub fn cache(&self, auth: &Auth, token: &str, owner: TokenOwner) {
        if let Tokens::Simple(tokens) = &self.tokens {
            tokens.cache(auth, token, owner);
        }
    }

    fn find(&self, auth: &Auth, token: &str) -> Option<Caller> {
        match &self.tokens {
            Tokens::None => None,
            Tokens::Simple(tokens) => tokens.find(auth, token),
            Tokens::Jwt(jwt) => jwt.verify(token),
        }
    }

    /// A hash to keep instead of the password.
    pub(crate) async fn hash(&self, turns: Option<&Turns>, password: String) -> Result<Bytes, PasswordError> {
        self.passwords.hash(turns, password).await
    }

    /// A token for a user with the right password. If users change during the comparison, the hash
    /// may be outdated, and the password is compared again.
    pub(crate) async fn log_in(
        &self,
        node: &Node,
        turns: Option<&Turns>,
        name: &str,
        password: &str,
    ) -> Result<String, LoginError> {
        for _ in 0..LOGIN_ATTEMPTS {
            let auth = node.auth();
            if !auth.enabled() {
                return Err(LoginError::NotEnabled);
            }
            let user = auth.user(name).ok_or(LoginError::Failed)?;
            if user.no_password {
                return Err(LoginError::NoPasswordUser);
            }
            if !self.passwords.matches(turns, password.to_owned(), user.password.clone()).await? {
                return Err(LoginError::Failed);
            }
            let auth_revision = auth.revision();
            let token = self.assign(node, &auth, name)?;
            if node.auth().revision() == auth_revision {
                return Ok(token);
            }
        }
        Err(LoginError::UsersChanging)
    }

    fn assign(&self, node: &Node, auth: &Auth, name: &str) -> Result<String, LoginError> {
        match &self.tokens {
            Tokens::None => Err(LoginError::Failed),
            Tokens::Simple(tokens) => {
                let index = node.status().index;
                tokens.assign(auth, name, auth.revision(), index).ok_or(LoginError::TooMany)
            }
            Tokens::Jwt(jwt) => jwt.sign(name, auth.revision()).ok_or(LoginError::VerifyOnly),
        }
    }
}
