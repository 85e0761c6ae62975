use super::*;

#[test]
fn paths_are_cleaned_as_go_does() {
    for (path, clean) in [
        ("/", "/"),
        ("/v3/kv/range", "/v3/kv/range"),
        ("/v3//kv/range", "/v3/kv/range"),
        ("/v3/kv/range/", "/v3/kv/range/"),
        ("/v3/./x/../kv", "/v3/kv"),
        ("/../..", "/"),
    ] {
        assert_eq!(cleaned(path), clean, "{path}");
    }
}

#[test]
fn redirects_say_where_to() {
    let get = |path: &str| Request::builder().uri(path).body(()).unwrap();
    let redirect = redirect_to_clean(&get("/v3"), true).unwrap();
    assert_eq!(redirect.status(), StatusCode::TEMPORARY_REDIRECT);
    assert_eq!(redirect.headers()[LOCATION], "/v3/");
    assert!(redirect_to_clean(&get("/v3"), false).is_none());
    assert_eq!(redirect_to_clean(&get("//health?a=b"), true).unwrap().headers()[LOCATION], "/health?a=b");
    assert!(redirect_to_clean(&get("/health?a=b"), true).is_none());
}

#[test]
fn the_old_prefix_is_the_new_one() {
    let mut request = Request::builder().uri("/v3beta/kv/range?x=1").body(()).unwrap();
    rewrite_old_prefix(&mut request);
    assert_eq!(request.uri().to_string(), "/v3/kv/range?x=1");
    let mut other = Request::builder().uri("/v3betamax/kv").body(()).unwrap();
    rewrite_old_prefix(&mut other);
    assert_eq!(other.uri().to_string(), "/v3betamax/kv");
}

/// Two connections may have as many streams as there may be calls in all.
#[test]
fn a_connection_with_few_calls_is_served_whatever_others_have() {
    assert!(!is_beyond_its_share(CALLS_MAX - 1, 65_536), "there is room for all");
    assert!(is_beyond_its_share(CALLS_MAX, CALLS_SHARE + 1));
    assert!(!is_beyond_its_share(CALLS_MAX, CALLS_SHARE));
    assert!(is_beyond_its_share(2 * CALLS_MAX, CALLS_SHARE_MIN + 1));
    assert!(!is_beyond_its_share(u64::MAX, CALLS_SHARE_MIN));
}
