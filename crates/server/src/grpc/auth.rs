//! The Auth service: users, roles, and logins.
//!
//! Changes go to the node as they are, except that passwords are replaced by their hashes. The
//! caller's permission is checked before hashing, because hashing is expensive.

use std::sync::Arc;

use base64::Engine;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use prost::Message;
use tonic::{Request, Response, Status};
use vetch_api::pb::auth_server;
use vetch_api::{EtcdError, authpb, pb};
use vetch_node::Node;
use vetch_node::store::auth::{Change, Permission, PermissionKind, ROOT};

use super::authorise::RequiredPermission;
use super::service_context::ServiceContext;
use super::{status, unary_reply};
use crate::auth::{Credentials, PASSWORD_LEN_MAX};
use crate::remote::Remote;
use crate::turns::Turns;

type GrpcResult<T> = Result<Response<T>, Status>;

pub(super) struct AuthService(pub(super) ServiceContext);

impl AuthService {
    /// Makes a change if the node permits it. Returns the header of the response.
    async fn change<T: Message>(
        &self,
        request: Request<T>,
        change: impl FnOnce(T) -> Change,
    ) -> Result<Option<pb::ResponseHeader>, Status> {
        let (node, request) = self.0.authorise_request(request, RequiredPermission::CheckedByNode)?;
        self.0.limit(&node, request.encoded_len())?;
        self.make(&node, change(request)).await
    }

    async fn make(&self, node: &Node, change: Change) -> Result<Option<pb::ResponseHeader>, Status> {
        let description = format!("{change:?}");
        let revision = node.change_auth(change).await.map_err(status::node)?;
        tracing::info!(change = description, "users or roles changed");
        Ok(self.0.header(revision))
    }

    /// The hash of a password that root sets.
    async fn hash(&self, turns: Option<&Turns>, password: String) -> Result<Option<Bytes>, Status> {
        let hash = self.0.authenticator().hash(turns, password).await.map_err(status::password)?;
        Ok(Some(hash))
    }
}

/// The turns of the client, unless the call comes from within this process.
fn turns<T>(request: &Request<T>) -> Option<Arc<Turns>> {
    request.extensions().get::<Remote>().map(|remote| Arc::clone(&remote.turns))
}

/// Refused before any other check, as in etcd.
fn check_length(password: &str) -> Result<(), Status> {
    if password.len() > PASSWORD_LEN_MAX { Err(status::etcd(EtcdError::PasswordTooLong)) } else { Ok(()) }
}

#[tonic::async_trait]
impl auth_server::Auth for AuthService {
    async fn auth_enable(
        &self,
        request: Request<pb::AuthEnableRequest>,
    ) -> GrpcResult<pb::AuthEnableResponse> {
        let header = self.change(request, |_| Change::Enable).await?;
        Ok(Response::new(pb::AuthEnableResponse { header }))
    }

    async fn auth_disable(
        &self,
        request: Request<pb::AuthDisableRequest>,
    ) -> GrpcResult<pb::AuthDisableResponse> {
        let header = self.change(request, |_| Change::Disable).await?;
        Ok(Response::new(pb::AuthDisableResponse { header }))
    }

    async fn auth_status(
        &self,
        request: Request<pb::AuthStatusRequest>,
    ) -> GrpcResult<pb::AuthStatusResponse> {
        let (node, _) = self.0.authorise_request(request, RequiredPermission::CheckedByNode)?;
        let auth = node.auth();
        Ok(Response::new(pb::AuthStatusResponse {
            header: self.0.header_now(),
            enabled: auth.enabled(),
            auth_revision: auth.revision(),
        }))
    }

    async fn authenticate(
        &self,
        request: Request<pb::AuthenticateRequest>,
    ) -> GrpcResult<pb::AuthenticateResponse> {
        let turns = turns(&request);
        let (node, request) = self.0.authorise_request(request, RequiredPermission::NoCredentials)?;
        let login =
            self.0.authenticator().log_in(&node, turns.as_deref(), &request.name, &request.password).await;
        let token = login.map_err(|error| {
            tracing::info!(user = request.name, %error, "login failed");
            status::login(error)
        })?;
        Ok(Response::new(pb::AuthenticateResponse { header: self.0.header_now(), token }))
    }

