//! The live form of users and roles: every rule that a change is judged by, and its effects.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::change::{Change, Hash};
use super::effect::{Effect, Effects};
use super::error::AuthError;
use super::keyset::KeySet;
use super::state::{AuthState, Permission, Role, User};
use super::{AuthError::*, ROOT};

/// A user, with the keys that all its roles together permit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Account {
    pub(super) user: User,
    pub(super) reads: KeySet,
    pub(super) writes: KeySet,
    /// The auth revision at which the user or its password came to be, as far as this process knows.
    pub(super) since: u64,
}

impl Account {
    /// Whoever has the root role may do everything.
    pub(super) fn is_root(&self) -> bool {
        self.user.roles.contains(ROOT)
    }
}

/// Users and roles, ready to decide. Cloning copies two maps of pointers; the state machine does so once per
/// change, and everybody else shares.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Auth {
    pub(super) enabled: bool,
    pub(super) revision: u64,
    pub(super) accounts: BTreeMap<String, Arc<Account>>,
    roles: BTreeMap<String, Arc<Role>>,
    /// The auth revision at which authentication was last turned off, as far as this process knows.
    off_at: u64,
}

impl Default for Auth {
    fn default() -> Auth {
        Auth::from(AuthState::default())
    }
}

impl From<AuthState> for Auth {
    fn from(state: AuthState) -> Auth {
        let roles = state.roles.into_iter().map(|(name, role)| (name, Arc::new(role))).collect();
        let mut auth = Auth {
            enabled: state.enabled,
            revision: state.revision,
            accounts: BTreeMap::new(),
            roles,
            off_at: 0,
        };
        for (name, user) in state.users {
            let account = auth.account(user, 0);
            auth.accounts.insert(name, account);
        }
        auth
    }
}

impl Auth {
    pub fn enabled(&self) -> bool {
        self.enabled
    }

    pub fn revision(&self) -> u64 {
        self.revision
    }

    pub fn user(&self, name: &str) -> Option<&User> {
        self.accounts.get(name).map(|account| &account.user)
    }

    pub fn role(&self, name: &str) -> Option<&Role> {
        self.roles.get(name).map(Arc::as_ref)
    }

    pub fn user_names(&self) -> impl Iterator<Item = &str> {
        self.accounts.keys().map(String::as_str)
    }

    pub fn role_names(&self) -> impl Iterator<Item = &str> {
        self.roles.keys().map(String::as_str)
    }

    /// Everything as plain data.
    pub fn state(&self) -> AuthState {
        let users = self.accounts.iter().map(|(name, account)| (name.clone(), account.user.clone()));
        let roles = self.roles.iter().map(|(name, role)| (name.clone(), role.as_ref().clone()));
        AuthState {
            enabled: self.enabled,
            revision: self.revision,
            users: users.collect(),
            roles: roles.collect(),
        }
    }

    /// Whether what was proved with a password at auth revision `proved` still holds: the user is there, its
    /// password is the same, and authentication was not turned off in between.
    pub fn still_holds(&self, user: &str, proved: u64) -> bool {
        self.off_at <= proved && self.accounts.get(user).is_some_and(|account| account.since <= proved)
    }

    /// What `change` does, or why it must not happen. Without effects there is nothing to change.
    pub(crate) fn decide(&self, change: &Change) -> Result<Effects, AuthError> {
        let effects = match change {
            Change::Enable => return self.enable(),
            Change::Disable if !self.enabled => Vec::new(),
            Change::Disable => vec![Effect::Enabled(false)],
            Change::UserAdd { name, password, no_password } => self.user_add(name, password, *no_password)?,
            Change::UserDelete { name } => self.user_delete(name)?,
            Change::UserChangePassword { name, password } => self.change_password(name, password)?,
            Change::UserGrantRole { user, role } => self.grant_role(user, role)?,
            Change::UserRevokeRole { user, role } => self.revoke_role(user, role)?,
            Change::RoleAdd { name } => self.role_add(name)?,
            Change::RoleDelete { name } => self.role_delete(name)?,
            Change::RoleGrantPermission { role, permission } => self.grant_permission(role, permission)?,
            Change::RoleRevokePermission { role, key, range_end } => {
                self.revoke_permission(role, key, range_end)?
            }
        };
        let revision = if effects.is_empty() { self.revision } else { self.revision + 1 };
        Ok(Effects { revision, effects })
    }

    /// The one change that leaves the revision as it is.
    fn enable(&self) -> Result<Effects, AuthError> {
        let mut effects = Vec::new();
        if !self.enabled {
            if !self.existing(ROOT).map_err(|_| RootUserNotExist)?.is_root() {
                return Err(RootRoleNotExist);
            }
            effects.push(Effect::Enabled(true));
        }
        Ok(Effects { revision: self.revision, effects })
    }

    fn existing(&self, name: &str) -> Result<&Account, AuthError> {
        self.accounts.get(name).map(Arc::as_ref).ok_or(UserNotFound)
    }

    fn existing_role(&self, name: &str) -> Result<&Role, AuthError> {
        self.role(name).ok_or(RoleNotFound)
    }

    fn user_add(&self, name: &str, password: &Hash, no_password: bool) -> Result<Vec<Effect>, AuthError> {
        if name.is_empty() {
            return Err(UserEmpty);
        }
        if self.accounts.contains_key(name) {
            return Err(UserAlreadyExist);
        }
        let mut user = User { no_password, ..User::default() };
        if !no_password {
            user.password = password.clone().ok_or(NoPasswordUser)?;
        }
        Ok(vec![Effect::User(name.to_owned(), Some(user))])
    }

