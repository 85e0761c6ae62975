//! What every service holds: the node, the settings, and the three things all of them do the same way.

use std::sync::Arc;

use prost::Message;
use tonic::metadata::MetadataMap;
use tonic::{Request, Status};
use vetch_api::EtcdError;
use vetch_api::pb::ResponseHeader;
use vetch_node::Node;

use super::authorise::{Demand, Guard};
use super::settings::Settings;
use super::{size, status};

/// Shared by all services. Cloning copies pointers.
#[derive(Clone)]
pub(super) struct Edge {
    pub(super) node: Node,
    pub(super) settings: Arc<Settings>,
    guard: Guard,
}

impl Edge {
    pub(super) fn new(node: Node, settings: Arc<Settings>) -> Edge {
        Edge { node, settings, guard: Guard }
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

    /// Refuses a caller who may not do this. Every service asks before it touches the node.
    pub(super) fn authorise(&self, metadata: &MetadataMap, demand: Demand<'_>) -> Result<(), Status> {
        self.guard.check(metadata, demand)
    }

    /// [`Edge::authorise`] for requests whose content does not matter to the decision; hands the content out.
    pub(super) fn admit<T>(&self, request: Request<T>, demand: Demand<'_>) -> Result<T, Status> {
        self.authorise(request.metadata(), demand)?;
        Ok(request.into_inner())
    }

    /// Refuses a write that is too large to be journalled in one piece.
    pub(super) fn limit(&self, request: &impl Message) -> Result<(), Status> {
        let bytes = size::replicated_len(request, self.node.identity().member_id);
        if bytes > self.settings.max_request_bytes {
            return Err(status::of(EtcdError::RequestTooLarge));
        }
        Ok(())
    }
}
