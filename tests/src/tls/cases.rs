//! What both servers are asked, and what they are expected to answer differently.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use rcgen::{BasicConstraints, ExtendedKeyUsagePurpose as Purpose, IsCa, SerialNumber, date_time_ymd};

use super::pki::{KeyKind, Pki, authority, client, concatenated, server};
use super::probe::{self, Caller};
use crate::server::{Kind, Server, free_port};

/// How one server answered one question.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) question: String,
    pub(super) answer: String,
}

/// Where the two differ on purpose; docs/compatibility.md says why.
pub(super) const DEVIATIONS: [&str; 4] = [
    "kubeadm: plain HTTP on the TLS port",
    "defaults: TLS 1.2 with CBC",
    "only 1.2: TLS 1.2 with CBC",
    "flags: --client-cert-auth without --trusted-ca-file",
];

pub(super) struct Asked {
    kind: Kind,
    pub(super) outcomes: Vec<Outcome>,
}

impl Asked {
    /// Asks everything.
    pub(super) fn all(kind: Kind) -> Result<Asked> {
        let mut asked = Asked { kind, outcomes: Vec::new() };
        asked.kubeadm()?;
        asked.peer_port()?;
        asked.revocation()?;
        asked.allowed_names()?;
        asked.versions_and_ciphers()?;
        asked.kinds_of_keys()?;
        asked.self_signed()?;
        asked.sockets()?;
        asked.refusals()?;
        Ok(asked)
    }

    fn note(&mut self, question: &str, answer: String) {
        self.outcomes.push(Outcome { question: question.to_owned(), answer });
    }

    fn start(&self, flags: Vec<String>) -> Result<Server> {
        Server::start_secure(self.kind, flags)
    }

    /// The flags kubeadm gives, and clients with every kind of certificate.
    fn kubeadm(&mut self) -> Result<()> {
        let pki = Pki::new()?;
        let clients = clients(&pki)?;
        let metrics = free_port()?;
        let mut flags = demanding(&pki);
        flags.push(format!("--listen-metrics-urls=https://127.0.0.1:{metrics}"));
        let server = self.start(flags)?;
        let caller = |name| Caller { pki: &pki, name, port: server.port };
        for name in &clients {
            self.note(&format!("kubeadm: GET /version as {name:?}"), caller(name).curl("/version", &[])?);
        }
        let good = caller("good");
        self.note("kubeadm: put", good.etcdctl(&["put", "a", "1"])?);
        self.note("kubeadm: get", good.etcdctl(&["get", "a"])?);
        self.note("kubeadm: put without certificate", caller("").etcdctl(&["put", "a", "2"])?);
        self.note("kubeadm: put as stranger", caller("stranger").etcdctl(&["put", "a", "2"])?);
        self.note("kubeadm: get again", good.etcdctl(&["get", "a"])?);
        let range = ["--data", "{\"key\":\"YQ==\"}"];
        self.note("kubeadm: gateway", good.curl("/v3/kv/range", &range)?);
        self.note("kubeadm: HTTP/1.1", good.curl("/version", &["--http1.1"])?);
        let at_metrics = |name| Caller { pki: &pki, name, port: metrics };
        self.note("kubeadm: metrics", at_metrics("good").curl("/metrics", &[])?);
        self.note("kubeadm: metrics without certificate", at_metrics("").curl("/metrics", &[])?);
        self.note("kubeadm: plain HTTP on the TLS port", probe::plain(server.port)?);
        ensure!(
            server.log_of_this_life()?.contains("rejected connection on client endpoint"),
            "nothing was logged"
        );
        Ok(())
    }

