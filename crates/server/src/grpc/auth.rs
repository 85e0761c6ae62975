//! The Auth service of a server that has no users and no roles.
//!
//! Everything is answered as etcd answers when authentication was never set up. What would store the first
//! user or the first role is refused, so nothing else can come to exist and every other answer stays true.

use tonic::{Request, Response, Status};
use vetch_api::pb::auth_server;
use vetch_api::{EtcdError, authpb, pb};

use super::authorise::Demand;
use super::edge::Edge;
use super::status;

type Answer<T> = Result<Response<T>, Status>;

/// Where the auth store's revisions start.
const FIRST_REVISION: u64 = 1;

pub(super) struct AuthService(pub(super) Edge);

impl AuthService {
    /// Refuses for a reason that holds whatever else the request says.
    fn refuse<Q, T>(&self, request: Request<Q>, reason: EtcdError) -> Answer<T> {
        self.0.admit(request, Demand::Root)?;
        Err(status::of(reason))
    }
}

#[tonic::async_trait]
impl auth_server::Auth for AuthService {
    async fn auth_enable(&self, request: Request<pb::AuthEnableRequest>) -> Answer<pb::AuthEnableResponse> {
        self.refuse(request, EtcdError::RootUserNotExist)
    }

    async fn auth_disable(
        &self,
        request: Request<pb::AuthDisableRequest>,
    ) -> Answer<pb::AuthDisableResponse> {
        self.0.admit(request, Demand::Root)?;
        Ok(Response::new(pb::AuthDisableResponse { header: self.0.header_now() }))
    }

    async fn auth_status(&self, request: Request<pb::AuthStatusRequest>) -> Answer<pb::AuthStatusResponse> {
        self.0.admit(request, Demand::Nothing)?;
        Ok(Response::new(pb::AuthStatusResponse {
            header: self.0.header_now(),
            enabled: false,
            auth_revision: FIRST_REVISION,
        }))
    }

    async fn authenticate(
        &self,
        request: Request<pb::AuthenticateRequest>,
    ) -> Answer<pb::AuthenticateResponse> {
        self.0.admit(request, Demand::Nothing)?;
        Err(status::of(EtcdError::AuthNotEnabled))
    }

    async fn user_add(&self, request: Request<pb::AuthUserAddRequest>) -> Answer<pb::AuthUserAddResponse> {
        let request = self.0.admit(request, Demand::Root)?;
        if request.name.is_empty() {
            return Err(status::of(EtcdError::UserEmpty));
        }
        Err(status::unsupported("vetch: users are not supported yet"))
    }

    async fn user_get(&self, request: Request<pb::AuthUserGetRequest>) -> Answer<pb::AuthUserGetResponse> {
        self.refuse(request, EtcdError::UserNotFound)
    }

    async fn user_list(&self, request: Request<pb::AuthUserListRequest>) -> Answer<pb::AuthUserListResponse> {
        self.0.admit(request, Demand::Root)?;
        Ok(Response::new(pb::AuthUserListResponse { header: self.0.header_now(), users: Vec::new() }))
    }

    async fn user_delete(
        &self,
        request: Request<pb::AuthUserDeleteRequest>,
    ) -> Answer<pb::AuthUserDeleteResponse> {
        self.refuse(request, EtcdError::UserNotFound)
    }

    async fn user_change_password(
        &self,
        request: Request<pb::AuthUserChangePasswordRequest>,
    ) -> Answer<pb::AuthUserChangePasswordResponse> {
        self.refuse(request, EtcdError::UserNotFound)
    }

    async fn user_grant_role(
        &self,
        request: Request<pb::AuthUserGrantRoleRequest>,
    ) -> Answer<pb::AuthUserGrantRoleResponse> {
        self.refuse(request, EtcdError::UserNotFound)
    }

    async fn user_revoke_role(
        &self,
        request: Request<pb::AuthUserRevokeRoleRequest>,
    ) -> Answer<pb::AuthUserRevokeRoleResponse> {
        self.refuse(request, EtcdError::UserNotFound)
    }

    async fn role_add(&self, request: Request<pb::AuthRoleAddRequest>) -> Answer<pb::AuthRoleAddResponse> {
        let request = self.0.admit(request, Demand::Root)?;
        if request.name.is_empty() {
            return Err(status::of(EtcdError::RoleEmpty));
        }
        Err(status::unsupported("vetch: roles are not supported yet"))
    }

    async fn role_get(&self, request: Request<pb::AuthRoleGetRequest>) -> Answer<pb::AuthRoleGetResponse> {
        self.refuse(request, EtcdError::RoleNotFound)
    }

    async fn role_list(&self, request: Request<pb::AuthRoleListRequest>) -> Answer<pb::AuthRoleListResponse> {
        self.0.admit(request, Demand::Root)?;
        Ok(Response::new(pb::AuthRoleListResponse { header: self.0.header_now(), roles: Vec::new() }))
    }

    async fn role_delete(
        &self,
        request: Request<pb::AuthRoleDeleteRequest>,
    ) -> Answer<pb::AuthRoleDeleteResponse> {
        self.refuse(request, EtcdError::RoleNotFound)
    }

    async fn role_grant_permission(
        &self,
        request: Request<pb::AuthRoleGrantPermissionRequest>,
    ) -> Answer<pb::AuthRoleGrantPermissionResponse> {
        let reason = match &request.get_ref().perm {
            None => EtcdError::PermissionNotGiven,
            Some(permission) if !is_range(permission) => EtcdError::InvalidAuthMgmt,
            Some(_) => EtcdError::RoleNotFound,
        };
        self.refuse(request, reason)
    }

    async fn role_revoke_permission(
        &self,
        request: Request<pb::AuthRoleRevokePermissionRequest>,
    ) -> Answer<pb::AuthRoleRevokePermissionResponse> {
        self.refuse(request, EtcdError::RoleNotFound)
    }
}

/// A permission is for a key, for the keys from one on, or for a span that holds at least one key.
fn is_range(permission: &authpb::Permission) -> bool {
    let (key, end) = (&permission.key, &permission.range_end);
    !key.is_empty() && (end.is_empty() || end.as_ref() == [0] || key < end)
}
