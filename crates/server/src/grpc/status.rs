//! The one place where errors become gRPC statuses.
//!
//! Every match here names all variants: a new error of the node or the store does not compile until
//! its status is decided.

use tonic::{Code, Status};
use vetch_api::EtcdError;
use vetch_api::error::received_too_large;
use vetch_node::TransferError;
use vetch_node::archive::BackupError;
use vetch_node::error::NodeError;
use vetch_node::store::StoreError;
use vetch_node::store::auth::AuthError;

use crate::auth::{LoginError, PasswordError};

#[cfg(test)]
mod tests;

/// etcd's error for a refusal by the rules of the API.
pub(super) fn etcd_from_store(error: StoreError) -> EtcdError {
    match error {
        StoreError::EmptyKey => EtcdError::EmptyKey,
        StoreError::KeyNotFound => EtcdError::KeyNotFound,
        StoreError::ValueProvided => EtcdError::ValueProvided,
        StoreError::LeaseProvided => EtcdError::LeaseProvided,
        StoreError::TooManyOps => EtcdError::TooManyOps,
        StoreError::RequestTooLarge => EtcdError::RequestTooLarge,
        StoreError::DuplicateKey => EtcdError::DuplicateKey,
        StoreError::InvalidSortOption => EtcdError::InvalidSortOption,
        StoreError::Compacted => EtcdError::Compacted,
        StoreError::FutureRevision => EtcdError::FutureRev,
        StoreError::LeaseNotFound => EtcdError::LeaseNotFound,
        StoreError::LeaseExists => EtcdError::LeaseExist,
        StoreError::LeaseTtlTooLarge => EtcdError::LeaseTTLTooLarge,
        // Not reachable by a request of a client.
        StoreError::Misfit(_) => EtcdError::Corrupt,
        StoreError::Auth(error) => etcd_from_auth(error),
    }
}

/// etcd's error for a refusal by the rules of users and roles.
pub(super) fn etcd_from_auth(error: AuthError) -> EtcdError {
    match error {
        AuthError::RootUserNotExist => EtcdError::RootUserNotExist,
        AuthError::RootRoleNotExist => EtcdError::RootRoleNotExist,
        AuthError::UserAlreadyExist => EtcdError::UserAlreadyExist,
        AuthError::UserEmpty => EtcdError::UserEmpty,
        AuthError::UserNotFound => EtcdError::UserNotFound,
        AuthError::RoleAlreadyExist => EtcdError::RoleAlreadyExist,
        AuthError::RoleNotFound => EtcdError::RoleNotFound,
        AuthError::RoleEmpty => EtcdError::RoleEmpty,
        AuthError::PermissionNotGiven => EtcdError::PermissionNotGiven,
        AuthError::PermissionDenied => EtcdError::PermissionDenied,
        AuthError::RoleNotGranted => EtcdError::RoleNotGranted,
        AuthError::PermissionNotGranted => EtcdError::PermissionNotGranted,
        AuthError::OldRevision => EtcdError::AuthOldRevision,
        AuthError::InvalidManagement => EtcdError::InvalidAuthMgmt,
        AuthError::NoPasswordUser => EtcdError::NoPasswordUser,
    }
}

/// etcd's error for a request that was not served.
pub(super) fn etcd_from_node(error: NodeError) -> EtcdError {
    match error {
        NodeError::Store(error) => etcd_from_store(error),
        NodeError::TooManyRequests => EtcdError::RequestTooManyRequests,
        NodeError::NoSpace => EtcdError::NoSpace,
        NodeError::DiskFails => EtcdError::Unhealthy,
        NodeError::Corrupt => EtcdError::Corrupt,
        NodeError::Stopped => EtcdError::Stopped,
        NodeError::Timeout => EtcdError::Timeout,
        NodeError::NotLeader => EtcdError::NotLeader,
        NodeError::LeaderChanged => EtcdError::LeaderChanged,
    }
}

