//! Certificates for tests: authorities, what they sign, and what they revoke.

use std::path::Path;
use std::{fs, io};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationList, CertificateRevocationListParams,
    CertifiedIssuer, DnType, Error, ExtendedKeyUsagePurpose as Purpose, IsCa, KeyIdMethod, KeyPair,
    RevokedCertParams, SanType, SerialNumber, date_time_ymd,
};

pub type Authority = CertifiedIssuer<'static, KeyPair>;

/// A certificate and its key, as PEM.
pub struct Pair {
    pub cert: String,
    pub key: String,
}

/// A certificate of this common name, and nothing else yet.
pub fn named(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

/// A client's certificate as kubeadm makes it.
pub fn client(name: &str) -> CertificateParams {
    let mut params = named(name);
    params.extended_key_usages = vec![Purpose::ClientAuth];
    params
}

/// A server's certificate as kubeadm makes it: for both purposes, since members call each other
/// with it. It is valid on 127.0.0.1 and localhost.
pub fn server(name: &str) -> CertificateParams {
    let mut params = named(name);
    params.extended_key_usages = vec![Purpose::ServerAuth, Purpose::ClientAuth];
    params.subject_alt_names = vec![
        SanType::IpAddress([127, 0, 0, 1].into()),
        SanType::DnsName("localhost".try_into().expect("a plain name")),
    ];
    params
}

/// A certificate authority; `change` may add to what its own certificate says.
pub fn authority(name: &str, change: impl FnOnce(&mut CertificateParams)) -> Result<Authority, Error> {
    let mut params = named(name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    change(&mut params);
    CertifiedIssuer::self_signed(params, KeyPair::generate()?)
}

pub fn issue(authority: &Authority, params: &CertificateParams, key: &KeyPair) -> Result<Pair, Error> {
    let cert = params.signed_by(key, authority)?;
    Ok(Pair { cert: cert.pem(), key: key.serialize_pem() })
}

pub fn revocation_list(authority: &Authority, serials: &[u64]) -> Result<CertificateRevocationList, Error> {
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
    list.signed_by(authority)
}

/// Replaces a file atomically, as cert-manager and kubelet do.
pub fn replace_file(path: &Path, contents: &[u8]) -> io::Result<()> {
    let fresh = path.with_extension("fresh");
    fs::write(&fresh, contents)?;
    fs::rename(fresh, path)
}
