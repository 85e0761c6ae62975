use super::parse;

fn ok(url: &str) -> bool {
    parse(&[url.to_owned()]).is_some()
}

/// Every line was asked of etcd 3.7.1.
#[test]
fn urls_are_judged_as_etcd_judges_them() {
    for good in ["unix://x", "unix:/tmp/x", "http://127.0.0.1:1?q", "http://u@h:1", " http://h:1 "] {
        assert!(ok(good), "{good}");
    }
    let bad = [
        "",
        "foo",
        "127.0.0.1:1",
        "ftp://127.0.0.1:1",
        "http://127.0.0.1",
        "http://127.0.0.1:1/path",
        "http://",
        "http:///x",
        "http://a/b:1",
        "http://127.0.0.1:x",
        "http://127.0.0.1:99999/",
    ];
    for bad in bad {
        assert!(!ok(bad), "{bad}");
    }
    assert_eq!(parse(&[]), None);
}

#[test]
fn an_ipv6_address_needs_brackets() {
    assert!(ok("https://[::1]:2380"));
    assert!(!ok("https://::1:2380"));
    assert!(!ok("https://[::1]"));
}
