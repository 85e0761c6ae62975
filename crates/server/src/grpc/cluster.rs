//! The Cluster service of a cluster that has one member and cannot have more yet.
//!
//! Requests are judged as a one-member etcd judges them. Where etcd would then change the membership, this
//! refuses: a further member with etcd's own "not enough started members", because nothing could replicate to
//! it; new peer addresses with a text of our own, because there is nothing that would listen on them.

use tonic::{Request, Response, Status};
use vetch_api::pb::cluster_server;
use vetch_api::{EtcdError, pb};

use super::authorise::Demand;
use super::edge::Edge;
use super::peer_url;
use super::status;
use crate::auth::Credentials;

type Answer<T> = Result<Response<T>, Status>;

pub(super) struct ClusterService(pub(super) Edge);

impl ClusterService {
    fn own_id(&self) -> u64 {
        self.0.node.identity().member_id
    }

    fn members(&self) -> Vec<pb::Member> {
        let settings = &self.0.settings;
        vec![pb::Member {
            id: self.own_id(),
            name: settings.name.clone(),
            peer_ur_ls: settings.peer_urls.clone(),
            client_ur_ls: settings.client_urls.clone(),
            is_learner: false,
        }]
    }

    fn known(&self, id: u64) -> Result<(), Status> {
        if id == self.own_id() { Ok(()) } else { Err(status::of(EtcdError::MemberNotFound)) }
    }
}

#[tonic::async_trait]
impl cluster_server::Cluster for ClusterService {
    async fn member_add(&self, request: Request<pb::MemberAddRequest>) -> Answer<pb::MemberAddResponse> {
        let (credentials, request) = Credentials::split(request);
        let urls = peer_url::parse(&request.peer_ur_ls).ok_or(status::of(EtcdError::MemberBadURLs))?;
        self.0.authorise(&credentials, Demand::Root)?;
        if urls.iter().any(|url| self.0.settings.peer_urls.contains(url)) {
            return Err(status::of(EtcdError::PeerURLExist));
        }
        Err(status::of(EtcdError::MemberNotEnoughStarted))
    }

    async fn member_remove(
        &self,
        request: Request<pb::MemberRemoveRequest>,
    ) -> Answer<pb::MemberRemoveResponse> {
        let (_, request) = self.0.admit(request, Demand::Root)?;
        self.known(request.id)?;
        // The last member cannot go.
        Err(status::of(EtcdError::MemberNotEnoughStarted))
    }

    async fn member_update(
        &self,
        request: Request<pb::MemberUpdateRequest>,
    ) -> Answer<pb::MemberUpdateResponse> {
        let (_, request) = self.0.admit(request, Demand::Root)?;
        self.known(request.id)?;
        if request.peer_ur_ls != self.0.settings.peer_urls {
            return Err(status::unsupported(
                "vetch: the peer URLs of a single server cannot be changed while it runs",
            ));
        }
        Ok(Response::new(pb::MemberUpdateResponse {
            header: self.0.header_without_revision(),
            members: self.members(),
        }))
    }

    /// The one member always knows the newest membership, so the linearizable flag changes nothing.
    async fn member_list(&self, request: Request<pb::MemberListRequest>) -> Answer<pb::MemberListResponse> {
        self.0.admit(request, Demand::User)?;
        Ok(Response::new(pb::MemberListResponse {
            header: self.0.header_without_revision(),
            members: self.members(),
        }))
    }

    async fn member_promote(
        &self,
        request: Request<pb::MemberPromoteRequest>,
    ) -> Answer<pb::MemberPromoteResponse> {
        let (_, request) = self.0.admit(request, Demand::Root)?;
        self.known(request.id)?;
        Err(status::of(EtcdError::MemberNotLearner))
    }
}
