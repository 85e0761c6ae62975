//! Certificates for one test, in a directory of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{CertificateParams, KeyPair, SanType, SerialNumber};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use vetch_testkit::certificates::{self, Authority, Pair};
use vetch_tls::settings::TlsSettings;

pub(crate) struct Pki {
    dir: tempfile::TempDir,
    authority: Authority,
}

impl Pki {
    /// An authority, and a server's certificate signed by it in `server.crt` and `server.key`.
    pub(crate) fn new() -> Pki {
        let pki = Pki { dir: tempfile::tempdir().unwrap(), authority: authority() };
        pki.write("ca.crt", &pki.authority.pem());
        pki.write_server(&pki.server(1));
        pki
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, contents: &str) {
        certificates::replace_file(&self.path(name), contents.as_bytes()).unwrap();
    }

    pub(crate) fn write_server(&self, pair: &Pair) {
        self.write("server.crt", &pair.cert);
        self.write("server.key", &pair.key);
    }

    /// From now on everything is signed by another authority.
    pub(crate) fn replace_authority(&mut self) -> String {
        self.authority = authority();
        self.authority.pem()
    }

    pub(crate) fn authority_pem(&self) -> String {
        self.authority.pem()
    }

    /// Valid on 127.0.0.1 and under no name, so that there is a name under which it is not.
    pub(crate) fn server(&self, serial: u64) -> Pair {
        let mut params = certificates::server("server");
        params.subject_alt_names.retain(|name| matches!(name, SanType::IpAddress(_)));
        self.issue(params, serial)
    }

    pub(crate) fn client(&self, name: &str, serial: u64) -> Pair {
        self.issue(certificates::client(name), serial)
    }

    fn issue(&self, mut params: CertificateParams, serial: u64) -> Pair {
        params.serial_number = Some(SerialNumber::from(serial));
        certificates::issue(&self.authority, &params, &KeyPair::generate().unwrap()).unwrap()
    }

    pub(crate) fn revocations(&self, serials: &[u64]) -> String {
        certificates::revocation_list(&self.authority, serials).unwrap().pem().unwrap()
    }

    /// The server's certificate, and no demands on clients.
    pub(crate) fn open_settings(&self) -> TlsSettings {
        TlsSettings {
            cert_file: Some(self.path("server.crt")),
            key_file: Some(self.path("server.key")),
            ..TlsSettings::default()
        }
    }

    /// Clients need a certificate.
    pub(crate) fn closed_settings(&self) -> TlsSettings {
        TlsSettings {
            trusted_ca_file: Some(self.path("ca.crt")),
            client_cert_auth: true,
            ..self.open_settings()
        }
    }

    /// How a client calls that trusts the authority as it is now.
    pub(crate) fn caller(&self, pair: Option<&Pair>) -> Arc<ClientConfig> {
        caller(&self.authority.pem(), pair)
    }
}

pub(crate) fn caller(authority: &str, pair: Option<&Pair>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let builder = builder.with_root_certificates(roots);
    Arc::new(match pair {
        None => builder.with_no_client_auth(),
        Some(pair) => {
            let chain = CertificateDer::pem_slice_iter(pair.cert.as_bytes()).map(Result::unwrap).collect();
            let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        }
    })
}

pub(crate) fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

fn authority() -> Authority {
    certificates::authority("etcd-ca", |params| params.serial_number = Some(SerialNumber::from(1))).unwrap()
}
