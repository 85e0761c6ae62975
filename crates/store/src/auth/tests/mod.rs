//! The rules of users and roles, one by one. What is expected was observed on etcd 3.7.1 unless a
//! test says otherwise.

mod changes;
mod permissions;
mod ranges;
mod size;
mod written;

use bytes::Bytes;

use super::{Auth, AuthError, Change, Permission, PermissionKind};

/// Makes a change and says how far the auth revision moved.
fn change(auth: &mut Auth, change: Change) -> Result<u64, AuthError> {
    let effects = auth.decide(&change)?;
    let before = auth.revision();
    auth.apply(&effects);
    Ok(auth.revision() - before)
}

fn make(auth: &mut Auth, what: Change) {
    change(auth, what).expect("the change is valid");
}

fn hash(text: &'static str) -> Option<Bytes> {
    Some(Bytes::from(text))
}

fn user_add(name: &str) -> Change {
    Change::UserAdd { name: name.into(), password: hash("h"), no_password: false }
}

fn user_delete(name: &str) -> Change {
    Change::UserDelete { name: name.into() }
}

fn role_add(name: &str) -> Change {
    Change::RoleAdd { name: name.into() }
}

fn role_delete(name: &str) -> Change {
    Change::RoleDelete { name: name.into() }
}

fn grant_role(user: &str, role: &str) -> Change {
    Change::UserGrantRole { user: user.into(), role: role.into() }
}

fn revoke_role(user: &str, role: &str) -> Change {
    Change::UserRevokeRole { user: user.into(), role: role.into() }
}

fn permission(kind: PermissionKind, key: &str, end: &str) -> Permission {
    Permission { kind, key: Bytes::from(key.to_owned()), range_end: Bytes::from(end.to_owned()) }
}

fn grant(role: &str, kind: PermissionKind, key: &str, end: &str) -> Change {
    Change::RoleGrantPermission { role: role.into(), permission: Some(permission(kind, key, end)) }
}

fn revoke(role: &str, key: &'static str, end: &'static str) -> Change {
    Change::RoleRevokePermission { role: role.into(), key: key.into(), range_end: end.into() }
}

/// Root with its role, `reader` who may read `r/...`, `writer` who may write `w/...` and read
/// nothing; enabled.
fn in_use() -> Auth {
    let mut auth = Auth::default();
    for user in ["root", "reader", "writer", "unprivileged"] {
        make(&mut auth, user_add(user));
    }
    make(&mut auth, grant_role("root", "root"));
    for (user, kind, key, end) in
        [("reader", PermissionKind::Read, "r/", "r0"), ("writer", PermissionKind::Write, "w/", "w0")]
    {
        make(&mut auth, role_add(user));
        make(&mut auth, grant(user, kind, key, end));
        make(&mut auth, grant_role(user, user));
    }
    make(&mut auth, Change::Enable);
    auth
}
