//! Keys in every form that etcd takes, and what is refused.

use std::time::Duration;

use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519};
use vetch_node::store::auth::Caller;

use super::{Jwt, JwtError};

struct Keys {
    dir: tempfile::TempDir,
}

impl Keys {
    fn new() -> Keys {
        Keys { dir: tempfile::tempdir().unwrap() }
    }

    fn file(&self, name: &str, content: &str) -> String {
        let path = self.dir.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

fn jwt(options: &[(&str, &str)]) -> Result<Jwt, JwtError> {
    let options: Vec<_> = options.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    Jwt::new(&options, |text| text.strip_suffix('s')?.parse().ok().map(Duration::from_secs))
}

/// Signed with one, verified by the other, and by no other key.
fn check(signing: &Jwt, verifying: &Jwt) {
    let token = signing.sign("alice", 7).expect("it has a private key");
    assert_eq!(verifying.verify(&token), Some(Caller::user("alice", 7)));
    let (head, signature) = token.rsplit_once('.').unwrap();
    let tampered = format!("{head}x.{signature}");
    assert_eq!(verifying.verify(&tampered), None);
    assert_eq!(verifying.verify(head), None);
    assert_eq!(verifying.verify(""), None);
}

#[test]
fn elliptic_curves_in_all_forms() {
    let keys = Keys::new();
    for (method, kind) in
        [("ES256", &PKCS_ECDSA_P256_SHA256), ("ES384", &PKCS_ECDSA_P384_SHA384), ("EdDSA", &PKCS_ED25519)]
    {
        let pair = KeyPair::generate_for(kind).unwrap();
        let private = keys.file("priv", &pair.serialize_pem());
        let public = keys.file("pub", &pair.public_key_pem());
        let signer = jwt(&[("sign-method", method), ("priv-key", &private)]).unwrap();
        let both = jwt(&[("sign-method", method), ("priv-key", &private), ("pub-key", &public)]).unwrap();
        let verifier = jwt(&[("sign-method", method), ("pub-key", &public)]).unwrap();
        check(&signer, &verifier);
        check(&both, &signer);
        assert_eq!(verifier.sign("alice", 7), None, "there is no key to sign with");
        let other = keys.file("other", &KeyPair::generate_for(kind).unwrap().public_key_pem());
        let mismatch = jwt(&[("sign-method", method), ("priv-key", &private), ("pub-key", &other)]);
        assert!(matches!(mismatch, Err(JwtError::Mismatch)), "{mismatch:?}");
    }
}

/// Made with `openssl ecparam -name prime256v1 -genkey -noout`.
const SEC1: &str = "-----BEGIN EC PRIVATE KEY-----
MHcCAQEEIP2L40GnblTciJHGgXE46V14HDiCy1OPTSzBwRUoeod8oAoGCCqGSM49
AwEHoUQDQgAEvEeFPdKf0dVbZIaQXJvWZER8c4U50X3H7TXIuTvJJzur29wpByfl
XP9wpNyEKUfnT9Y9GxtDiajNL99M4l195A==
-----END EC PRIVATE KEY-----
";

#[test]
fn the_older_form_of_openssl() {
    let keys = Keys::new();
    let private = keys.file("priv", SEC1);
    let signer = jwt(&[("sign-method", "ES256"), ("priv-key", &private)]).unwrap();
    check(&signer, &signer);
}

#[test]
fn secrets_are_the_content_of_a_file() {
    let keys = Keys::new();
    let secret = keys.file("secret", "not much of a secret");
    for method in ["HS256", "HS384", "HS512"] {
        let jwt = jwt(&[("sign-method", method), ("priv-key", &secret)]).unwrap();
        check(&jwt, &jwt);
    }
    let other = keys.file("other", "another");
    let (one, two) = (
        jwt(&[("sign-method", "HS256"), ("priv-key", &secret)]).unwrap(),
        jwt(&[("sign-method", "HS256"), ("priv-key", &other)]).unwrap(),
    );
    assert_eq!(two.verify(&one.sign("alice", 7).unwrap()), None);
    let longer = jwt(&[("sign-method", "HS512"), ("priv-key", &secret)]).unwrap();
    assert_eq!(longer.verify(&one.sign("alice", 7).unwrap()), None, "another method than the one asked for");
}

#[test]
fn a_token_ends() {
    let keys = Keys::new();
    let secret = keys.file("secret", "s");
    let short = jwt(&[("sign-method", "HS256"), ("priv-key", &secret), ("ttl", "1s")]).unwrap();
    let token = short.sign("alice", 7).unwrap();
    assert!(short.verify(&token).is_some());
    std::thread::sleep(Duration::from_millis(2100));
    assert_eq!(short.verify(&token), None);
}

#[test]
fn options_that_mean_nothing_are_refused() {
    let keys = Keys::new();
    let garbage = keys.file("garbage", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n");
    let missing = keys.dir.path().join("missing").to_str().unwrap().to_owned();
    let says = |options: &[(&str, &str)]| jwt(options).unwrap_err().to_string();
    assert!(says(&[]).contains("sign-method is missing"));
    assert!(says(&[("sign-method", "none")]).contains("\"none\" is not supported"));
    assert!(says(&[("sign-method", "ES512")]).contains("is not supported; use one of RS256"));
    assert!(says(&[("sign-method", "RS256")]).contains("RSA needs a key"));
    assert!(says(&[("sign-method", "HS256"), ("pub-key", &garbage)]).contains("HMAC needs a key"));
    assert!(says(&[("sign-method", "RS256"), ("priv-key", &missing)]).contains("cannot read priv-key"));
    assert!(says(&[("sign-method", "RS256"), ("pub-key", &garbage)]).contains("is no RSA key"));
    assert!(says(&[("sign-method", "ES256"), ("priv-key", &garbage)]).contains("is no EC key"));
    assert!(says(&[("sign-method", "HS256"), ("ttl", "soon")]).contains("is no duration"));
}