    fn user_delete(&self, name: &str) -> Result<Vec<Effect>, AuthError> {
        if self.enabled && name == ROOT {
            return Err(InvalidManagement);
        }
        self.existing(name)?;
        Ok(vec![Effect::User(name.to_owned(), None)])
    }

    fn change_password(&self, name: &str, password: &Hash) -> Result<Vec<Effect>, AuthError> {
        let mut user = self.existing(name)?.user.clone();
        if !user.no_password {
            user.password = password.clone().ok_or(NoPasswordUser)?;
        }
        Ok(vec![Effect::User(name.to_owned(), Some(user))])
    }

    /// The root role can be granted without existing.
    fn grant_role(&self, name: &str, role: &str) -> Result<Vec<Effect>, AuthError> {
        let mut user = self.existing(name)?.user.clone();
        if role != ROOT {
            self.existing_role(role)?;
        }
        if !user.roles.insert(role.to_owned()) {
            return Ok(Vec::new());
        }
        Ok(vec![Effect::User(name.to_owned(), Some(user))])
    }

    fn revoke_role(&self, name: &str, role: &str) -> Result<Vec<Effect>, AuthError> {
        if self.enabled && name == ROOT && role == ROOT {
            return Err(InvalidManagement);
        }
        let mut user = self.existing(name)?.user.clone();
        if !user.roles.remove(role) {
            return Err(RoleNotGranted);
        }
        Ok(vec![Effect::User(name.to_owned(), Some(user))])
    }

    fn role_add(&self, name: &str) -> Result<Vec<Effect>, AuthError> {
        if name.is_empty() {
            return Err(RoleEmpty);
        }
        if self.roles.contains_key(name) {
            return Err(RoleAlreadyExist);
        }
        Ok(vec![Effect::Role(name.to_owned(), Some(Role::default()))])
    }

    /// Takes the role from everybody who has it.
    fn role_delete(&self, name: &str) -> Result<Vec<Effect>, AuthError> {
        if self.enabled && name == ROOT {
            return Err(InvalidManagement);
        }
        self.existing_role(name)?;
        let mut effects = vec![Effect::Role(name.to_owned(), None)];
        for (user_name, account) in &self.accounts {
            let mut user = account.user.clone();
            if user.roles.remove(name) {
                effects.push(Effect::User(user_name.clone(), Some(user)));
            }
        }
        Ok(effects)
    }

    fn grant_permission(
        &self,
        role_name: &str,
        permission: &Option<Permission>,
    ) -> Result<Vec<Effect>, AuthError> {
        let permission = permission.as_ref().ok_or(PermissionNotGiven)?;
        if !permission.is_range() {
            return Err(InvalidManagement);
        }
        let mut role = self.existing_role(role_name)?.clone();
        let same = |other: &&mut Permission| other.is_for(&permission.key, &permission.range_end);
        match role.permissions.iter_mut().find(same) {
            Some(same) => same.kind = permission.kind,
            None => {
                let at = role.permissions.partition_point(|other| other.key <= permission.key);
                role.permissions.insert(at, permission.clone());
            }
        }
        Ok(vec![Effect::Role(role_name.to_owned(), Some(role))])
    }

    fn revoke_permission(&self, name: &str, key: &[u8], range_end: &[u8]) -> Result<Vec<Effect>, AuthError> {
        let mut role = self.existing_role(name)?.clone();
        let before = role.permissions.len();
        role.permissions.retain(|permission| !permission.is_for(key, range_end));
        if role.permissions.len() == before {
            return Err(PermissionNotGranted);
        }
        Ok(vec![Effect::Role(name.to_owned(), Some(role))])
    }

    /// Makes effects real, decided just now or read from the journal.
    pub(crate) fn apply(&mut self, effects: &Effects) {
        self.revision = effects.revision;
        for effect in &effects.effects {
            match effect {
                Effect::Enabled(on) => {
                    self.enabled = *on;
                    if !on {
                        self.off_at = self.revision;
                    }
                }
                Effect::User(name, Some(user)) => self.put_user(name, user),
                Effect::User(name, None) => {
                    self.accounts.remove(name);
                }
                Effect::Role(name, role) => self.put_role(name, role.as_ref()),
            }
        }
    }

    fn put_user(&mut self, name: &str, user: &User) {
        // Whoever keeps the same roles got a new password: nothing else changes a user.
        let known = self.accounts.get(name).filter(|account| account.user.roles != user.roles);
        let since = known.map_or(self.revision, |account| account.since);
        let account = self.account(user.clone(), since);
        self.accounts.insert(name.to_owned(), account);
    }

    fn put_role(&mut self, name: &str, role: Option<&Role>) {
        match role {
            Some(role) => self.roles.insert(name.to_owned(), Arc::new(role.clone())),
            None => self.roles.remove(name),
        };
        let mut accounts = std::mem::take(&mut self.accounts);
        for account in accounts.values_mut().filter(|account| account.user.roles.contains(name)) {
            *account = self.account(account.user.clone(), account.since);
        }
        self.accounts = accounts;
    }

    /// Merges the permissions of all roles of a user.
    fn account(&self, user: User, since: u64) -> Arc<Account> {
        let (mut reads, mut writes) = (KeySet::default(), KeySet::default());
        let roles = user.roles.iter().filter_map(|name| self.roles.get(name));
        for permission in roles.flat_map(|role| &role.permissions) {
            if permission.kind.reads() {
                reads.insert(&permission.key, &permission.range_end);
            }
            if permission.kind.writes() {
                writes.insert(&permission.key, &permission.range_end);
            }
        }
        Arc::new(Account { user, reads, writes, since })
    }
}
