//! The journal's bytes of users and roles: frozen, replayed, and refused when damaged.

use super::*;
use crate::auth::{AuthState, decode_state, encode_state};
use crate::payload::BadCommand;
use crate::request::WriteRequest;
use crate::state::Store;

/// Everything that can be asked for, once.
fn changes() -> Vec<Change> {
    vec![
        Change::UserAdd { name: "root".into(), password: hash("$2a$10$hash"), no_password: false },
        Change::UserAdd { name: "cn".into(), password: None, no_password: true },
        grant_role("root", "root"),
        role_add("r"),
        grant("r", PermissionKind::ReadWrite, "a", "b"),
        grant("r", PermissionKind::Read, "k", ""),
        grant("r", PermissionKind::Other(-1), "z", "\0"),
        grant_role("cn", "r"),
        Change::Enable,
        Change::UserChangePassword { name: "root".into(), password: hash("new") },
        revoke("r", "k", ""),
        role_add("s"),
        role_delete("r"),
        user_delete("cn"),
        Change::Disable,
    ]
}

fn evaluated(store: &mut Store, what: Change) -> Vec<u8> {
    let mut journal = Vec::new();
    store.evaluate(&WriteRequest::Auth(what), &mut journal).expect("the change is valid");
    journal
}

#[test]
fn replay_gives_the_same_users_and_roles() {
    let (mut store, mut again) = (Store::default(), Store::default());
    for what in changes() {
        let journal = evaluated(&mut store, what.clone());
        assert!(again.replay(&journal).expect("just written").is_empty(), "no keys change");
        assert_eq!(again.auth().state(), store.auth().state(), "{what:?}");
        assert_eq!(again.auth(), store.auth(), "{what:?}");
    }
    assert_eq!(store.head().revision, 1, "users have nothing to do with the revisions of keys");
}

#[test]
fn what_changes_nothing_leaves_nothing_in_the_journal() {
    let mut store = Store::default();
    assert!(evaluated(&mut store, Change::Disable).is_empty());
    evaluated(&mut store, user_add("u"));
    evaluated(&mut store, grant_role("u", "root"));
    assert!(evaluated(&mut store, grant_role("u", "root")).is_empty());
}

#[test]
fn a_whole_state_survives_as_bytes() {
    let mut auth = Auth::default();
    for what in changes() {
        make(&mut auth, what);
        let mut bytes = Vec::new();
        encode_state(&auth.state(), &mut bytes);
        assert_eq!(decode_state(&bytes), Some(auth.state()));
        for cut in 1..bytes.len() {
            assert_ne!(decode_state(&bytes[..cut]), Some(auth.state()), "cut at {cut}");
        }
    }
    let mut bytes = Vec::new();
    encode_state(&AuthState::default(), &mut bytes);
    assert_eq!(decode_state(&bytes), Some(AuthState::default()));
}

#[test]
fn damaged_bytes_are_refused() {
    let mut store = Store::default();
    let journal = evaluated(&mut store, user_add("u"));
    let mut fresh = Store::default();
    for cut in 1..journal.len() {
        assert!(fresh.replay(&journal[..cut]).is_err(), "cut at {cut}");
    }
    let refused = |at: usize, byte: u8| {
        let mut bytes = journal.clone();
        bytes[at] = byte;
        Store::default().replay(&bytes).expect_err("damaged")
    };
    let misfit = |why| BadCommand::Misfit(why);
    assert_eq!(refused(5, 3), misfit("users and roles of another revision"));
    assert_eq!(refused(5, 0), misfit("users and roles of another revision"));
    assert_eq!(refused(13, 9), BadCommand::UnknownTag(9));
    assert_eq!(refused(22, 0xff), misfit("a name that is no text"));
    assert_eq!(refused(23, 2), misfit("unknown property of a user"));
}