    async fn user_add(
        &self,
        request: Request<pb::AuthUserAddRequest>,
    ) -> GrpcResult<pb::AuthUserAddResponse> {
        let turns = turns(&request);
        let (credentials, mut request) = Credentials::split(request);
        let no_password = request.options.as_ref().is_some_and(|options| options.no_password);
        if !no_password {
            check_length(&request.password)?;
        }
        let node = self.0.authorise(&credentials, RequiredPermission::Root)?;
        self.0.limit(&node, request.encoded_len())?;
        let password = match no_password {
            true => None,
            false => self.hash(turns.as_deref(), std::mem::take(&mut request.password)).await?,
        };
        let change = Change::UserAdd { name: request.name, password, no_password };
        let header = self.make(&node, change).await?;
        Ok(Response::new(pb::AuthUserAddResponse { header }))
    }

    async fn user_get(
        &self,
        request: Request<pb::AuthUserGetRequest>,
    ) -> GrpcResult<pb::AuthUserGetResponse> {
        let holdings = unary_reply::holdings(&request);
        let (node, request) = self.0.authorise_request(request, RequiredPermission::CheckedByNode)?;
        let auth = node.auth();
        auth.check_look_at_user(node.caller(), &request.name).map_err(status::auth)?;
        let user = auth.user(&request.name).ok_or(status::etcd(EtcdError::UserNotFound))?;
        let roles = user.roles.iter().cloned().collect();
        unary_reply::charged(
            holdings.as_ref(),
            None,
            pb::AuthUserGetResponse { header: self.0.header_now(), roles },
        )
    }

    async fn user_list(
        &self,
        request: Request<pb::AuthUserListRequest>,
    ) -> GrpcResult<pb::AuthUserListResponse> {
        let holdings = unary_reply::holdings(&request);
        let (node, _) = self.0.authorise_request(request, RequiredPermission::Root)?;
        let users = node.auth().user_names().map(str::to_owned).collect();
        unary_reply::charged(
            holdings.as_ref(),
            None,
            pb::AuthUserListResponse { header: self.0.header_now(), users },
        )
    }

    async fn user_delete(
        &self,
        request: Request<pb::AuthUserDeleteRequest>,
    ) -> GrpcResult<pb::AuthUserDeleteResponse> {
        let header = self.change(request, |request| Change::UserDelete { name: request.name }).await?;
        Ok(Response::new(pb::AuthUserDeleteResponse { header }))
    }

    /// Without a password, a hash may be given instead.
    async fn user_change_password(
        &self,
        request: Request<pb::AuthUserChangePasswordRequest>,
    ) -> GrpcResult<pb::AuthUserChangePasswordResponse> {
        let turns = turns(&request);
        let (credentials, mut request) = Credentials::split(request);
        check_length(&request.password)?;
        let node = self.0.authorise(&credentials, RequiredPermission::Root)?;
        self.0.limit(&node, request.encoded_len())?;
        let password = match request.password.is_empty() {
            true => given_hash(&request.hashed_password),
            false => self.hash(turns.as_deref(), std::mem::take(&mut request.password)).await?,
        };
        let change = Change::UserChangePassword { name: request.name, password };
        let header = self.make(&node, change).await?;
        Ok(Response::new(pb::AuthUserChangePasswordResponse { header }))
    }

    async fn user_grant_role(
        &self,
        request: Request<pb::AuthUserGrantRoleRequest>,
    ) -> GrpcResult<pb::AuthUserGrantRoleResponse> {
        let change = |request: pb::AuthUserGrantRoleRequest| Change::UserGrantRole {
            user: request.user,
            role: request.role,
        };
        let header = self.change(request, change).await?;
        Ok(Response::new(pb::AuthUserGrantRoleResponse { header }))
    }

    async fn user_revoke_role(
        &self,
        request: Request<pb::AuthUserRevokeRoleRequest>,
    ) -> GrpcResult<pb::AuthUserRevokeRoleResponse> {
        let change = |request: pb::AuthUserRevokeRoleRequest| Change::UserRevokeRole {
            user: request.name,
            role: request.role,
        };
        let header = self.change(request, change).await?;
        Ok(Response::new(pb::AuthUserRevokeRoleResponse { header }))
    }

