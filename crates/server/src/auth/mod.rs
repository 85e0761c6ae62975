//! Finding out who a client is: by a token, or by the certificate of its connection.
//!
//! * [`Authenticator`] turns [`Credentials`] into a [`Caller`], and a name and a password into a
//!   token.
//! * `simple` are tokens this server remembers, or has heard of from the leader of its cluster,
//!   `jwt` tokens that carry their own proof.
//! * `password` hashes and compares, away from the threads that serve requests and only so much at
//!   once.
//! * [`Settings`] are the flags about all of this.
//!
//! What a caller may do is not decided here: that is the node's business, in the instant a request
//! is evaluated. Passwords, hashes and tokens appear in no log and in no error.

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
