//! Logging in, and what tokens are good for.

use tonic::{Code, Request};
use vetch_api::pb;
use vetch_tls::PeerIdentity;

use super::*;

fn login(name: &str, password: &str) -> pb::AuthenticateRequest {
    pb::AuthenticateRequest { name: name.into(), password: password.into() }
}

const FAILED: (Code, &str) =
    (Code::InvalidArgument, "etcdserver: authentication failed, invalid user ID or password");

#[tokio::test]
async fn no_user_logs_in_while_authentication_is_off() {
    let world = World::new().await;
    let expected = (Code::FailedPrecondition, "etcdserver: authentication is not enabled");
    assert_eq!(refused!(world.auth().authenticate(login("root", "x"))), expected);
}

#[tokio::test]
async fn only_the_right_password_gives_a_token() {
    let Guarded { world, root, .. } = guarded().await;
    assert_eq!(refused!(world.auth().authenticate(login("reader", "wrong"))), FAILED);
    assert_eq!(refused!(world.auth().authenticate(login("reader", ""))), FAILED);
    assert_eq!(refused!(world.auth().authenticate(login("missing", "pw"))), FAILED);
    let options = Some(authpb::UserAddOptions { no_password: true });
    let request = pb::AuthUserAddRequest { name: "cn".into(), options, ..Default::default() };
    world.auth().user_add(by(&root, request)).await.unwrap();
    let expected = (Code::Unknown, "auth: authentication failed, password was given for no password user");
    assert_eq!(refused!(world.auth().authenticate(login("cn", ""))), expected);
    // A bad token with the request does not matter.
    let token = world.auth().authenticate(by("bad", login("reader", "pw"))).await.unwrap().into_inner().token;
    let (word, index) = token.split_once('.').unwrap();
    assert!(word.len() == 16 && index.parse::<u64>().is_ok(), "{token}");
}

#[tokio::test]
async fn tokens_come_in_three_ways() {
    let Guarded { world, reader, .. } = guarded().await;
    for (name, value) in [
        ("token", reader.clone()),
        ("token", format!("Bearer {reader}")),
        ("authorization", reader.clone()),
        ("authorization", format!("Bearer {reader}")),
    ] {
        let mut request = Request::new(get("r/1", ""));
        request.metadata_mut().insert(name, value.parse().unwrap());
        assert_eq!(world.kv().range(request).await.unwrap().into_inner().count, 1, "{name}");
    }
    for bad in ["", "nonsense", "aaaaaaaaaaaaaaaa.1", "bearer x"] {
        assert_eq!(refused!(world.kv().range(by(bad, get("r/1", "")))), BAD_TOKEN, "{bad}");
    }
    assert_eq!(refused!(world.kv().range(get("r/1", ""))), NO_USER);
}

#[tokio::test]
async fn a_token_dies_with_its_user_and_with_its_password() {
    let Guarded { world, root, reader, writer } = guarded().await;
    let request = pb::AuthUserDeleteRequest { name: "reader".into() };
    world.auth().user_delete(by(&root, request)).await.unwrap();
    assert_eq!(refused!(world.kv().range(by(&reader, get("r/1", "")))), BAD_TOKEN);
    let request = pb::AuthUserChangePasswordRequest {
        name: "writer".into(),
        password: "other".into(),
        ..Default::default()
    };
    world.auth().user_change_password(by(&root, request)).await.unwrap();
    assert_eq!(refused!(world.kv().put(by(&writer, put("w/1")))), BAD_TOKEN);
    assert_eq!(refused!(world.auth().authenticate(login("writer", "pw"))), FAILED);
    let writer = world.log_in("writer", "other").await;
    world.kv().put(by(&writer, put("w/1"))).await.unwrap();
    // Changes of others and of roles do not touch it: it always speaks of now.
    let revoke = pb::AuthUserRevokeRoleRequest { name: "writer".into(), role: "writer".into() };
    world.auth().user_revoke_role(by(&root, revoke)).await.unwrap();
    assert_eq!(refused!(world.kv().put(by(&writer, put("w/1")))), DENIED);
}

#[tokio::test]
async fn turning_authentication_off_ends_all_tokens() {
    let Guarded { world, root, .. } = guarded().await;
    world.auth().auth_disable(by(&root, pb::AuthDisableRequest {})).await.unwrap();
    world.kv().range(by("nonsense", get("secret", ""))).await.unwrap();
    world.auth().auth_enable(pb::AuthEnableRequest {}).await.unwrap();
    assert_eq!(refused!(world.kv().range(by(&root, get("secret", "")))), BAD_TOKEN);
    let root = world.log_in("root", "rootpw").await;
    world.kv().range(by(&root, get("secret", ""))).await.unwrap();
}

#[tokio::test]
async fn a_hash_may_be_given_instead_of_a_password() {
    let Guarded { world, root, .. } = guarded().await;
    let with = |hashed: &str| pb::AuthUserChangePasswordRequest {
        name: "reader".into(),
        hashed_password: hashed.into(),
        ..Default::default()
    };
    // The hash of `secret` as Go makes it for etcd, in base64.
    let hash = "JDJhJDA0JGk1NlVwLm9CSmp3bEZGNlh4WkNpYnVoTFdMdnZvNTRVUVNaOTVWald5Zk1nRm15MlduNG9X";
    world.auth().user_change_password(by(&root, with(hash))).await.unwrap();
    world.log_in("reader", "secret").await;
    let refusal = refused!(world.auth().user_change_password(by(&root, with("no base64!"))));
    let expected = (Code::Unknown, "auth: authentication failed, password was given for no password user");
    assert_eq!(refusal, expected);
    // An empty password and no certificate make a user that cannot log in.
    world.auth().user_change_password(by(&root, with(""))).await.unwrap();
    assert_eq!(refused!(world.auth().authenticate(login("reader", ""))), FAILED);
}

#[tokio::test]
async fn long_passwords_are_refused_before_anything_else() {
    let world = World::new().await;
    let add = |name: &str, length: usize| pb::AuthUserAddRequest {
        name: name.into(),
        password: "x".repeat(length),
        ..Default::default()
    };
    let expected = (Code::Unknown, "bcrypt: password length exceeds 72 bytes");
    assert_eq!(refused!(world.auth().user_add(add("", 73))), expected);
    world.auth().user_add(add("long", 72)).await.unwrap();
}

/// A certificate's name is a user, but only where the server says so, and only without a token.
#[tokio::test]
async fn a_certificate_stands_for_its_user() {
    let world = World::with_certificates().await;
    world.put("r/1", "value").await;
    world.add_user("reader", "pw").await;
    world.permit("reader", 0, "r/", "r0").await;
    world.enable().await;
    let certified = |name: &str, request| {
        let mut request = Request::new(request);
        request.extensions_mut().insert(PeerIdentity::new(name));
        request
    };
    world.kv().range(certified("reader", get("r/1", ""))).await.unwrap();
    assert_eq!(refused!(world.kv().range(certified("reader", get("s", "")))), DENIED);
    assert_eq!(refused!(world.kv().range(certified("missing", get("r/1", "")))), DENIED);
    assert_eq!(refused!(world.kv().range(certified("", get("r/1", "")))), DENIED);
    let mut both = certified("reader", get("r/1", ""));
    both.metadata_mut().insert("token", "bad".parse().unwrap());
    assert_eq!(refused!(world.kv().range(both)), BAD_TOKEN, "a token is what counts");

    let Guarded { world, .. } = guarded().await;
    assert_eq!(refused!(world.kv().range(certified("reader", get("r/1", "")))), NO_USER);
}