    async fn role_add(
        &self,
        request: Request<pb::AuthRoleAddRequest>,
    ) -> GrpcResult<pb::AuthRoleAddResponse> {
        let header = self.change(request, |request| Change::RoleAdd { name: request.name }).await?;
        Ok(Response::new(pb::AuthRoleAddResponse { header }))
    }

    async fn role_get(
        &self,
        request: Request<pb::AuthRoleGetRequest>,
    ) -> GrpcResult<pb::AuthRoleGetResponse> {
        let holdings = unary_reply::holdings(&request);
        let (node, request) = self.0.authorise_request(request, RequiredPermission::CheckedByNode)?;
        let auth = node.auth();
        auth.check_look_at_role(node.caller(), &request.role).map_err(status::auth)?;
        let role = auth.role(&request.role).ok_or(status::etcd(EtcdError::RoleNotFound))?;
        let perm = match request.role.as_str() {
            // It permits everything, whatever was granted to it.
            ROOT => vec![everything()],
            _ => role.permissions.iter().map(shown).collect(),
        };
        unary_reply::charged(
            holdings.as_ref(),
            None,
            pb::AuthRoleGetResponse { header: self.0.header_now(), perm },
        )
    }

    async fn role_list(
        &self,
        request: Request<pb::AuthRoleListRequest>,
    ) -> GrpcResult<pb::AuthRoleListResponse> {
        let holdings = unary_reply::holdings(&request);
        let (node, _) = self.0.authorise_request(request, RequiredPermission::Root)?;
        let roles = node.auth().role_names().map(str::to_owned).collect();
        unary_reply::charged(
            holdings.as_ref(),
            None,
            pb::AuthRoleListResponse { header: self.0.header_now(), roles },
        )
    }

    async fn role_delete(
        &self,
        request: Request<pb::AuthRoleDeleteRequest>,
    ) -> GrpcResult<pb::AuthRoleDeleteResponse> {
        let header = self.change(request, |request| Change::RoleDelete { name: request.role }).await?;
        Ok(Response::new(pb::AuthRoleDeleteResponse { header }))
    }

    async fn role_grant_permission(
        &self,
        request: Request<pb::AuthRoleGrantPermissionRequest>,
    ) -> GrpcResult<pb::AuthRoleGrantPermissionResponse> {
        let change = |request: pb::AuthRoleGrantPermissionRequest| Change::RoleGrantPermission {
            role: request.name,
            permission: request.perm.map(permission),
        };
        let header = self.change(request, change).await?;
        Ok(Response::new(pb::AuthRoleGrantPermissionResponse { header }))
    }

    async fn role_revoke_permission(
        &self,
        request: Request<pb::AuthRoleRevokePermissionRequest>,
    ) -> GrpcResult<pb::AuthRoleRevokePermissionResponse> {
        let change = |request: pb::AuthRoleRevokePermissionRequest| Change::RoleRevokePermission {
            role: request.role,
            key: request.key,
            range_end: request.range_end,
        };
        let header = self.change(request, change).await?;
        Ok(Response::new(pb::AuthRoleRevokePermissionResponse { header }))
    }
}

fn permission(given: authpb::Permission) -> Permission {
    let kind = PermissionKind::of_number(given.perm_type);
    Permission { kind, key: given.key, range_end: given.range_end }
}

fn shown(permission: &Permission) -> authpb::Permission {
    let Permission { kind, key, range_end } = permission.clone();
    authpb::Permission { perm_type: kind.number(), key, range_end }
}

/// What the root role permits, in the form that etcd shows it.
fn everything() -> authpb::Permission {
    let perm_type = PermissionKind::ReadWrite.number();
    authpb::Permission { perm_type, key: Bytes::new(), range_end: Bytes::from_static(&[0]) }
}

/// A hash as a client may send it; None if it is not base64. Line breaks are ignored.
fn given_hash(text: &str) -> Option<Bytes> {
    let config = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::RequireCanonical);
    let engine = GeneralPurpose::new(&base64::alphabet::STANDARD, config);
    let text: String = text.chars().filter(|letter| !matches!(letter, '\r' | '\n')).collect();
    engine.decode(text).ok().map(Bytes::from)
}
