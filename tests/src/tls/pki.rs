//! Certificates of every kind that people bring along.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use rcgen::{
    CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ECDSA_P521_SHA512,
    PKCS_ED25519, PKCS_RSA_SHA256, RsaKeySize, SignatureAlgorithm,
};
use tempfile::TempDir;
use vetch_testkit::certificates::{self, Pair};
pub(crate) use vetch_testkit::certificates::{Authority, authority};

/// A directory of certificates: `NAME.crt` and `NAME.key` each.
pub(crate) struct Pki {
    dir: TempDir,
    pub(crate) authority: Authority,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyKind {
    P256,
    P384,
    P521,
    Ed25519,
    Rsa,
}

impl KeyKind {
    fn algorithm(self) -> &'static SignatureAlgorithm {
        match self {
            KeyKind::P256 => &PKCS_ECDSA_P256_SHA256,
            KeyKind::P384 => &PKCS_ECDSA_P384_SHA384,
            KeyKind::P521 => &PKCS_ECDSA_P521_SHA512,
            KeyKind::Ed25519 => &PKCS_ED25519,
            KeyKind::Rsa => &PKCS_RSA_SHA256,
        }
    }

    fn generate(self) -> Result<KeyPair> {
        Ok(match self {
            KeyKind::Rsa => KeyPair::generate_rsa_for(self.algorithm(), RsaKeySize::_2048)?,
            other => KeyPair::generate_for(other.algorithm())?,
        })
    }
}

/// What a certificate says, and the kind of its key.
pub(crate) struct CertificateRequest {
    pub(super) params: CertificateParams,
    pub(super) key: KeyKind,
}

pub(crate) fn client(name: &str) -> CertificateRequest {
    CertificateRequest { params: certificates::client(name), key: KeyKind::P256 }
}

pub(crate) fn server() -> CertificateRequest {
    CertificateRequest { params: certificates::server("server"), key: KeyKind::P256 }
}

impl CertificateRequest {
    pub(super) fn with(mut self, change: impl FnOnce(&mut CertificateParams)) -> CertificateRequest {
        change(&mut self.params);
        self
    }

    pub(super) fn on(self, key: KeyKind) -> CertificateRequest {
        CertificateRequest { key, ..self }
    }
}

impl Pki {
    /// An authority in `ca.crt`, and `server`.
    pub(crate) fn new() -> Result<Pki> {
        let dir = tempfile::Builder::new().prefix("vetch-pki-").tempdir()?;
        let pki = Pki { dir, authority: authority("etcd-ca", |_| {})? };
        pki.write("ca.crt", pki.authority.pem().as_bytes())?;
        pki.issue("server", server())?;
        Ok(pki)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    pub(crate) fn write(&self, name: &str, contents: &[u8]) -> Result<()> {
        Ok(certificates::replace_file(&self.path(name), contents)?)
    }

    fn write_pair(&self, name: &str, pair: &Pair) -> Result<()> {
        self.write(&format!("{name}.key"), pair.key.as_bytes())?;
        self.write(&format!("{name}.crt"), pair.cert.as_bytes())
    }

    pub(crate) fn issue(&self, name: &str, request: CertificateRequest) -> Result<()> {
        self.issue_by(&self.authority, name, request)
    }

    pub(crate) fn issue_by(
        &self,
        authority: &Authority,
        name: &str,
        mut request: CertificateRequest,
    ) -> Result<()> {
        // Without it OpenSSL cannot tell two authorities of the same name apart.
        request.params.use_authority_key_identifier_extension = true;
        self.write_pair(name, &certificates::issue(authority, &request.params, &request.key.generate()?)?)
    }

    /// An authority's own certificate and key, to be used as if it were a client's.
    pub(super) fn keep(&self, name: &str, authority: &Authority) -> Result<()> {
        self.write_pair(name, &Pair { cert: authority.pem(), key: authority.key().serialize_pem() })
    }

    /// In DER, which is all that etcd reads.
    pub(super) fn revoke(&self, file: &str, serials: &[u64]) -> Result<()> {
        self.write(file, certificates::revocation_list(&self.authority, serials)?.der())
    }

    /// A certificate of version 1, which only a careless `openssl x509 -req` makes.
    pub(super) fn issue_version_1(&self, name: &str) -> Result<()> {
        self.keep("signer", &self.authority)?;
        let [key, csr, crt] = [".key", ".csr", ".crt"].map(|end| self.text(&format!("{name}{end}")));
        let curve = "ec_paramgen_curve:prime256v1";
        let subject = format!("/CN={name}");
        openssl(&[
            "req", "-new", "-newkey", "ec", "-pkeyopt", curve, "-nodes", "-keyout", &key, "-out", &csr,
            "-subj", &subject,
        ])?;
        let (signer, signer_key) = (self.text("signer.crt"), self.text("signer.key"));
        openssl(&[
            "x509",
            "-req",
            "-in",
            &csr,
            "-CA",
            &signer,
            "-CAkey",
            &signer_key,
            "-set_serial",
            "99",
            "-days",
            "100",
            "-out",
            &crt,
        ])
    }

    /// A key in the form older tools write: PKCS #1 for RSA, SEC 1 for elliptic curves.
    pub(super) fn rewrite_key(&self, name: &str, kind: KeyKind) -> Result<()> {
        let key = self.text(&format!("{name}.key"));
        match kind {
            KeyKind::Rsa => openssl(&["rsa", "-traditional", "-in", &key, "-out", &key]),
            _ => openssl(&["ec", "-in", &key, "-out", &key]),
        }
    }
}

fn openssl(arguments: &[&str]) -> Result<()> {
    let output = Command::new("openssl").args(arguments).output().context("openssl is needed")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "openssl {arguments:?}: {said}");
    Ok(())
}

pub(super) fn concatenated(files: &[&Path]) -> Result<Vec<u8>> {
    let mut all = Vec::new();
    for file in files {
        all.extend(fs::read(file)?);
    }
    Ok(all)
}
