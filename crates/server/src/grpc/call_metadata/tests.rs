use http::{HeaderMap, HeaderValue};
use vetch_api::EtcdError;

use super::{check, wants_leader};

fn with_version(version: &[u8]) -> HeaderMap {
    HeaderMap::from_iter([("client-api-version".parse().unwrap(), HeaderValue::from_bytes(version).unwrap())])
}

#[test]
fn the_version_of_a_client_has_to_be_text() {
    assert_eq!(check(&HeaderMap::new()), Ok(()));
    assert_eq!(check(&with_version(b"3.7.1")), Ok(()));
    assert_eq!(check(&with_version("3.7.1-\u{e4}".as_bytes())), Ok(()));
    assert_eq!(check(&with_version(b"3.7\xff")), Err(EtcdError::InvalidClientAPIVersion));
}

#[test]
fn a_leader_is_required_if_the_headers_say_so() {
    let with = |value: &'static str| {
        HeaderMap::from_iter([("hasleader".parse().unwrap(), HeaderValue::from_static(value))])
    };
    assert!(wants_leader(&with("true")));
    assert!(!wants_leader(&with("false")) && !wants_leader(&HeaderMap::new()));
}
