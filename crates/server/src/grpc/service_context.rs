//! The context of every service: the node, the settings, and what all services do alike.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::{Request, Status};
use vetch_api::EtcdError;
use vetch_api::pb::ResponseHeader;
use vetch_node::Node;

use super::authorise::{Authorizer, RequiredPermission};
use super::settings::Settings;
use super::{size, status};
use crate::auth::{Authenticator, Credentials};
use crate::offload::half_of_cpus;
use crate::turns::SharedPermits;
use vetch_metrics::ServerMetrics;

/// Shared by all services. Cloning copies pointers.
#[derive(Clone)]
pub(super) struct ServiceContext {
    pub(super) node: Node,
    pub(super) settings: Arc<Settings>,
    pub(super) metrics: Arc<ServerMetrics>,
    authorizer: Authorizer,
    /// Permits to scan the queues of locks and elections, and to make lists of leases and their
    /// keys. Without them, hundreds of such calls that become ready together would delay every
    /// later call.
    pub(super) queue_permits: SharedPermits,
    pub(super) list_permits: Arc<Semaphore>,
}

impl ServiceContext {
    pub(super) fn new(node: Node, settings: Arc<Settings>, metrics: Arc<ServerMetrics>) -> ServiceContext {
        let authenticator = Arc::new(Authenticator::new(&settings.auth));
        let (queue_permits, list_permits) =
            (SharedPermits::default(), Arc::new(Semaphore::new(half_of_cpus())));
        ServiceContext {
            node,
            settings,
            metrics,
            authorizer: Authorizer::new(authenticator),
            queue_permits,
            list_permits,
        }
    }

    /// The same, with a node that acts for a user: for work that calls the node more than once.
    pub(super) fn with_node(&self, node: Node) -> ServiceContext {
        ServiceContext { node, ..self.clone() }
    }

    pub(super) fn authenticator(&self) -> &Authenticator {
        self.authorizer.authenticator()
    }

    /// The member id of the leader; 0 if it is not known.
    pub(super) fn leader(&self) -> u64 {
        match self.node.cluster() {
            None => self.node.identity().member_id,
            Some(cluster) if cluster.borrow().silent => 0,
            Some(cluster) => cluster.borrow().leader.as_ref().map_or(0, |leader| leader.member),
        }
    }

    /// Whether this server knows that there is no leader.
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

    /// Refuses a caller without permission. Every service calls this, and uses only the node that
    /// it returns.
    pub(super) fn authorise(
        &self,
        credentials: &Credentials,
        required: RequiredPermission<'_>,
    ) -> Result<Node, Status> {
        self.check_permission(credentials, required).map_err(status::etcd)
    }

    /// The same, for services with their own error text.
    pub(super) fn check_permission(
        &self,
        credentials: &Credentials,
        required: RequiredPermission<'_>,
    ) -> Result<Node, EtcdError> {
        self.authorizer.check(&self.node, credentials, required)
    }

    /// [`ServiceContext::authorise`] for requests whose content does not matter to the decision;
    /// returns the content.
    pub(super) fn authorise_request<T>(
        &self,
        request: Request<T>,
        required: RequiredPermission<'_>,
    ) -> Result<(Node, T), Status> {
        let (credentials, request) = Credentials::split(request);
        Ok((self.authorise(&credentials, required)?, request))
    }

    /// A permit to make a list. It is held until the list is encoded.
    pub(super) async fn list_permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.list_permits).acquire_owned().await.ok()
    }

    /// Refuses a write that is too large to be journalled in one piece.
    /// `len` is that of the message.
    pub(super) fn limit(&self, node: &Node, len: usize) -> Result<(), Status> {
        let bytes = size::replicated_len(len, node.identity().member_id, node.caller());
        if bytes > self.settings.max_request_bytes {
            return Err(status::etcd(EtcdError::RequestTooLarge));
        }
        Ok(())
    }
}
