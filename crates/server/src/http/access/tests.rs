use super::*;

fn request(host: &str, origin: Option<&str>) -> Request<()> {
    let mut builder = Request::builder().uri("/version").header(HOST, host);
    if let Some(origin) = origin {
        builder = builder.header(ORIGIN, origin);
    }
    builder.body(()).unwrap()
}

#[test]
fn a_star_or_nothing_admits_everyone() {
    for list in ["*", "", "a.example,*"] {
        let access = Access { origins: Whitelist::parse(list), hosts: Whitelist::parse(list) };
        assert!(access.refusal(&request("evil.example:2379", None)).is_none(), "{list}");
        let origin = access.cors_headers(request("x", None).headers());
        assert_eq!(origin.unwrap(), "*", "{list}");
    }
}

#[test]
fn only_the_listed_hosts_are_served() {
    let access = Access { hosts: Whitelist::parse("good.example, ::1"), ..Access::default() };
    assert!(access.refusal(&request("good.example:2379", None)).is_none());
    assert!(access.refusal(&request("good.example", None)).is_none());
    let refusal = access.refusal(&request("evil.example:80", None)).unwrap();
    assert_eq!(refusal.status(), StatusCode::MISDIRECTED_REQUEST);
}

#[test]
fn only_the_listed_origins_get_headers() {
    let access = Access { origins: Whitelist::parse("http://a.example"), ..Access::default() };
    let granted = access.cors_headers(request("x", Some("http://a.example")).headers());
    assert_eq!(granted.unwrap(), "http://a.example");
    assert!(access.cors_headers(request("x", Some("http://b.example")).headers()).is_none());
    assert!(access.cors_headers(request("x", None).headers()).is_none());
}

#[test]
fn ports_are_not_part_of_a_host() {
    assert_eq!(hostname(&request("a:1", None)), "a");
    assert_eq!(hostname(&request("[::1]:1", None)), "::1");
    assert_eq!(hostname(&request("[::1]", None)), "[::1]");
}
