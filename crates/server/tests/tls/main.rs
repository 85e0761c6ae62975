//! TLS on real sockets: who comes in, what happens when files are replaced, and what nonsense is
//! answered with.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

#[allow(dead_code, reason = "shared with tests that need all of it")]
#[path = "../harness/mod.rs"]
mod harness;
mod pki;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use harness::Harness;
use pki::{Pki, caller, read};
use rustls::{ClientConfig, HandshakeKind};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use vetch_api::health::HealthCheckRequest;
use vetch_api::health::health_client::HealthClient;
use vetch_server::http::Security;
use vetch_tls::peer_connector::{self, PeerConnector};
use vetch_tls::settings::{SelfSigned, TlsSettings};
use vetch_tls::{Tls, TlsError};

async fn serve(settings: &TlsSettings) -> Harness {
    Harness::start_with(Security::Tls(Arc::new(Tls::open(settings).unwrap()))).await
}

async fn connect(server: &Harness, config: Arc<ClientConfig>) -> io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(&server.address).await?;
    let name = rustls::pki_types::ServerName::try_from("127.0.0.1").unwrap();
    TlsConnector::from(config).connect(name, stream).await
}

/// One page over a new connection. With TLS 1.3 a client hears only now that it is not let in.
async fn page(
    server: &Harness,
    path: &str,
    config: Arc<ClientConfig>,
) -> io::Result<(String, HandshakeKind)> {
    let mut stream = connect(server, config).await?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    if answer.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok((answer, stream.get_ref().1.handshake_kind().unwrap()))
}

async fn version(server: &Harness, config: Arc<ClientConfig>) -> io::Result<HandshakeKind> {
    let (answer, kind) = page(server, "/version", config).await?;
    assert!(answer.contains("\"etcdserver\":\"3.7.1\""), "{answer}");
    Ok(kind)
}

/// Longer than the server waits between looks at its files.
async fn until_files_are_looked_at() {
    tokio::time::sleep(Duration::from_millis(1100)).await;
}

#[tokio::test]
async fn only_clients_with_a_certificate_come_in_where_one_is_demanded() {
    let pki = Pki::new();
    let server = serve(&pki.closed_settings()).await;
    let good = pki.client("good", 2);
    version(&server, pki.caller(Some(&good))).await.unwrap();
    assert!(version(&server, pki.caller(None)).await.is_err());
    let stranger = Pki::new().client("good", 2);
    assert!(version(&server, pki.caller(Some(&stranger))).await.is_err());
    let metrics = page(&server, "/metrics", pki.caller(Some(&good))).await.unwrap().0;
    assert!(metrics.contains("vetch_tls_handshake_failures_total{reason=\"certificate\"} 2"), "{metrics}");
}

#[tokio::test]
async fn naming_an_authority_demands_a_certificate_and_demanding_one_needs_an_authority() {
    let pki = Pki::new();
    let named = TlsSettings { client_cert_auth: false, ..pki.closed_settings() };
    let server = serve(&named).await;
    assert!(version(&server, pki.caller(None)).await.is_err());
    version(&server, pki.caller(Some(&pki.client("good", 2)))).await.unwrap();
    let open = serve(&pki.open_settings()).await;
    version(&open, pki.caller(None)).await.unwrap();
    let demanded = TlsSettings { client_cert_auth: true, ..pki.open_settings() };
    assert!(matches!(Tls::open(&demanded), Err(TlsError::NoTrustedCa)));
}

#[tokio::test]
async fn both_protocols_are_agreed_on() {
    let pki = Pki::new();
    let server = serve(&pki.open_settings()).await;
    for (offered, agreed) in [
        (vec!["h2", "http/1.1"], Ok(Some("h2"))),
        (vec!["http/1.1"], Ok(Some("http/1.1"))),
        (vec![], Ok(None)),
        (vec!["spdy"], Err(())),
    ] {
        let mut config = (*pki.caller(None)).clone();
        config.alpn_protocols = offered.iter().map(|p| p.as_bytes().to_vec()).collect();
        let stream = connect(&server, Arc::new(config)).await;
        let got = stream.as_ref().map(|s| s.get_ref().1.alpn_protocol()).map_err(|_| ());
        assert_eq!(got, agreed.map(|p| p.map(str::as_bytes)), "{offered:?}");
    }
}