/// etcd's error for a leadership transfer that failed.
pub(super) fn etcd_from_leader_transfer(error: TransferError) -> EtcdError {
    match error {
        TransferError::NotLeader => EtcdError::NotLeader,
        TransferError::Unknown => EtcdError::BadLeaderTransferee,
        TransferError::Timeout => EtcdError::TimeoutLeaderTransfer,
    }
}

pub(super) fn etcd(error: EtcdError) -> Status {
    error.into()
}

pub(super) fn store(error: StoreError) -> Status {
    etcd(etcd_from_store(error))
}

pub(super) fn node(error: NodeError) -> Status {
    etcd(etcd_from_node(error))
}

pub(super) fn auth(error: AuthError) -> Status {
    etcd(etcd_from_auth(error))
}

/// The status of a failed login.
pub(super) fn login(error: LoginError) -> Status {
    etcd(match error {
        LoginError::NotEnabled => EtcdError::AuthNotEnabled,
        LoginError::Failed => EtcdError::AuthFailed,
        LoginError::NoPasswordUser => EtcdError::NoPasswordUser,
        LoginError::VerifyOnly => EtcdError::TokenVerifyOnly,
        LoginError::TooMany => EtcdError::RequestTooManyRequests,
        LoginError::UsersChanging => EtcdError::Timeout,
    })
}

/// The status of a password that could not be hashed.
pub(super) fn password(error: PasswordError) -> Status {
    match error {
        PasswordError::TooMany => etcd(EtcdError::RequestTooManyRequests),
        PasswordError::Failed => Status::internal("vetch: the password could not be hashed"),
    }
}

/// An error of Lock and Election, which keeps its text and loses its code on the way through them.
/// Only a server that stops is not relayed: there, clients of etcd see their own connection end,
/// which is "unavailable" to them.
pub(super) fn relayed(error: EtcdError) -> Status {
    if error == EtcdError::Stopped { etcd(error) } else { error.relayed() }
}

/// Refuses something that etcd does and Vetch does not. The text is our own.
pub(super) fn unsupported(what: &'static str) -> Status {
    Status::unimplemented(what)
}

/// The status of a backup that was not made. It is no part of etcd's API, so the text is our own.
pub(super) fn backup(error: BackupError) -> Status {
    let text = error.to_string();
    match error {
        BackupError::NotConfigured => Status::failed_precondition(text),
        BackupError::Busy => Status::resource_exhausted(text),
        BackupError::Failed(_) => Status::internal(text),
        BackupError::Stopped => Status::unavailable(text),
    }
}

/// Refuses a value that the API does not define and etcd has no error for.
pub(super) fn undefined(what: &'static str) -> Status {
    Status::invalid_argument(what)
}

/// The health service knows one name only.
pub(super) fn unknown_health_service() -> Status {
    Status::not_found("unknown service")
}

/// Refuses a path that names no service, in the words of etcd's RPC library.
pub(super) fn unknown_service(path: &str) -> Status {
    match path.strip_prefix('/').and_then(|path| path.rsplit_once('/')) {
        Some((service, _)) => Status::unimplemented(format!("unknown service {service}")),
        None => Status::unimplemented(format!("malformed method name: {path:?}")),
    }
}

/// Rewrites tonic's status of a broken request stream, for a service that ends cancelled streams
/// with `cancelled`.
pub(super) fn request_stream(status: Status, cancelled: EtcdError) -> Status {
    match received_too_large(status.code(), status.message()) {
        Some(reworded) => reworded,
        // The gateway uses `aborted` for a client that left: tonic takes `cancelled` for the end of
        // the requests.
        None if matches!(status.code(), Code::Cancelled | Code::Aborted) => etcd(cancelled),
        None => status,
    }
}

/// The status that etcd would send instead of the one that tonic made before any service ran: for a
/// message over the limit, or a method that does not exist.
pub(super) fn reworded(headers: &http::HeaderMap, path: &str) -> Option<Status> {
    let status = Status::from_header_map(headers)?;
    if status.code() == Code::Unimplemented && status.message().is_empty() {
        let (service, method) = path.strip_prefix('/')?.rsplit_once('/')?;
        return Some(Status::unimplemented(format!("unknown method {method} for service {service}")));
    }
    received_too_large(status.code(), status.message())
}
