//! The live form of users and roles: every rule that a change is judged by, and its effects.

use std::sync::Arc;

use crate::blocks::{Blocks, Entry};

use super::change::{Change, Hash};
use super::effect::{Effect, Effects};
use super::error::AuthError;
use super::keyset::KeySet;
use super::state::{AuthState, Permission, Role, User};
use super::{AuthError::*, ROOT};

/// A user.
#[derive(Debug)]
pub(super) struct Account {
    name: Arc<str>,
    pub(super) user: User,
    /// The auth revision at which the user or its password came to be, as far as this process
    /// knows.
    since: u64,
}

impl Account {
    /// The root role permits everything.
    pub(super) fn is_root(&self) -> bool {
        self.user.roles.contains(ROOT)
    }
}

impl Entry for Arc<Account> {
    type Key = str;

    fn key(&self) -> &str {
        &self.name
    }
}

/// A role, with the keys that all its permissions together are for.
#[derive(Debug)]
pub(super) struct KnownRole {
    name: Arc<str>,
    role: Role,
    pub(super) reads: KeySet,
    pub(super) writes: KeySet,
}

impl KnownRole {
    fn new(name: &str, role: Role) -> KnownRole {
        let (mut reads, mut writes) = (KeySet::default(), KeySet::default());
        for permission in &role.permissions {
            if permission.kind.reads() {
                reads.insert(&permission.key, &permission.range_end);
            }
            if permission.kind.writes() {
                writes.insert(&permission.key, &permission.range_end);
            }
        }
        KnownRole { name: name.into(), role, reads, writes }
    }
}

impl Entry for Arc<KnownRole> {
    type Key = str;

    fn key(&self) -> &str {
        &self.name
    }
}

/// A role, and a user that has it.
type Held = (Arc<str>, Arc<str>);

impl Entry for Held {
    type Key = Held;

    fn key(&self) -> &Held {
        self
    }
}

/// Users and roles, ready to decide. Readers share it, so the state machine copies it for each
/// change: that copies a pointer for every few hundred users, and one block of them. A change costs
/// what the user or the role itself is large, and the deletion of a role what its holders are;
/// nothing is derived for a user from its roles before a request is to be judged.
#[derive(Debug, Clone)]
pub struct Auth {
    pub(super) enabled: bool,
    pub(super) revision: u64,
    pub(super) accounts: Blocks<Arc<Account>>,
    roles: Blocks<Arc<KnownRole>>,
    /// Who has which role, by role.
    held: Blocks<Held>,
    /// What all of them count for in the size of the store.
    bytes: u64,
    /// The auth revision at which authentication was last turned off, as far as this process knows.
    off_at: u64,
}

/// What is durable of it: when this process came to know of a password is not.
impl PartialEq for Auth {
    fn eq(&self, other: &Auth) -> bool {
        self.state() == other.state()
    }
}

impl Eq for Auth {}

impl Default for Auth {
    fn default() -> Auth {
        Auth::from(AuthState::default())
    }
}

impl From<AuthState> for Auth {
    fn from(state: AuthState) -> Auth {
        let mut auth = Auth {
            enabled: state.enabled,
            revision: state.revision,
            accounts: Blocks::default(),
            roles: Blocks::default(),
            held: Blocks::default(),
            bytes: 0,
            off_at: 0,
        };
        for (name, role) in state.roles {
            auth.put_role(&name, Some(role));
        }
        for (name, user) in state.users {
            auth.set_user(&name, user, 0);
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

    /// How many users there are.
    pub fn users(&self) -> usize {
        self.accounts.len()
    }

    /// How many roles there are.
    pub fn roles(&self) -> usize {
        self.roles.len()
    }

    /// What users, roles, grants and permissions count for in the size of the store.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn user(&self, name: &str) -> Option<&User> {
        self.accounts.get(name).map(|account| &account.user)
    }

    pub fn role(&self, name: &str) -> Option<&Role> {
        self.roles.get(name).map(|known| &known.role)
    }

    pub fn user_names(&self) -> impl Iterator<Item = &str> {
        self.accounts.iter().map(|account| account.name.as_ref())
    }

    pub fn role_names(&self) -> impl Iterator<Item = &str> {
        self.roles.iter().map(|known| known.name.as_ref())
    }

    /// The roles of a user that exist.
    pub(super) fn roles_of(&self, account: &Account) -> impl Iterator<Item = &KnownRole> + Clone {
        account.user.roles.iter().filter_map(|name| self.roles.get(name)).map(Arc::as_ref)
    }

    /// Everything as plain data.
    pub fn state(&self) -> AuthState {
        let users = self.accounts.iter().map(|account| (account.name.to_string(), account.user.clone()));
        let roles = self.roles.iter().map(|known| (known.name.to_string(), known.role.clone()));
        AuthState {
            enabled: self.enabled,
            revision: self.revision,
            users: users.collect(),
            roles: roles.collect(),
        }
    }

    /// Whether what was proved with a password at auth revision `proved` still holds: the user is
    /// there, its password is the same, and authentication was not turned off in between.
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
        if self.accounts.get(name).is_some() {
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
        if self.roles.get(name).is_some() {
            return Err(RoleAlreadyExist);
        }
        Ok(vec![Effect::Role(name.to_owned(), Some(Role::default()))])
    }

    /// The grants of a role.
    fn grants_of(&self, role: &str) -> Vec<&Held> {
        let first: Held = (role.into(), "".into());
        self.held.iter_from(&first).take_while(|held| held.0 == first.0).collect()
    }

    /// Takes the role from everybody who has it.
    fn role_delete(&self, name: &str) -> Result<Vec<Effect>, AuthError> {
        if self.enabled && name == ROOT {
            return Err(InvalidManagement);
        }
        self.existing_role(name)?;
        let mut effects = vec![Effect::Role(name.to_owned(), None)];
        for (_, holder) in self.grants_of(name) {
            let mut user = self.existing(holder)?.user.clone();
            user.roles.remove(name);
            effects.push(Effect::User(holder.to_string(), Some(user)));
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
                Effect::User(name, Some(user)) => self.put_user(name, user.clone()),
                Effect::User(name, None) => self.remove_user(name),
                Effect::Role(name, role) => self.put_role(name, role.clone()),
            }
        }
    }

    fn put_user(&mut self, name: &str, user: User) {
        // A user that keeps its roles got a new password: nothing else changes one.
        let known = self.accounts.get(name).filter(|account| account.user.roles != user.roles);
        let since = known.map_or(self.revision, |account| account.since);
        self.set_user(name, user, since);
    }

    fn set_user(&mut self, name: &str, user: User, since: u64) {
        self.remove_user(name);
        let name: Arc<str> = name.into();
        for role in &user.roles {
            self.held.set((role.as_str().into(), Arc::clone(&name)));
        }
        self.bytes += user.bytes(&name);
        self.accounts.set(Arc::new(Account { name, user, since }));
    }

    fn remove_user(&mut self, name: &str) {
        let Some(account) = self.accounts.get(name).cloned() else { return };
        for role in &account.user.roles {
            self.held.remove(&(role.as_str().into(), Arc::clone(&account.name)));
        }
        self.bytes -= account.user.bytes(name);
        self.accounts.remove(name);
    }

    fn put_role(&mut self, name: &str, role: Option<Role>) {
        if let Some(known) = self.roles.get(name) {
            self.bytes -= known.role.bytes(name);
        }
        match role {
            Some(role) => {
                self.bytes += role.bytes(name);
                self.roles.set(Arc::new(KnownRole::new(name, role)));
            }
            None => self.roles.remove(name),
        }
    }
}
