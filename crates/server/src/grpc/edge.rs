//! What every service holds: the node, the settings, and the three things all of them do the same
//! way.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::{Request, Status};
use vetch_api::EtcdError;
use vetch_api::pb::ResponseHeader;
use vetch_node::Node;

use super::authorise::{Demand, Guard};
use super::settings::Settings;
use super::{size, status};
use crate::auth::{Authenticator, Credentials};
use crate::metrics::ServerMetrics;
use crate::offload::half_of_processors;

/// Shared by all services. Cloning copies pointers.
#[derive(Clone)]
pub(super) struct Edge {
    pub(super) node: Node,
    pub(super) settings: Arc<Settings>,
    pub(super) metrics: Arc<ServerMetrics>,
    guard: Guard,
    /// Turns to look through the queues of locks and elections, and to make lists of leases and
    /// their keys. Calls that become ready by the hundred would otherwise be served before anything
    /// that comes after them.
    pub(super) queue_turns: Arc<Semaphore>,
    pub(super) list_turns: Arc<Semaphore>,
}

impl Edge {
    pub(super) fn new(node: Node, settings: Arc<Settings>, metrics: Arc<ServerMetrics>) -> Edge {
        let authenticator = Arc::new(Authenticator::new(&settings.auth));
        let turns = || Arc::new(Semaphore::new(half_of_processors()));
        let (queue_turns, list_turns) = (turns(), turns());
        Edge { node, settings, metrics, guard: Guard::new(authenticator), queue_turns, list_turns }
    }

    /// The same, with a node that acts for somebody: for work that asks the node more than once.
    pub(super) fn with_node(&self, node: Node) -> Edge {
        Edge { node, ..self.clone() }
    }

    pub(super) fn authenticator(&self) -> &Authenticator {
        self.guard.authenticator()
    }

    /// Who writes: this server, or whoever does in its cluster; 0 if that is not known.
    pub(super) fn leader(&self) -> u64 {
        match self.node.cluster() {
            None => self.node.identity().member_id,
            Some(cluster) if cluster.borrow().silent => 0,
            Some(cluster) => cluster.borrow().writer.as_ref().map_or(0, |writer| writer.member),
        }
    }

    /// Whether it is known that nobody can decide anything, as far as this server sees.
    pub(super) fn has_no_leader(&self) -> bool {
        self.node.cluster().is_some_and(|cluster| cluster.borrow().silent)
    }

    /// The header of a response that shows the store at `revision`.
    pub(super) fn header(&self, revision: i64) -> Option<ResponseHeader> {
        let identity = self.node.identity();
        Some(ResponseHeader {
            cluster_id: identity.cluster_id,
            member_id: identity.member_id,
            revision,
            raft_term: self.node.term(),
        })
    }

    /// The header of a response that is about the store as it is now.
    pub(super) fn header_now(&self) -> Option<ResponseHeader> {
        self.header(self.node.revision())
    }

    /// The header of a response that has nothing to do with the store.
    pub(super) fn header_without_revision(&self) -> Option<ResponseHeader> {
        self.header(0)
    }

    /// Refuses a caller who may not do this. Every service asks, and touches only the node that it
    /// is given.
    pub(super) fn authorise(&self, credentials: &Credentials, demand: Demand<'_>) -> Result<Node, Status> {
        self.decide(credentials, demand).map_err(status::of)
    }

    /// The same for those who word the refusal themselves.
    pub(super) fn decide(&self, credentials: &Credentials, demand: Demand<'_>) -> Result<Node, EtcdError> {
        self.guard.check(&self.node, credentials, demand)
    }

    /// [`Edge::authorise`] for requests whose content does not matter to the decision; hands the
    /// content out.
    pub(super) fn admit<T>(&self, request: Request<T>, demand: Demand<'_>) -> Result<(Node, T), Status> {
        let (credentials, request) = Credentials::split(request);
        Ok((self.authorise(&credentials, demand)?, request))
    }

    /// A turn to make a list. It lasts until what holds it is encoded.
    pub(super) async fn list_turn(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.list_turns).acquire_owned().await.ok()
    }

    /// Refuses a write that is too large to be journalled in one piece.
    /// `len` is that of the message.
    pub(super) fn limit(&self, node: &Node, len: usize) -> Result<(), Status> {
        let bytes = size::replicated_len(len, node.identity().member_id, node.caller());
        if bytes > self.settings.max_request_bytes {
            return Err(status::of(EtcdError::RequestTooLarge));
        }
        Ok(())
    }
}