    /// A client that the peer port turns away is logged as one of the peer port.
    fn peer_port(&mut self) -> Result<()> {
        let pki = Pki::new()?;
        clients(&pki)?;
        let port = free_port()?;
        let url = format!("https://127.0.0.1:{port}");
        let mut flags = open(&pki);
        flags.extend([
            format!("--peer-cert-file={}", pki.text("server.crt")),
            format!("--peer-key-file={}", pki.text("server.key")),
            format!("--peer-trusted-ca-file={}", pki.text("ca.crt")),
            "--peer-client-cert-auth=true".to_owned(),
            format!("--listen-peer-urls={url}"),
            format!("--initial-advertise-peer-urls={url}"),
            format!("--initial-cluster=default={url}"),
        ]);
        let server = self.start(flags)?;
        let at_peers = |name| Caller { pki: &pki, name, port };
        // etcd's peer port agrees on HTTP/2 and then does not speak it.
        let http1 = ["--http1.1"];
        self.note("peer port: /version as good", at_peers("good").curl("/version", &http1)?);
        self.note("peer port: /version without certificate", at_peers("").curl("/version", &http1)?);
        let deadline = Instant::now() + Duration::from_secs(5);
        let log = loop {
            let log = server.log_of_this_life()?;
            if log.contains("rejected connection on") || Instant::now() > deadline {
                break log;
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        ensure!(log.contains("rejected connection on peer endpoint"), "not logged at the peer port:\n{log}");
        ensure!(!log.contains("rejected connection on client endpoint"), "logged at the client port:\n{log}");
        Ok(())
    }

    /// The list decides on the port for everything, and on those that serve only gRPC or only HTTP.
    fn revocation(&mut self) -> Result<()> {
        let pki = Pki::new()?;
        pki.issue(
            "revoked",
            client("revoked").with(|p| p.serial_number = Some(SerialNumber::from(0xbad_u64))),
        )?;
        pki.issue("good", client("good").with(|p| p.serial_number = Some(SerialNumber::from(7u64))))?;
        pki.revoke("crl", &[0xbad])?;
        pki.write("roots.crt", pki.authority.pem().as_bytes())?;
        let with_list = |more: Option<String>| {
            let mut flags = demanding(&pki);
            flags.push(format!("--client-crl-file={}", pki.text("crl")));
            flags.extend(more);
            flags
        };
        let server = self.start(with_list(None))?;
        for name in ["good", "revoked"] {
            let caller = Caller { pki: &pki, name, port: server.port };
            self.note(&format!("crl: {name} by HTTP"), caller.curl("/version", &[])?);
            self.note(&format!("crl: {name} by gRPC"), caller.etcdctl(&["get", "a"])?);
        }
        drop(server);
        let http = free_port()?;
        let server =
            self.start(with_list(Some(format!("--listen-client-http-urls=https://127.0.0.1:{http}"))))?;
        for name in ["good", "revoked"] {
            let grpc_only = Caller { pki: &pki, name, port: server.port };
            self.note(&format!("crl: {name} on a port for gRPC alone"), grpc_only.etcdctl(&["get", "a"])?);
            let http_only = Caller { pki: &pki, name, port: http };
            self.note(&format!("crl: {name} on a port for HTTP alone"), http_only.curl("/version", &[])?);
        }
        Ok(())
    }

    fn allowed_names(&mut self) -> Result<()> {
        let pki = Pki::new()?;
        pki.write("roots.crt", pki.authority.pem().as_bytes())?;
        for (name, host) in
            [("api", "api.example.com"), ("wild", "*.example.com"), ("other", "other.example.org")]
        {
            let host = host.try_into()?;
            pki.issue(
                name,
                client(name).with(|p| p.subject_alt_names = vec![rcgen::SanType::DnsName(host)]),
            )?;
        }
        pki.issue("nameless", client("api.example.com"))?;
        let mut flags = demanding(&pki);
        flags.push("--client-cert-allowed-hostname=api.example.com,absent.example.com".to_owned());
        let server = self.start(flags)?;
        for name in ["api", "wild", "other", "nameless"] {
            let caller = Caller { pki: &pki, name, port: server.port };
            self.note(&format!("allowed host: {name}"), caller.curl("/version", &[])?);
        }
        Ok(())
    }

    fn versions_and_ciphers(&mut self) -> Result<()> {
        let pki = Pki::new()?;
        pki.issue("server", server().on(KeyKind::Rsa))?;
        let sets: [(&str, &[&str]); 4] = [
            ("defaults", &[]),
            ("only 1.3", &["--tls-min-version=TLS1.3"]),
            ("only 1.2", &["--tls-max-version=TLS1.2"]),
            // HTTP/2 demands this one, and etcd does not serve without it.
            (
                "one suite",
                &["--tls-max-version=TLS1.2", "--cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"],
            ),
        ];
        let calls: [(&str, &[&str]); 7] = [
            ("TLS 1.0", &["-tls1", "-cipher", "ALL@SECLEVEL=0"]),
            ("TLS 1.1", &["-tls1_1", "-cipher", "ALL@SECLEVEL=0"]),
            ("TLS 1.2", &["-tls1_2", "-cipher", "ECDHE-RSA-AES256-GCM-SHA384"]),
            ("TLS 1.2 with AES-128", &["-tls1_2", "-cipher", "ECDHE-RSA-AES128-GCM-SHA256"]),
            ("TLS 1.2 without forward secrecy", &["-tls1_2", "-cipher", "AES128-GCM-SHA256"]),
            ("TLS 1.2 with CBC", &["-tls1_2", "-cipher", "ECDHE-RSA-AES128-SHA"]),
            ("TLS 1.3", &["-tls1_3", "-ciphersuites", "TLS_AES_128_GCM_SHA256"]),
        ];
        for (set, more) in sets {
            let mut flags = open(&pki);
            flags.extend(more.iter().map(|flag| (*flag).to_owned()));
            let server = self.start(flags)?;
            for (what, arguments) in calls {
                let answer = Caller { pki: &pki, name: "", port: server.port }.s_client(arguments)?;
                self.note(&format!("{set}: {what}"), answer);
            }
        }
        Ok(())
    }

    fn kinds_of_keys(&mut self) -> Result<()> {
        let kinds = [
            ("RSA in PKCS #8", KeyKind::Rsa, false),
            ("RSA in PKCS #1", KeyKind::Rsa, true),
            ("P-256 in SEC 1", KeyKind::P256, true),
            ("P-384", KeyKind::P384, false),
            ("P-521", KeyKind::P521, false),
            ("Ed25519", KeyKind::Ed25519, false),
        ];
        for (what, kind, old_form) in kinds {
            let pki = Pki::new()?;
            pki.write("roots.crt", pki.authority.pem().as_bytes())?;
            pki.issue("server", server().on(kind))?;
            if old_form {
                pki.rewrite_key("server", kind)?;
            }
            let server = self.start(open(&pki))?;
            let caller = Caller { pki: &pki, name: "", port: server.port };
            self.note(&format!("key: {what}, gRPC"), caller.etcdctl(&["get", "a"])?);
            self.note(&format!("key: {what}, TLS 1.2"), caller.curl("/version", &["--tls-max", "1.2"])?);
        }
        Ok(())
    }

    /// The certificate is in the data directory, and clients that trust it can connect.
    fn self_signed(&mut self) -> Result<()> {
        let pki = Pki::new()?;
        let server = self.start(vec!["--auto-tls".to_owned()])?;
        let made = server.data_dir.join("fixtures/client/cert.pem");
        pki.write("roots.crt", &std::fs::read(made)?)?;
        let caller = Caller { pki: &pki, name: "", port: server.port };
        self.note("auto-tls: gRPC", caller.etcdctl(&["put", "a", "1"])?);
        self.note("auto-tls: HTTP", caller.curl("/version", &[])?);
        Ok(())
    }

    /// TLS and none on one port, and over a socket in the file system.
    fn sockets(&mut self) -> Result<()> {
        let pki = Pki::new()?;
        pki.write("roots.crt", pki.authority.pem().as_bytes())?;
        pki.issue("good", client("good"))?;
        let port = free_port()?;
        let mut flags = demanding(&pki);
        flags.push(format!("--listen-client-urls=http://127.0.0.1:{port},https://127.0.0.1:{port}"));
        let server = Server::start_secure_on(self.kind, flags, port)?;
        let both = Caller { pki: &pki, name: "good", port };
        self.note("both: TLS", both.curl("/version", &[])?);
        self.note("both: gRPC over TLS", both.etcdctl(&["get", "a"])?);
        self.note("both: plain", probe::plain(port)?);
        drop(server);
        let socket = pki.path("socket");
        let port = free_port()?;
        let mut flags = demanding(&pki);
        flags.push(format!("--listen-client-urls=https://127.0.0.1:{port},unixs://{}", socket.display()));
        let _server = Server::start_secure_on(self.kind, flags, port)?;
        self.note("unixs", probe::over_unix_socket(&pki, &socket)?);
        Ok(())
    }

    /// What neither starts with.
    fn refusals(&mut self) -> Result<()> {
        let pki = Pki::new()?;
        pki.issue("other", server())?;
        let pair = |cert: &str, key: &str| {
            vec![format!("--cert-file={}", pki.text(cert)), format!("--key-file={}", pki.text(key))]
        };
        let good = |more: &[&str]| {
            let mut flags = pair("server.crt", "server.key");
            flags.extend(more.iter().map(|flag| (*flag).to_owned()));
            flags
        };
        let cases = [
            ("no certificate", Vec::new()),
            ("no key", vec![format!("--cert-file={}", pki.text("server.crt"))]),
            ("no such file", pair("nowhere.crt", "server.key")),
            ("another's key", pair("server.crt", "other.key")),
            ("no such authority", good(&[&format!("--trusted-ca-file={}", pki.text("nowhere"))])),
            ("--client-cert-auth without --trusted-ca-file", good(&["--client-cert-auth"])),
            ("nonsense as a suite", good(&["--cipher-suites=NONSENSE"])),
            ("a suite with CBC", good(&["--cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA"])),
            (
                "suites with TLS 1.3 alone",
                good(&["--tls-min-version=TLS1.3", "--cipher-suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]),
            ),
            ("TLS 1.1", good(&["--tls-min-version=TLS1.1"])),
            ("versions the wrong way round", good(&["--tls-min-version=TLS1.3", "--tls-max-version=TLS1.2"])),
        ];
        for (what, flags) in cases {
            self.note(&format!("flags: {what}"), self.starts(flags)?.to_owned());
        }
        Ok(())
    }

    /// etcd says that it is ready before it looks at its certificate, so a start counts only when
    /// it lasts.
    fn starts(&self, flags: Vec<String>) -> Result<&'static str> {
        let Ok(mut server) = self.start(flags) else { return Ok("refused") };
        match server.wait_exit(Duration::from_millis(700)) {
            Ok(status) => {
                ensure!(!status.success(), "the server ended, and calls it a success");
                Ok("refused")
            }
            Err(_) => Ok("started"),
        }
    }
}

/// Clients of every kind, each under its name; the empty one has no certificate.
fn clients(pki: &Pki) -> Result<Vec<&'static str>> {
    let ended = authority("ended-ca", |p| p.not_after = date_time_ymd(2021, 1, 1))?;
    let own = authority("own", |p| p.extended_key_usages = vec![Purpose::ClientAuth])?;
    let strangers = authority("etcd-ca", |_| {})?;
    let between = {
        let mut request = client("intermediate").params;
        request.extended_key_usages.clear();
        request.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        rcgen::CertifiedIssuer::signed_by(request, rcgen::KeyPair::generate()?, &pki.authority)?
    };
    pki.issue("good", client("good"))?;
    pki.issue("both purposes", server())?;
    pki.issue("server only", server().with(|p| p.extended_key_usages = vec![Purpose::ServerAuth]))?;
    pki.issue("any purpose", client("any").with(|p| p.extended_key_usages = vec![Purpose::Any]))?;
    pki.issue("no purpose", client("none").with(|p| p.extended_key_usages.clear()))?;
    pki.issue("ended", client("ended").with(|p| p.not_after = date_time_ymd(2021, 1, 1)))?;
    pki.issue("coming", client("coming").with(|p| p.not_before = date_time_ymd(2090, 1, 1)))?;
    pki.issue("rsa", client("rsa").on(KeyKind::Rsa))?;
    pki.issue("p384", client("p384").on(KeyKind::P384))?;
    pki.issue("p521", client("p521").on(KeyKind::P521))?;
    pki.issue("ed25519", client("ed25519").on(KeyKind::Ed25519))?;
    let as_authority = |p: &mut rcgen::CertificateParams| p.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    pki.issue("an authority", client("authority").with(as_authority))?;
    pki.issue_by(&strangers, "stranger", client("good"))?;
    pki.issue_by(&ended, "of an ended authority", client("late"))?;
    pki.issue_by(&between, "chain", client("chain"))?;
    pki.issue_by(&between, "half a chain", client("half"))?;
    pki.write("between", between.pem().as_bytes())?;
    pki.write("chain.crt", &concatenated(&[&pki.path("chain.crt"), &pki.path("between")])?)?;
    pki.keep("trusted itself", &own)?;
    pki.issue_version_1("version 1")?;
    // The servers trust three authorities; their clients trust the one that signed the servers.
    pki.write("roots.crt", pki.authority.pem().as_bytes())?;
    pki.write("ca.crt", [pki.authority.pem(), ended.pem(), own.pem()].concat().as_bytes())?;
    Ok(vec![
        "good",
        "",
        "stranger",
        "ended",
        "coming",
        "both purposes",
        "server only",
        "any purpose",
        "no purpose",
        "rsa",
        "p384",
        "p521",
        "ed25519",
        "an authority",
        "of an ended authority",
        "chain",
        "half a chain",
        "trusted itself",
        "version 1",
    ])
}

fn open(pki: &Pki) -> Vec<String> {
    vec![format!("--cert-file={}", pki.text("server.crt")), format!("--key-file={}", pki.text("server.key"))]
}

pub(super) fn demanding(pki: &Pki) -> Vec<String> {
    let mut flags = open(pki);
    flags.push(format!("--trusted-ca-file={}", pki.text("ca.crt")));
    flags.push("--client-cert-auth=true".to_owned());
    flags
}