#[tokio::test]
async fn a_replaced_certificate_is_used_and_a_bad_one_is_not() {
    let pki = Pki::new();
    let server = serve(&pki.open_settings()).await;
    let mut running = connect(&server, pki.caller(None)).await.unwrap();
    let serial = |stream: &TlsStream<TcpStream>| stream.get_ref().1.peer_certificates().unwrap()[0].clone();
    let first = serial(&running);

    let second = pki.server(2);
    pki.write("server.crt", &second.cert);
    until_files_are_looked_at().await;
    let between = connect(&server, pki.caller(None)).await.unwrap();
    assert_eq!(serial(&between), first, "a certificate whose key is not there yet");
    pki.write("server.key", &second.key);
    until_files_are_looked_at().await;
    let after = connect(&server, pki.caller(None)).await.unwrap();
    assert_ne!(serial(&after), first);

    pki.write("server.crt", "nonsense");
    std::fs::remove_file(pki.path("server.key")).unwrap();
    until_files_are_looked_at().await;
    let still = connect(&server, pki.caller(None)).await.unwrap();
    assert_eq!(serial(&still), serial(&after));
    let metrics = page(&server, "/metrics", pki.caller(None)).await.unwrap().0;
    assert!(metrics.contains("vetch_tls_files_current 0"), "{metrics}");
    assert!(metrics.contains("vetch_tls_reloads_total{result=\"refused\"} 2"), "{metrics}");

    running.write_all(b"GET /version HTTP/1.0\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    running.read_to_string(&mut answer).await.unwrap();
    assert!(answer.contains("3.7.1"), "an open connection does not notice: {answer}");
}

#[tokio::test]
async fn replaced_authorities_decide_at_once_also_over_those_who_resume() {
    let mut pki = Pki::new();
    let server = serve(&pki.closed_settings()).await;
    let old_authority = pki.authority_pem();
    let old = caller(&old_authority, Some(&pki.client("old", 2)));
    assert_eq!(version(&server, old.clone()).await.unwrap(), HandshakeKind::Full);
    assert_eq!(version(&server, old.clone()).await.unwrap(), HandshakeKind::Resumed);

    let new_authority = pki.replace_authority();
    let new = caller(&old_authority, Some(&pki.client("new", 3)));
    assert!(version(&server, new.clone()).await.is_err());
    pki.write("ca.crt", &format!("{old_authority}{new_authority}"));
    until_files_are_looked_at().await;
    version(&server, new.clone()).await.unwrap();
    version(&server, old.clone()).await.unwrap();

    pki.write("ca.crt", &new_authority);
    until_files_are_looked_at().await;
    version(&server, new).await.unwrap();
    assert!(version(&server, old).await.is_err(), "a ticket outlived the authority");
}

#[tokio::test]
async fn a_client_revoked_later_does_not_come_back() {
    let pki = Pki::new();
    pki.write("crl", &pki.revocations(&[77]));
    let settings = TlsSettings { crl_file: Some(pki.path("crl")), ..pki.closed_settings() };
    let server = serve(&settings).await;
    let (two, three) = (pki.caller(Some(&pki.client("two", 2))), pki.caller(Some(&pki.client("three", 3))));
    version(&server, two.clone()).await.unwrap();
    version(&server, two.clone()).await.unwrap();
    pki.write("crl", &pki.revocations(&[2]));
    until_files_are_looked_at().await;
    assert!(version(&server, two.clone()).await.is_err());
    version(&server, three.clone()).await.unwrap();
    pki.write("crl", "no list at all");
    until_files_are_looked_at().await;
    assert!(version(&server, two).await.is_err(), "a list that cannot be read revokes what the last one did");
    version(&server, three).await.unwrap();
}

#[tokio::test]
async fn the_wrong_protocol_is_told_or_closed() {
    let pki = Pki::new();
    let server = serve(&pki.open_settings()).await;
    let answer = server.send("GET", "/version", "", "").await;
    assert_eq!(
        (answer.status, answer.body.as_str()),
        (400, "Client sent an HTTP request to an HTTPS server.\n")
    );
    let mut nonsense = TcpStream::connect(&server.address).await.unwrap();
    nonsense.write_all(b"\x00\x01\x02\x03\x04\x05").await.unwrap();
    let mut rest = Vec::new();
    let _ = nonsense.read_to_end(&mut rest).await;
    assert_eq!(rest, b"");

    let plain = Harness::start().await;
    let error = connect(&plain, pki.caller(None)).await.unwrap_err();
    // Which of the two depends on how much of its greeting was still unread.
    let is_closed = matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset);
    assert!(is_closed, "{error}");
}

#[tokio::test]
async fn one_port_can_do_both() {
    let pki = Pki::new();
    let tls = Arc::new(Tls::open(&pki.open_settings()).unwrap());
    let server = Harness::start_with(Security::Either(tls)).await;
    version(&server, pki.caller(None)).await.unwrap();
    assert_eq!(server.get("/version").await.status, 200);
}

