//! Authentication of a client: by a token, or by the certificate of its connection.
//!
//! * [`Authenticator`] turns [`Credentials`] into a [`Caller`], and a name and a password into a
//!   token.
//! * `simple` are tokens that this server keeps, or has looked up at the leader of its cluster;
//!   `jwt` are tokens that carry their own proof.
//! * `password` hashes and compares, away from the threads that serve requests, with bounded
//!   concurrency.
//! * [`Settings`] are the flags for all of this.
//!
//! Permissions are not decided here but by the node, in the instant a request is evaluated.
//! Passwords, hashes and tokens appear in no log and in no error.

mod authenticator;
mod credentials;
mod jwt;
mod password;
mod settings;
mod simple;

pub use authenticator::{Authenticator, LoginError};
pub use credentials::Credentials;
pub use jwt::{Jwt, JwtError};
pub use password::{PASSWORD_LEN_MAX, PasswordError};
pub use settings::{Settings, SettingsError, TokenKind};
pub use simple::TokenOwner;
