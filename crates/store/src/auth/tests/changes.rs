//! Which change is refused for which reason, and what each one does to the auth revision.

use super::*;
use crate::auth::AuthError::*;

#[test]
fn authentication_needs_a_root_user_with_the_root_role() {
    let mut auth = Auth::default();
    assert_eq!(change(&mut auth, Change::Enable), Err(RootUserNotExist));
    make(&mut auth, user_add("root"));
    assert_eq!(change(&mut auth, Change::Enable), Err(RootRoleNotExist));
    // The role can be granted without existing.
    assert_eq!(change(&mut auth, grant_role("root", "root")), Ok(1));
    assert!(auth.role("root").is_none());
    let before = auth.revision();
    assert_eq!(change(&mut auth, Change::Enable), Ok(0));
    assert!(auth.enabled());
    assert_eq!(change(&mut auth, Change::Enable), Ok(0), "enabling again changes nothing");
    assert_eq!(change(&mut auth, Change::Disable), Ok(1));
    assert_eq!(change(&mut auth, Change::Disable), Ok(0), "disabling again changes nothing");
    assert_eq!(auth.revision(), before + 1);
}

#[test]
fn the_first_revision_is_one() {
    assert_eq!(Auth::default().revision(), 1);
}

#[test]
fn users_are_added_once_and_have_a_name() {
    let mut auth = Auth::default();
    assert_eq!(change(&mut auth, user_add("")), Err(UserEmpty));
    assert_eq!(change(&mut auth, user_add("u")), Ok(1));
    assert_eq!(change(&mut auth, user_add("u")), Err(UserAlreadyExist));
    let no_hash = Change::UserAdd { name: "v".into(), password: None, no_password: false };
    assert_eq!(change(&mut auth, no_hash), Err(NoPasswordUser));
    let no_password = Change::UserAdd { name: "v".into(), password: hash("ignored"), no_password: true };
    assert_eq!(change(&mut auth, no_password), Ok(1));
    let user = auth.user("v").unwrap();
    assert!(user.no_password && user.password.is_empty());
}

#[test]
fn users_are_deleted_but_not_root_while_it_is_needed() {
    let mut auth = in_use();
    assert_eq!(change(&mut auth, user_delete("root")), Err(InvalidManagement));
    assert_eq!(change(&mut auth, user_delete("missing")), Err(UserNotFound));
    assert_eq!(change(&mut auth, user_delete("reader")), Ok(1));
    assert!(auth.user("reader").is_none());
    make(&mut auth, Change::Disable);
    assert_eq!(change(&mut auth, user_delete("root")), Ok(1));
}

#[test]
fn passwords_change() {
    let mut auth = in_use();
    let new = |name: &str, password| Change::UserChangePassword { name: name.into(), password };
    assert_eq!(change(&mut auth, new("missing", None)), Err(UserNotFound), "the user is looked for first");
    assert_eq!(change(&mut auth, new("reader", None)), Err(NoPasswordUser));
    assert_eq!(change(&mut auth, new("reader", hash("new"))), Ok(1));
    assert_eq!(auth.user("reader").unwrap().password, "new");
    assert!(auth.user("reader").unwrap().roles.contains("reader"), "roles stay");
    make(&mut auth, Change::UserAdd { name: "cn".into(), password: None, no_password: true });
    assert_eq!(change(&mut auth, new("cn", None)), Ok(1), "whatever was given, there is none to set");
    assert_eq!(auth.user("cn").unwrap().password, "");
}

#[test]
fn roles_are_granted_to_users_and_taken_back() {
    let mut auth = in_use();
    assert_eq!(change(&mut auth, grant_role("missing", "missing")), Err(UserNotFound));
    assert_eq!(change(&mut auth, grant_role("reader", "missing")), Err(RoleNotFound));
    assert_eq!(change(&mut auth, grant_role("reader", "writer")), Ok(1));
    assert_eq!(change(&mut auth, grant_role("reader", "writer")), Ok(0), "nothing left to grant");
    assert_eq!(change(&mut auth, revoke_role("missing", "writer")), Err(UserNotFound));
    assert_eq!(change(&mut auth, revoke_role("reader", "writer")), Ok(1));
    assert_eq!(change(&mut auth, revoke_role("reader", "writer")), Err(RoleNotGranted));
    assert_eq!(change(&mut auth, revoke_role("root", "root")), Err(InvalidManagement));
    make(&mut auth, grant_role("reader", "root"));
    assert_eq!(change(&mut auth, revoke_role("reader", "root")), Ok(1), "only root must keep it");
    make(&mut auth, Change::Disable);
    assert_eq!(change(&mut auth, revoke_role("root", "root")), Ok(1));
}

