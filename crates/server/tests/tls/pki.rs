//! Certificates for one test, in a directory of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType,
    ExtendedKeyUsagePurpose as Purpose, IsCa, KeyIdMethod, KeyPair, RevokedCertParams, SanType, SerialNumber,
    date_time_ymd,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use vetch_tls::settings::TlsSettings;

pub(crate) struct Pki {
    dir: tempfile::TempDir,
    authority: CertifiedIssuer<'static, KeyPair>,
}

/// A certificate chain and its key, as PEM.
pub(crate) struct Pair {
    pub(crate) cert: String,
    pub(crate) key: String,
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
        // Written beside and renamed, as those do it who care.
        let fresh = self.path("fresh");
        fs::write(&fresh, contents).unwrap();
        fs::rename(fresh, self.path(name)).unwrap();
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

    pub(crate) fn server(&self, serial: u64) -> Pair {
        let mut params = params("server", serial);
        params.subject_alt_names = vec![SanType::IpAddress([127, 0, 0, 1].into())];
        params.extended_key_usages = vec![Purpose::ServerAuth];
        self.sign(&params)
    }

    pub(crate) fn client(&self, name: &str, serial: u64) -> Pair {
        let mut params = params(name, serial);
        params.extended_key_usages = vec![Purpose::ClientAuth];
        self.sign(&params)
    }

    fn sign(&self, params: &CertificateParams) -> Pair {
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &self.authority).unwrap();
        Pair { cert: cert.pem(), key: key.serialize_pem() }
    }

    pub(crate) fn revocations(&self, serials: &[u64]) -> String {
        let revoked = |serial: &u64| RevokedCertParams {
            serial_number: SerialNumber::from(*serial),
            revocation_time: date_time_ymd(2020, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2020, 1, 1),
            next_update: date_time_ymd(2120, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&self.authority).unwrap().pem().unwrap()
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

fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = params("etcd-ca", 1);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn params(name: &str, serial: u64) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.serial_number = Some(SerialNumber::from(serial));
    params
}
