//! Certificates of every kind that people bring along.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType,
    ExtendedKeyUsagePurpose as Purpose, IsCa, KeyIdMethod, KeyPair, PKCS_ECDSA_P256_SHA256,
    PKCS_ECDSA_P384_SHA384, PKCS_ECDSA_P521_SHA512, PKCS_ED25519, PKCS_RSA_SHA256, RevokedCertParams,
    RsaKeySize, SanType, SerialNumber, SignatureAlgorithm, date_time_ymd,
};
use tempfile::TempDir;

pub(crate) type Authority = CertifiedIssuer<'static, KeyPair>;

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

/// What a certificate is to say.
pub(crate) struct Wish {
    pub(super) params: CertificateParams,
    pub(super) key: KeyKind,
}

/// A client's certificate as kubeadm makes it.
pub(crate) fn client(name: &str) -> Wish {
    let mut params = named(name);
    params.extended_key_usages = vec![Purpose::ClientAuth];
    Wish { params, key: KeyKind::P256 }
}

/// A server's certificate as kubeadm makes it: for both purposes, since members call each other
/// with it.
pub(crate) fn server() -> Wish {
    let mut params = named("server");
    params.extended_key_usages = vec![Purpose::ServerAuth, Purpose::ClientAuth];
    params.subject_alt_names = vec![
        SanType::IpAddress([127, 0, 0, 1].into()),
        SanType::DnsName("localhost".try_into().expect("a plain name")),
    ];
    Wish { params, key: KeyKind::P256 }
}

impl Wish {
    pub(super) fn with(mut self, change: impl FnOnce(&mut CertificateParams)) -> Wish {
        change(&mut self.params);
        self
    }

    pub(super) fn on(self, key: KeyKind) -> Wish {
        Wish { key, ..self }
    }
}

fn named(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

pub(crate) fn authority(name: &str, change: impl FnOnce(&mut CertificateParams)) -> Result<Authority> {
    let mut params = named(name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    change(&mut params);
    Ok(CertifiedIssuer::self_signed(params, KeyPair::generate()?)?)
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

    /// Replaced at once, as cert-manager and kubelet do it.
    pub(crate) fn write(&self, name: &str, contents: &[u8]) -> Result<()> {
        let fresh = self.path("fresh");
        fs::write(&fresh, contents)?;
        fs::rename(fresh, self.path(name))?;
        Ok(())
    }

    pub(crate) fn issue(&self, name: &str, wish: Wish) -> Result<()> {
        self.issue_by(&self.authority, name, wish)
    }

    pub(crate) fn issue_by(&self, authority: &Authority, name: &str, mut wish: Wish) -> Result<()> {
        // Without it OpenSSL cannot tell two authorities of the same name apart.
        wish.params.use_authority_key_identifier_extension = true;
        let key = wish.key.generate()?;
        let cert = wish.params.signed_by(&key, authority)?;
        self.write(&format!("{name}.key"), key.serialize_pem().as_bytes())?;
        self.write(&format!("{name}.crt"), cert.pem().as_bytes())
    }

    /// An authority's own certificate and key, to be used as if it were a client's.
    pub(super) fn keep(&self, name: &str, authority: &Authority) -> Result<()> {
        self.write(&format!("{name}.key"), authority.key().serialize_pem().as_bytes())?;
        self.write(&format!("{name}.crt"), authority.pem().as_bytes())
    }

    /// In DER, which is all that etcd reads.
    pub(super) fn revoke(&self, file: &str, serials: &[u64]) -> Result<()> {
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
        self.write(file, list.signed_by(&self.authority)?.der())
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
