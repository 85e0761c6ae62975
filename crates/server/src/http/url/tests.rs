use super::*;

fn parsed(text: &str) -> Url {
    Url::parse(text).unwrap()
}

#[test]
fn what_flags_hold_is_accepted() {
    for text in ["http://localhost:2379", "http://127.0.0.1:0", "https://[::1]:2379", "http://:2379"] {
        assert_eq!(parsed(text).to_string(), text);
    }
    assert_eq!(parsed(" HTTP://localhost:1 ").to_string(), "http://localhost:1");
    assert_eq!(parsed("unix:///run/vetch.sock").address(), "/run/vetch.sock");
    assert_eq!(parsed("unix://vetch:2379").address(), "vetch:2379");
    assert_eq!(parsed("https://[::1]:2379").host(), Some("::1"));
    for (text, secure) in
        [("https://a:1", true), ("unixs://a", true), ("http://a:1", false), ("unix:a", false)]
    {
        assert_eq!(parsed(text).is_secure(), secure, "{text}");
    }
}

#[test]
fn the_rest_is_refused_in_the_usual_words() {
    for (text, error) in [
        ("localhost:2379", "URL scheme must be http, https, unix, or unixs: localhost:2379"),
        ("ftp://localhost:2379", "URL scheme must be http, https, unix, or unixs: ftp://localhost:2379"),
        ("", "URL scheme must be http, https, unix, or unixs: "),
        ("http://localhost", "URL address does not have the form \"host:port\": http://localhost"),
        ("http://::1:2379", "URL address does not have the form \"host:port\": http://::1:2379"),
        ("http://localhost:2379/", "URL must not contain a path: http://localhost:2379/"),
        ("http://localhost:x", "parse \"http://localhost:x\": invalid port \":x\" after host"),
    ] {
        assert_eq!(Url::parse(text).unwrap_err().to_string(), error);
    }
}

#[test]
fn a_list_is_sorted_and_has_each_once() {
    let urls = Url::parse_list("http://b:1,http://a:1, http://b:1").unwrap();
    let texts: Vec<String> = urls.iter().map(Url::to_string).collect();
    assert_eq!(texts, ["http://a:1", "http://b:1"]);
    assert!(Url::parse_list("http://a:1,").is_err());
}

#[test]
fn names_cannot_be_listened_on_and_an_empty_host_cannot_be_called() {
    for text in ["http://localhost:1", "http://0.0.0.0:1", "http://[::]:1", "unix://x"] {
        assert_eq!(parsed(text).check_listen(), Ok(()), "{text}");
    }
    let error = parsed("http://example.com:1").check_listen().unwrap_err();
    assert_eq!(error.to_string(), "expected IP in URL for binding (http://example.com:1)");
    assert!(parsed("http://:1").check_listen().is_err());
    assert_eq!(parsed("http://example.com:1").check_advertise(), Ok(()));
    let error = parsed("http://:1").check_advertise().unwrap_err();
    assert_eq!(error.to_string(), "unexpected empty host (http://:1)");
}
