use super::*;

#[tokio::test]
async fn a_stale_socket_is_replaced_and_a_file_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let url = Url::parse(&format!("unix://{}", path.display())).unwrap();
    // A socket whose owner is gone without cleaning up.
    std::mem::forget(bind(&url, false).await.unwrap());
    let listener = bind(&url, false).await.unwrap();
    drop(listener);
    assert!(!path.exists());
    fs::write(&path, "mine").unwrap();
    assert!(bind(&url, false).await.is_err());
    assert_eq!(fs::read(&path).unwrap(), b"mine");
}

#[tokio::test]
async fn every_interface_means_both_protocols() {
    for text in ["http://0.0.0.0:0", "http://[::]:0", "http://:0", "http://:"] {
        let listener = bind(&Url::parse(text).unwrap(), false).await.unwrap();
        let Listener::Tcp(socket) = &listener else { panic!("{listener:?}") };
        let port = socket.local_addr().unwrap().port();
        for host in ["127.0.0.1", "::1"] {
            TcpStream::connect((host, port)).await.unwrap_or_else(|e| panic!("{text} from {host}: {e}"));
        }
    }
}
