//! TLS on listeners, and towards other servers.
//!
//! * [`settings`]: what was asked for.
//! * [`Tls`]: what came of it: it does the handshakes of the listeners that share it, and notices
//!   when the files it was made from are replaced. That holds for certificate and key, for the
//!   authorities that clients are trusted by, and for the list of revoked certificates; connections
//!   that are open stay as they are.
//! * [`peer_connector`]: the other end, for servers of a cluster that call each other.
//! * [`PeerIdentity`]: what a client's certificate says of the client.
//!
//! Not here: how many handshakes may be under way and for how long (`http`), and what a name may do
//! (`grpc`).

mod cipher;
mod client_verifier;
mod endpoint;
mod error;
mod failures;
mod files;
mod handshake;
mod material;
mod peer;
pub mod peer_connector;
mod self_signed;
pub mod settings;

pub use endpoint::Tls;
pub use error::TlsError;
pub(crate) use failures::Reason;
pub(crate) use handshake::{HandshakeError, close_gracefully};
pub use peer::PeerIdentity;