#[test]
fn roles_come_and_go() {
    let mut auth = in_use();
    assert_eq!(change(&mut auth, role_add("")), Err(RoleEmpty));
    assert_eq!(change(&mut auth, role_add("reader")), Err(RoleAlreadyExist));
    assert_eq!(change(&mut auth, role_delete("missing")), Err(RoleNotFound));
    assert_eq!(change(&mut auth, role_delete("root")), Err(InvalidManagement), "even if there is none");
    assert_eq!(change(&mut auth, role_add("root")), Ok(1));
    assert_eq!(change(&mut auth, role_delete("reader")), Ok(1), "one revision, however many have it");
    assert!(auth.user("reader").unwrap().roles.is_empty());
    make(&mut auth, Change::Disable);
    assert_eq!(change(&mut auth, role_delete("root")), Ok(1));
    assert!(auth.user("root").unwrap().roles.is_empty());
}

#[test]
fn permissions_are_granted_in_etcds_order_of_checks() {
    let mut auth = in_use();
    let none = Change::RoleGrantPermission { role: "missing".into(), permission: None };
    assert_eq!(change(&mut auth, none), Err(PermissionNotGiven));
    let read = PermissionKind::Read;
    for (key, end) in [("", "z"), ("", ""), ("b", "a"), ("b", "b")] {
        assert_eq!(
            change(&mut auth, grant("missing", read, key, end)),
            Err(InvalidManagement),
            "{key} {end}"
        );
    }
    assert_eq!(change(&mut auth, grant("missing", read, "b", "\0")), Err(RoleNotFound));
    assert_eq!(change(&mut auth, grant("reader", read, "b", "\0")), Ok(1));
    assert_eq!(change(&mut auth, grant("reader", read, "b", "\0")), Ok(1), "granting again counts");
    assert_eq!(change(&mut auth, revoke("missing", "b", "\0")), Err(RoleNotFound));
    assert_eq!(change(&mut auth, revoke("reader", "b", "")), Err(PermissionNotGranted));
    assert_eq!(change(&mut auth, revoke("reader", "b", "\0")), Ok(1));
    assert_eq!(auth.role("reader").unwrap().permissions, [permission(read, "r/", "r0")]);
}

/// etcd adds a second permission instead when another one with the same key comes first, and the
/// wider of the two stays in force. Here the last word counts.
#[test]
fn granting_a_range_again_replaces_what_it_permits() {
    let mut auth = in_use();
    let (read, both) = (PermissionKind::Read, PermissionKind::ReadWrite);
    make(&mut auth, role_add("two"));
    for end in ["b", "c"] {
        make(&mut auth, grant("two", both, "a", end));
    }
    make(&mut auth, grant("two", read, "a", "c"));
    let expected = [permission(both, "a", "b"), permission(read, "a", "c")];
    assert_eq!(auth.role("two").unwrap().permissions, expected);
}

#[test]
fn permissions_are_kept_in_order_of_their_keys() {
    let mut auth = in_use();
    for (key, end) in [("x", ""), ("a", "b"), ("r/", "\0"), ("a", "")] {
        make(&mut auth, grant("reader", PermissionKind::Write, key, end));
    }
    let keys: Vec<_> = auth
        .role("reader")
        .unwrap()
        .permissions
        .iter()
        .map(|p| (p.key.clone(), p.range_end.clone()))
        .collect();
    let expected = [("a", "b"), ("a", ""), ("r/", "r0"), ("r/", "\0"), ("x", "")];
    assert_eq!(keys, expected.map(|(key, end)| (Bytes::from(key), Bytes::from(end))));
}

/// What a password proved holds until the user goes, gets another password, or authentication is
/// turned off.
#[test]
fn proofs_end_with_what_they_prove() {
    let mut auth = in_use();
    let proved = auth.revision();
    make(&mut auth, grant_role("reader", "writer"));
    make(&mut auth, role_delete("writer"));
    make(&mut auth, grant("reader", PermissionKind::Read, "x", ""));
    assert!(auth.still_holds("reader", proved), "roles have nothing to do with it");
    make(&mut auth, Change::UserChangePassword { name: "reader".into(), password: hash("h") });
    assert!(!auth.still_holds("reader", proved), "even if the password is the same");
    assert!(auth.still_holds("reader", auth.revision()));
    assert!(auth.still_holds("writer", proved));
    make(&mut auth, user_delete("writer"));
    assert!(!auth.still_holds("writer", proved));
    make(&mut auth, user_add("writer"));
    assert!(!auth.still_holds("writer", proved), "another user of the same name");
    assert!(auth.still_holds("unprivileged", proved));
    make(&mut auth, Change::Disable);
    make(&mut auth, Change::Enable);
    assert!(!auth.still_holds("unprivileged", proved));
    assert!(auth.still_holds("unprivileged", auth.revision()));
}
