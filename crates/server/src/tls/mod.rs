//! TLS on listeners, and towards other servers.
//!
//! * [`settings`]: the settings from flags.
//! * [`Tls`]: an endpoint made from them: it does the handshakes of the listeners that share it,
//!   and reloads replaced files: certificate and key, the CAs of clients, and the revocation list.
//!   Open connections stay open.
//! * [`peer_connector`]: the client side, for calls to other servers of a cluster.
//! * [`PeerIdentity`]: the identity in a client's certificate.
//!
//! Not here: limits on the number and time of handshakes (`http`), and permissions of users
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
