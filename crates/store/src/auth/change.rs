//! Changes of users and roles.

use bytes::Bytes;

use super::state::{GRANT_BYTES, NAMED_BYTES, PERMISSION_BYTES, Permission};

/// One change. It becomes one entry in the journal, or is refused, or has nothing to change.
#[derive(Clone, PartialEq, Eq)]
pub enum Change {
    Enable,
    Disable,
    UserAdd {
        name: String,
        password: Hash,
        no_password: bool,
    },
    UserDelete {
        name: String,
    },
    UserChangePassword {
        name: String,
        password: Hash,
    },
    UserGrantRole {
        user: String,
        role: String,
    },
    UserRevokeRole {
        user: String,
        role: String,
    },
    RoleAdd {
        name: String,
    },
    RoleDelete {
        name: String,
    },
    /// None: the request carried no permission.
    RoleGrantPermission {
        role: String,
        permission: Option<Permission>,
    },
    RoleRevokePermission {
        role: String,
        key: Bytes,
        range_end: Bytes,
    },
}

/// The bcrypt hash of a password; None if a client sent something that is no hash.
pub(super) type Hash = Option<Bytes>;

impl Change {
    /// Bytes that it may add to the size of the store; 0 for changes that add nothing, which are
    /// never refused for want of space. A password takes the place of another.
    pub fn growth(&self) -> u64 {
        match self {
            Change::UserAdd { .. } | Change::RoleAdd { .. } => NAMED_BYTES + self.size() as u64,
            Change::UserGrantRole { role, .. } => GRANT_BYTES + 2 * role.len() as u64,
            Change::RoleGrantPermission { permission, .. } => {
                permission.as_ref().map_or(PERMISSION_BYTES, Permission::bytes)
            }
            Change::Enable
            | Change::Disable
            | Change::UserDelete { .. }
            | Change::UserChangePassword { .. }
            | Change::UserRevokeRole { .. }
            | Change::RoleDelete { .. }
            | Change::RoleRevokePermission { .. } => 0,
        }
    }

    /// Bytes of everything in it.
    pub fn size(&self) -> usize {
        let hash = |password: &Hash| password.as_ref().map_or(0, Bytes::len);
        match self {
            Change::Enable | Change::Disable => 0,
            Change::UserAdd { name, password, .. } | Change::UserChangePassword { name, password } => {
                name.len() + hash(password)
            }
            Change::UserDelete { name } | Change::RoleAdd { name } | Change::RoleDelete { name } => {
                name.len()
            }
            Change::UserGrantRole { user, role } | Change::UserRevokeRole { user, role } => {
                user.len() + role.len()
            }
            Change::RoleGrantPermission { role, permission } => {
                let keys = |permission: &Permission| permission.key.len() + permission.range_end.len();
                role.len() + permission.as_ref().map_or(0, keys)
            }
            Change::RoleRevokePermission { role, key, range_end } => role.len() + key.len() + range_end.len(),
        }
    }
}

/// Hashes stay out of logs, and a name is enough to find a change again.
impl std::fmt::Debug for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (what, name) = match self {
            Change::Enable => ("Enable", ""),
            Change::Disable => ("Disable", ""),
            Change::UserAdd { name, .. } => ("UserAdd", name.as_str()),
            Change::UserDelete { name } => ("UserDelete", name.as_str()),
            Change::UserChangePassword { name, .. } => ("UserChangePassword", name.as_str()),
            Change::UserGrantRole { user, .. } => ("UserGrantRole", user.as_str()),
            Change::UserRevokeRole { user, .. } => ("UserRevokeRole", user.as_str()),
            Change::RoleAdd { name } => ("RoleAdd", name.as_str()),
            Change::RoleDelete { name } => ("RoleDelete", name.as_str()),
            Change::RoleGrantPermission { role, .. } => ("RoleGrantPermission", role.as_str()),
            Change::RoleRevokePermission { role, .. } => ("RoleRevokePermission", role.as_str()),
        };
        f.debug_tuple(what).field(&name).finish()
    }
}
