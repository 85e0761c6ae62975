//! Why a change of users and roles, or a request by one of them, is refused. The names are etcd's.

/// A refusal by the rules of authentication. The state is unchanged whenever one is returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    #[error("root user does not exist")]
    RootUserNotExist,
    #[error("root user does not have root role")]
    RootRoleNotExist,
    #[error("user name already exists")]
    UserAlreadyExist,
    #[error("user name is empty")]
    UserEmpty,
    #[error("user name not found")]
    UserNotFound,
    #[error("role name already exists")]
    RoleAlreadyExist,
    #[error("role name not found")]
    RoleNotFound,
    #[error("role name is empty")]
    RoleEmpty,
    #[error("permission not given")]
    PermissionNotGiven,
    #[error("permission denied")]
    PermissionDenied,
    #[error("role is not granted to the user")]
    RoleNotGranted,
    #[error("permission is not granted to the role")]
    PermissionNotGranted,
    #[error("revision of auth store is old")]
    OldRevision,
    #[error("invalid auth management")]
    InvalidManagement,
    #[error("password was given for no password user")]
    NoPasswordUser,
}