#[tokio::test]
async fn a_made_certificate_is_kept_while_it_is_good() {
    let dir = tempfile::tempdir().unwrap();
    let directory = dir.path().join("fixtures/client");
    let hosts = vec!["127.0.0.1:2379".to_string(), "localhost:2379".to_string(), "[::1]:2379".to_string()];
    let auto = Some(SelfSigned { directory: directory.clone(), years: 1, hosts });
    let settings = TlsSettings { auto, ..TlsSettings::default() };
    let server = serve(&settings).await;
    let made = read(&directory.join("cert.pem"));
    version(&server, caller(&made, None)).await.unwrap();
    use std::os::unix::fs::PermissionsExt;
    let key = std::fs::metadata(directory.join("key.pem")).unwrap();
    assert_eq!(key.permissions().mode() & 0o777, 0o600);
    Tls::open(&settings).unwrap();
    assert_eq!(read(&directory.join("cert.pem")), made);
}

#[test]
fn files_that_cannot_work_are_named() {
    let pki = Pki::new();
    let refused = |settings: TlsSettings| Tls::open(&settings).unwrap_err().to_string();
    let missing = TlsSettings { cert_file: Some(pki.path("nowhere")), ..pki.open_settings() };
    let text = refused(missing);
    assert!(text.contains("nowhere: No such file"), "{text}");
    let other = pki.server(9);
    pki.write("other.key", &other.key);
    let text = refused(TlsSettings { key_file: Some(pki.path("other.key")), ..pki.open_settings() });
    assert!(text.contains("other.key: tls: private key does not match public key"), "{text}");
    let text = refused(TlsSettings { key_file: Some(pki.path("server.crt")), ..pki.open_settings() });
    assert!(text.contains("failed to find a PEM private key"), "{text}");
    let text = refused(TlsSettings { cert_file: Some(pki.path("other.key")), ..pki.open_settings() });
    assert!(text.contains("failed to find any PEM data"), "{text}");
    let text = refused(TlsSettings { key_file: None, ..pki.open_settings() });
    assert!(text.contains("KeyFile and CertFile must both be present"), "{text}");
    let text = refused(TlsSettings { allowed_hostnames: vec!["a b".into()], ..pki.closed_settings() });
    assert!(text.contains("\"a b\" is neither a host name"), "{text}");
}

/// A server calls another with its own certificate, by files that are read anew for every
/// connection.
#[tokio::test]
async fn servers_call_each_other_with_what_lies_in_the_files_now() {
    let mut pki = Pki::new();
    let server = serve(&pki.closed_settings()).await;
    let write_caller = |pki: &Pki| {
        let pair = pki.client("other", 7);
        pki.write("call.crt", &pair.cert);
        pki.write("call.key", &pair.key);
    };
    write_caller(&pki);
    let (cert_file, key_file) = (Some(pki.path("call.crt")), Some(pki.path("call.key")));
    let settings = TlsSettings { cert_file, key_file, ..pki.closed_settings() };
    let calls = Arc::new(PeerConnector::open(&settings).unwrap());
    let endpoint = peer_connector::endpoint(&format!("https://{}", server.address)).unwrap();
    let asked = async |calls: &Arc<PeerConnector>| {
        let mut health = HealthClient::new(calls.connect_lazy(&endpoint));
        health.check(HealthCheckRequest::default()).await
    };
    asked(&calls).await.unwrap();
    let silent = TlsSettings { cert_file: None, key_file: None, ..settings.clone() };
    assert!(asked(&Arc::new(PeerConnector::open(&silent).unwrap())).await.is_err(), "without a certificate");

    pki.replace_authority();
    write_caller(&pki);
    assert!(asked(&calls).await.is_err(), "shows a certificate of a CA that is not trusted yet");
    pki.write("ca.crt", &pki.authority_pem());
    pki.write_server(&pki.server(3));
    until_files_are_looked_at().await;
    asked(&calls).await.unwrap();
    pki.write("call.crt", "nonsense");
    asked(&calls).await.unwrap();
    assert!(PeerConnector::open(&TlsSettings { trusted_ca_file: None, ..settings }).is_err(), "trusts no CA");
}

#[tokio::test]
async fn a_server_that_cannot_be_verified_is_not_called() {
    let (pki, other) = (Pki::new(), Pki::new());
    let server = serve(&pki.open_settings()).await;
    let calls = |trusted: &Pki| {
        let trusted_ca_file = Some(trusted.path("ca.crt"));
        Arc::new(PeerConnector::open(&TlsSettings { trusted_ca_file, ..TlsSettings::default() }).unwrap())
    };
    let port = server.address.rsplit_once(':').unwrap().1;
    let at = |host: &str| peer_connector::endpoint(&format!("https://{host}:{port}")).unwrap();
    calls(&pki).connect(&at("127.0.0.1")).await.unwrap();
    assert!(calls(&other).connect(&at("127.0.0.1")).await.is_err(), "of another authority");
    assert!(calls(&pki).connect(&at("localhost")).await.is_err(), "of another name");
}
