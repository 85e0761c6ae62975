use super::*;

#[test]
fn accepts_what_flags_hold() {
    for text in ["http://localhost:2379", "http://127.0.0.1:0", "http://[::1]:2379/", "http://:2379"] {
        assert_eq!(ListenUrl::parse(text).unwrap().to_string(), text);
    }
    assert!(ListenUrl::parse("unix:///run/vetch.sock").is_ok());
}

#[test]
fn refuses_the_rest_by_name() {
    let error = |text: &str| ListenUrl::parse(text).unwrap_err();
    assert!(matches!(error("localhost:2379"), UrlError::NoScheme(_)));
    assert!(matches!(error("ftp://localhost:2379"), UrlError::Scheme(_)));
    assert!(matches!(error("https://localhost:2379"), UrlError::Tls(_)));
    assert!(matches!(error("unixs://x"), UrlError::Tls(_)));
    assert!(matches!(error("http://localhost"), UrlError::NoPort(_)));
    assert!(matches!(error("http://localhost:99999"), UrlError::NoPort(_)));
    assert!(matches!(error("http://localhost:2379/path"), UrlError::HasPath(_)));
}

#[tokio::test]
async fn a_stale_socket_is_replaced_and_a_file_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let url = ListenUrl::parse(&format!("unix://{}", path.display())).unwrap();
    // A socket whose owner is gone without cleaning up.
    std::mem::forget(url.bind(false).await.unwrap());
    let listener = url.bind(false).await.unwrap();
    drop(listener);
    assert!(!path.exists());
    fs::write(&path, "mine").unwrap();
    assert!(url.bind(false).await.is_err());
    assert_eq!(fs::read(&path).unwrap(), b"mine");
}
