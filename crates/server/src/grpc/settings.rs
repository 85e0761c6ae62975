//! The settings of the services.

use crate::auth;

/// How much longer than a request a gRPC message may be.
const MESSAGE_OVERHEAD: usize = 512 << 10;

#[derive(Debug, Clone)]
pub struct Settings {
    /// The member's human-readable name.
    pub name: String,
    /// The client URLs in the member list.
    pub client_urls: Vec<String>,
    /// The peer URLs in the member list.
    pub peer_urls: Vec<String>,
    /// Limit on a write request in the form in which etcd would replicate it.
    pub max_request_bytes: usize,
    /// Limit on the compares and on the operations of each branch of a transaction.
    pub max_txn_ops: usize,
    /// Settings of authentication.
    pub auth: auth::Settings,
}

impl Settings {
    /// Limit on a message as it arrives. Also the size above which a watch response is cut into
    /// fragments.
    pub fn max_message_bytes(&self) -> usize {
        self.max_request_bytes.saturating_add(MESSAGE_OVERHEAD)
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            name: "default".into(),
            client_urls: vec!["http://localhost:2379".into()],
            peer_urls: vec!["http://localhost:2380".into()],
            max_request_bytes: 3 << 19,
            max_txn_ops: 128,
            auth: auth::Settings::default(),
        }
    }
}
