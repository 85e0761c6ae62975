//! The Cluster service.
//!
//! A server on a local journal checks requests as a one-member etcd does. Where etcd would then
//! change the membership, it refuses: another member with etcd's own "not enough started members",
//! because nothing replicates to it; new peer URLs with a text of our own, because nothing listens
//! on them.
//!
//! Servers on a shared journal register themselves when they start, and can be removed. MemberAdd
//! is refused with a text that says what to do instead.

use tonic::{Request, Response, Status};
use vetch_api::pb::cluster_server;
use vetch_api::{EtcdError, pb};
use vetch_members::Member;

use super::authorise::RequiredPermission;
use super::peer_url;
use super::service_context::ServiceContext;
use super::status;
use crate::auth::Credentials;

type GrpcResult<T> = Result<Response<T>, Status>;

pub(super) struct ClusterService(pub(super) ServiceContext);

impl ClusterService {
    fn own_id(&self) -> u64 {
        self.0.node.identity().member_id
    }

    fn is_shared(&self) -> bool {
        self.0.node.cluster().is_some()
    }

    async fn members(&self, newest: bool) -> Result<Vec<pb::Member>, Status> {
        if self.is_shared() {
            let members = self.0.node.members(newest).await.map_err(status::node)?;
            return Ok(members.iter().map(to_wire).collect());
        }
        let settings = &self.0.settings;
        Ok(vec![pb::Member {
            id: self.own_id(),
            name: settings.name.clone(),
            peer_ur_ls: settings.peer_urls.clone(),
            client_ur_ls: settings.client_urls.clone(),
            is_learner: false,
        }])
    }

    async fn known(&self, id: u64) -> Result<pb::Member, Status> {
        let members = self.members(true).await?;
        members.into_iter().find(|member| member.id == id).ok_or(status::etcd(EtcdError::MemberNotFound))
    }
}

fn to_wire(member: &Member) -> pb::Member {
    pb::Member {
        id: member.id,
        name: member.name.clone(),
        peer_ur_ls: member.peer_urls.clone(),
        client_ur_ls: member.client_urls.clone(),
        is_learner: false,
    }
}

#[tonic::async_trait]
impl cluster_server::Cluster for ClusterService {
    async fn member_add(&self, request: Request<pb::MemberAddRequest>) -> GrpcResult<pb::MemberAddResponse> {
        let (credentials, request) = Credentials::split(request);
        let urls = peer_url::parse(&request.peer_ur_ls).ok_or(status::etcd(EtcdError::MemberBadURLs))?;
        self.0.authorise(&credentials, RequiredPermission::Root)?;
        if self.is_shared() {
            return Err(status::unsupported(
                "vetch: add a server by starting it with the same --journal and a --name of its own",
            ));
        }
        if urls.iter().any(|url| self.0.settings.peer_urls.contains(url)) {
            return Err(status::etcd(EtcdError::PeerURLExist));
        }
        Err(status::etcd(EtcdError::MemberNotEnoughStarted))
    }

    async fn member_remove(
        &self,
        request: Request<pb::MemberRemoveRequest>,
    ) -> GrpcResult<pb::MemberRemoveResponse> {
        let (_, request) = self.0.authorise_request(request, RequiredPermission::Root)?;
        self.known(request.id).await?;
        if !self.is_shared() || self.members(false).await?.len() < 2 {
            // The last member cannot be removed.
            return Err(status::etcd(EtcdError::MemberNotEnoughStarted));
        }
        if !self.0.node.remove_member(request.id).await.map_err(status::node)? {
            return Err(status::etcd(EtcdError::MemberNotFound));
        }
        Ok(Response::new(pb::MemberRemoveResponse {
            header: self.0.header_without_revision(),
            members: self.members(false).await?,
        }))
    }

    async fn member_update(
        &self,
        request: Request<pb::MemberUpdateRequest>,
    ) -> GrpcResult<pb::MemberUpdateResponse> {
        let (_, request) = self.0.authorise_request(request, RequiredPermission::Root)?;
        let known = self.known(request.id).await?;
        if request.peer_ur_ls != known.peer_ur_ls {
            return Err(status::unsupported(match self.is_shared() {
                false => "vetch: the peer URLs of a single server cannot be changed while it runs",
                true => "vetch: a server announces its URLs when it starts; restart it with other URLs",
            }));
        }
        Ok(Response::new(pb::MemberUpdateResponse {
            header: self.0.header_without_revision(),
            members: self.members(false).await?,
        }))
    }

    /// A single server always knows the newest membership, so the linearizable flag changes nothing
    /// there.
    async fn member_list(
        &self,
        request: Request<pb::MemberListRequest>,
    ) -> GrpcResult<pb::MemberListResponse> {
        let (_, request) = self.0.authorise_request(request, RequiredPermission::User)?;
        Ok(Response::new(pb::MemberListResponse {
            header: self.0.header_without_revision(),
            members: self.members(request.linearizable).await?,
        }))
    }

    async fn member_promote(
        &self,
        request: Request<pb::MemberPromoteRequest>,
    ) -> GrpcResult<pb::MemberPromoteResponse> {
        let (_, request) = self.0.authorise_request(request, RequiredPermission::Root)?;
        self.known(request.id).await?;
        Err(status::etcd(EtcdError::MemberNotLearner))
    }
}
