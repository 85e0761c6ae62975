//! All users and roles as plain data, for checkpoints, snapshots and imports; and what they count
//! for in the quota.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

/// What a user or a role counts for in the size of the store, beside the bytes of its names.
pub const NAMED_BYTES: u64 = 256;
/// The same for a role that a user has, and for a permission of a role.
pub(super) const GRANT_BYTES: u64 = 128;
pub(super) const PERMISSION_BYTES: u64 = 256;

/// Everything there is to know about users and roles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthState {
    pub enabled: bool,
    /// Grows by one with every change of users and roles; 1 while nothing was ever changed.
    pub revision: u64,
    pub users: BTreeMap<String, User>,
    pub roles: BTreeMap<String, Role>,
}

impl Default for AuthState {
    fn default() -> AuthState {
        AuthState { enabled: false, revision: 1, users: BTreeMap::new(), roles: BTreeMap::new() }
    }
}

#[derive(Clone, PartialEq, Eq, Default)]
pub struct User {
    /// The bcrypt hash of the password as text (`$2a$10$...`). Empty: no password logs this user
    /// in.
    pub password: Bytes,
    /// This user is known by its certificate only; passwords are refused.
    pub no_password: bool,
    /// May name roles that do not exist; `root` means something even then.
    pub roles: BTreeSet<String>,
}

impl User {
    /// What this user counts for in the size of the store. A role of it is named in two places.
    pub(crate) fn bytes(&self, name: &str) -> u64 {
        let roles: usize = self.roles.iter().map(|role| 2 * role.len()).sum();
        let names = name.len() + self.password.len() + roles;
        NAMED_BYTES + GRANT_BYTES * self.roles.len() as u64 + names as u64
    }
}

/// Hashes stay out of logs, so they are not printed at all.
impl std::fmt::Debug for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("User")
            .field("no_password", &self.no_password)
            .field("roles", &self.roles)
            .finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Role {
    /// In order of their keys; no two have the same key and range end.
    pub permissions: Vec<Permission>,
}

impl Role {
    /// What this role counts for in the size of the store.
    pub(crate) fn bytes(&self, name: &str) -> u64 {
        let permissions: u64 = self.permissions.iter().map(Permission::bytes).sum();
        NAMED_BYTES + name.len() as u64 + permissions
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Permission {
    pub kind: PermissionKind,
    pub key: Bytes,
    /// Empty: the single key. A single zero byte: every key from `key` on. Else: up to this key,
    /// exclusive.
    pub range_end: Bytes,
}

impl Permission {
    /// What it counts for: itself, and what reads and writes are judged by.
    pub(crate) fn bytes(&self) -> u64 {
        PERMISSION_BYTES + (3 * self.key.len() + self.range_end.len()) as u64
    }

    /// For a key, for the keys from one on, or for a span that holds at least one key.
    pub fn is_range(&self) -> bool {
        let (key, end) = (&self.key, &self.range_end);
        !key.is_empty() && (end.is_empty() || end.as_ref() == [0] || key < end)
    }

    pub(crate) fn is_for(&self, key: &[u8], range_end: &[u8]) -> bool {
        self.key == key && self.range_end == range_end
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PermissionKind {
    Read,
    Write,
    ReadWrite,
    /// A number the API does not define. It is kept and shown, and permits nothing.
    Other(i32),
}

impl PermissionKind {
    /// The number the API and the files use.
    pub fn number(self) -> i32 {
        match self {
            PermissionKind::Read => 0,
            PermissionKind::Write => 1,
            PermissionKind::ReadWrite => 2,
            PermissionKind::Other(number) => number,
        }
    }

    pub fn of_number(number: i32) -> PermissionKind {
        match number {
            0 => PermissionKind::Read,
            1 => PermissionKind::Write,
            2 => PermissionKind::ReadWrite,
            other => PermissionKind::Other(other),
        }
    }

    pub fn reads(self) -> bool {
        matches!(self, PermissionKind::Read | PermissionKind::ReadWrite)
    }

    pub fn writes(self) -> bool {
        matches!(self, PermissionKind::Write | PermissionKind::ReadWrite)
    }
}
