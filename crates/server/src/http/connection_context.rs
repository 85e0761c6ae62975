//! Connection context: what the requests of one connection need.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use http::Request;
use parking_lot::Mutex;
use tonic::body::Body;
use vetch_http2::Holdings;
use vetch_tls::PeerIdentity;

use super::ServerState;
use super::listener_config::Serves;
use super::pending_connections::PendingConnection;
use super::shutdown::ShutdownToken;
use crate::remote::Remote;

/// The paths of the RPCs that need to know their client.
const FOR_A_CLIENT: [&str; 9] = [
    "/etcdserverpb.Watch/Watch",
    "/etcdserverpb.Maintenance/Snapshot",
    "/etcdserverpb.Auth/Authenticate",
    "/etcdserverpb.Auth/UserAdd",
    "/etcdserverpb.Auth/UserChangePassword",
    "/v3lockpb.Lock/Lock",
    "/v3electionpb.Election/Campaign",
    "/v3electionpb.Election/Leader",
    "/v3electionpb.Election/Observe",
];

/// What the requests of one connection need, behind one reference count.
pub(super) struct ConnectionContext {
    pub(super) shared: Arc<ServerState>,
    pub(super) serves: Serves,
    pub(super) shutdown: ShutdownToken,
    /// The connection uses TLS.
    pub(super) is_secure: bool,
    pub(super) peer: Option<PeerIdentity>,
    /// The account of the client for what the HTTP/2 connection does not count itself.
    pub(super) holdings: Holdings,
    pub(super) remote: Remote,
    pub(super) pending: UntilRequest,
}

/// Lists a connection as pending until its first request.
pub(super) struct UntilRequest {
    has_requested: AtomicBool,
    pending: Mutex<Option<PendingConnection>>,
}

impl From<PendingConnection> for UntilRequest {
    fn from(pending: PendingConnection) -> UntilRequest {
        UntilRequest { has_requested: AtomicBool::new(false), pending: Mutex::new(Some(pending)) }
    }
}

impl UntilRequest {
    fn end(&self) {
        if !self.has_requested.load(Relaxed) && !self.has_requested.swap(true, Relaxed) {
            self.pending.lock().take();
        }
    }
}

impl ConnectionContext {
    /// The client has sent a request: the connection is not pending any more.
    pub(super) fn note_request(&self) {
        self.pending.end();
    }

    /// The first step of every request.
    pub(super) fn prepare(&self, request: &mut Request<Body>) {
        self.note_request();
        if let Some(peer) = &self.peer {
            request.extensions_mut().insert(peer.clone());
        }
        if FOR_A_CLIENT.contains(&request.uri().path()) {
            request.extensions_mut().insert(self.remote.clone());
        }
    }
}
