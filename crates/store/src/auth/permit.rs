//! Whether a caller may do what a request asks for.
//!
//! The order of the questions is etcd's, because it decides which refusal a client sees: is
//! authentication on, was a user named, has anything about users changed since, does the user
//! exist, does it have the root role, and only then its permissions.

use crate::record::Record;

use super::accounts::{Account, Auth};
use super::caller::Caller;
use super::{AuthError, keyset};

/// What is wanted of a range of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

impl Auth {
    /// Reading the keys of a range.
    pub fn check_read(&self, caller: &Caller, key: &[u8], range_end: &[u8]) -> Result<(), AuthError> {
        self.check(caller, key, range_end, Access::Read)
    }

    /// Writing one key.
    pub fn check_write(&self, caller: &Caller, key: &[u8]) -> Result<(), AuthError> {
        self.check(caller, key, b"", Access::Write)
    }

    /// Writing the keys of a range.
    pub fn check_write_range(&self, caller: &Caller, key: &[u8], range_end: &[u8]) -> Result<(), AuthError> {
        self.check(caller, key, range_end, Access::Write)
    }

    /// Being any user at all.
    pub fn check_user(&self, caller: &Caller) -> Result<(), AuthError> {
        if self.enabled && *caller == Caller::Anonymous { Err(AuthError::UserEmpty) } else { Ok(()) }
    }

    /// Reading `keys`, all of which hang on leases.
    pub fn check_lease_reads(&self, caller: &Caller, keys: &[Record]) -> Result<(), AuthError> {
        self.check_leased(caller, keys, Access::Read)
    }

    /// Renewing the lease that `keys` hang on.
    pub fn check_lease_renewal(&self, caller: &Caller, keys: &[Record]) -> Result<(), AuthError> {
        self.check_leased(caller, keys, Access::Write)
    }

    fn check_leased(&self, caller: &Caller, keys: &[Record], access: Access) -> Result<(), AuthError> {
        self.check_user(caller)?;
        if self.check_root(caller).is_ok() {
            return Ok(());
        }
        keys.iter().try_for_each(|version| self.check(caller, version.key(), b"", access))
    }

    /// Having the root role. An old revision is no obstacle: the role is looked up now.
    pub fn check_root(&self, caller: &Caller) -> Result<(), AuthError> {
        let name = match caller {
            _ if !self.enabled => return Ok(()),
            Caller::Server => return Ok(()),
            Caller::User { name, .. } if !name.is_empty() => name.as_ref(),
            _ => return Err(AuthError::UserEmpty),
        };
        let account = self.accounts.get(name).ok_or(AuthError::UserNotFound)?;
        if account.is_root() { Ok(()) } else { Err(AuthError::PermissionDenied) }
    }

    /// Reading a user: root may, and every user may read itself.
    pub fn check_look_at_user(&self, caller: &Caller, user: &str) -> Result<(), AuthError> {
        let is_self = matches!(caller, Caller::User { name, .. } if **name == *user);
        self.check_root(caller).or_else(|refusal| if is_self { Ok(()) } else { Err(refusal) })
    }

    /// Reading a role: root may, and users who have it.
    pub fn check_look_at_role(&self, caller: &Caller, role: &str) -> Result<(), AuthError> {
        let has_it = match caller {
            Caller::User { name, .. } => self.user(name).is_some_and(|user| user.roles.contains(role)),
            _ => false,
        };
        self.check_root(caller).or_else(|refusal| if has_it { Ok(()) } else { Err(refusal) })
    }

    /// A read that was let in at `caller`'s revision is answered only if that is still the current
    /// one. One that was let in because authentication was off is not answered once it is on: what
    /// it found may have been written under its protection.
    pub fn check_unchanged(&self, caller: &Caller) -> Result<(), AuthError> {
        match caller {
            Caller::User { revision, .. } if *revision != self.revision => Err(AuthError::OldRevision),
            Caller::Anonymous if self.enabled => Err(AuthError::UserEmpty),
            _ => Ok(()),
        }
    }

    fn check(&self, caller: &Caller, key: &[u8], range_end: &[u8], access: Access) -> Result<(), AuthError> {
        let Some(account) = self.account_of(caller)? else { return Ok(()) };
        let keys = self.roles_of(account).map(|role| match access {
            Access::Read => &role.reads,
            Access::Write => &role.writes,
        });
        if keyset::union_covers(keys, key, range_end) { Ok(()) } else { Err(AuthError::PermissionDenied) }
    }

    /// Whose permissions decide; None if no permission is needed.
    fn account_of(&self, caller: &Caller) -> Result<Option<&Account>, AuthError> {
        let (name, revision) = match caller {
            _ if !self.enabled => return Ok(None),
            Caller::Server => return Ok(None),
            Caller::Anonymous => return Err(AuthError::UserEmpty),
            // A token can claim any revision, and 0 is what a request without a user has.
            Caller::User { revision: 0, .. } => return Err(AuthError::UserEmpty),
            Caller::User { name, revision } => (name, *revision),
        };
        if revision < self.revision {
            return Err(AuthError::OldRevision);
        }
        let account = self.accounts.get(name.as_ref()).ok_or(AuthError::PermissionDenied)?;
        Ok((!account.is_root()).then_some(account))
    }
}
