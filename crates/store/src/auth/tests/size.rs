//! What users and roles take: in the size of the store, and of the time of a change.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::*;
use crate::auth::{AuthState, Role, User};

/// Everything that was counted for users and roles is counted from their state alone, whatever
/// happened to them.
#[test]
fn users_and_roles_are_counted_until_they_go() {
    let mut auth = Auth::default();
    assert_eq!(auth.bytes(), 0);
    let mut largest = 0;
    for what in [
        user_add("root"),
        grant_role("root", "root"),
        user_add("u"),
        role_add("r"),
        role_add("s"),
        grant("r", PermissionKind::Read, "a", "b"),
        grant("r", PermissionKind::ReadWrite, "a", "b"),
        grant("r", PermissionKind::Write, "c", ""),
        grant_role("u", "r"),
        grant_role("u", "s"),
        Change::UserChangePassword { name: "u".into(), password: hash("longer") },
        revoke("r", "a", "b"),
        role_delete("s"),
        revoke_role("u", "r"),
        grant_role("u", "r"),
        user_delete("u"),
        role_delete("r"),
        user_delete("root"),
    ] {
        let before = auth.bytes();
        let growth = what.growth();
        make(&mut auth, what.clone());
        assert!(auth.bytes() <= before + growth.max(8), "{what:?} grew more than it said");
        assert_eq!(auth.bytes(), Auth::from(auth.state()).bytes(), "{what:?}");
        largest = largest.max(auth.bytes());
    }
    assert_eq!(auth.bytes(), 0);
    assert!(largest > 1000, "{largest}");
}

/// Many users, each with a few roles, and one role that all of them have.
fn crowd(users: usize) -> Auth {
    let name = |number: usize| format!("user{number:06}");
    let roles = |number: usize| [format!("role{:03}", number % 500), "all".to_string()].into();
    let users = (0..users).map(|number| {
        (name(number), User { password: Bytes::from_static(b"h"), roles: roles(number), ..User::default() })
    });
    let range = |number: usize| permission(PermissionKind::Read, &format!("k{number:04}"), "");
    let all = Role { permissions: (0..1000).map(range).collect() };
    let roles = (0..500).map(|number| (format!("role{number:03}"), Role::default()));
    AuthState {
        users: users.collect(),
        roles: roles.chain([("all".to_string(), all)]).collect(),
        ..AuthState::default()
    }
    .into()
}

/// A change is made with the store locked, and while readers share what was there before. As every
/// change copied all users, and one of a role merged its permissions anew for each that holds it,
/// 122 of these took two minutes.
#[test]
#[expect(clippy::disallowed_methods, reason = "measures a time")]
fn a_change_takes_no_time_for_users_that_it_does_not_concern() {
    let mut auth = Arc::new(crowd(50_000));
    let began = Instant::now();
    for number in 0..1000 {
        let shared = Arc::clone(&auth);
        let auth = Arc::make_mut(&mut auth);
        make(auth, grant_role("user001234", "role007"));
        make(auth, revoke_role("user001234", "role007"));
        make(auth, user_add("another"));
        make(auth, user_delete("another"));
        make(auth, role_add("another"));
        make(auth, role_delete("another"));
        if number % 10 == 0 {
            make(auth, grant("all", PermissionKind::Write, &format!("k{number:04}"), ""));
        }
        assert_eq!((shared.users(), auth.users(), auth.roles()), (50_000, 50_000, 501));
    }
    let took = began.elapsed();
    assert!(took < Duration::from_secs(5), "6100 changes took {took:?}");
}

#[test]
fn a_role_that_goes_is_taken_from_those_who_have_it_and_no_others() {
    let mut auth = crowd(5_000);
    make(&mut auth, role_delete("role007"));
    let with = |auth: &Auth, role: &str| {
        auth.user_names().filter(|name| auth.user(name).is_some_and(|user| user.roles.contains(role))).count()
    };
    assert_eq!((with(&auth, "role007"), with(&auth, "role008"), with(&auth, "all")), (0, 10, 5_000));
    // A user that was deleted and one that was added again hold nothing that they were not granted.
    make(&mut auth, user_delete("user000008"));
    make(&mut auth, user_add("user000008"));
    make(&mut auth, role_delete("role008"));
    make(&mut auth, role_add("role008"));
    assert_eq!((with(&auth, "role008"), with(&auth, "all")), (0, 4_999));
}
