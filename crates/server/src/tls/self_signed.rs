//! The certificate of `--auto-tls`: made at the first start, kept for later ones.
//!
//! Directory and file names are etcd's, so a certificate made by it stays in use. Unlike in etcd,
//! an expired one is replaced, because no client could connect with it any more.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rcgen::{
    CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair, KeyUsagePurpose, SanType,
    string::Ia5String,
};
use time::{Duration, OffsetDateTime};

use super::error::TlsError;
use super::material::Identity;
use super::settings::SelfSigned;

/// Finds or makes the certificate. Returns the paths of it and of its key.
pub(super) fn ensure(wanted: &SelfSigned) -> Result<(PathBuf, PathBuf), TlsError> {
    let (cert, key) = (wanted.directory.join("cert.pem"), wanted.directory.join("key.pem"));
    if wanted.years == 0 {
        return Err(failed(wanted, "selfSignedCertValidity is invalid,it should be greater than 0"));
    }
    if cert.exists() && key.exists() && !has_expired(&cert, &key)? {
        return Ok((cert, key));
    }
    let (cert_pem, key_pem, not_after) = make(wanted).map_err(|e| failed(wanted, e))?;
    tracing::warn!(not_after = %not_after, "automatically generate certificates");
    let written = fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&wanted.directory)
        .and_then(|()| write(&key, &key_pem, 0o600))
        .and_then(|()| write(&cert, &cert_pem, 0o644));
    written.map_err(|e| failed(wanted, e))?;
    tracing::info!(cert = %cert.display(), key = %key.display(), "created cert and key files");
    Ok((cert, key))
}

fn has_expired(cert: &Path, key: &Path) -> Result<bool, TlsError> {
    let read = |path: &Path| fs::read(path).map_err(|error| TlsError::Read { path: path.into(), error });
    let identity = Identity::parse((cert, &read(cert)?), (key, &read(key)?))?;
    Ok(identity.not_after < OffsetDateTime::now_utc().unix_timestamp())
}

fn make(wanted: &SelfSigned) -> Result<(String, String, OffsetDateTime), rcgen::Error> {
    let mut params = CertificateParams::default();
    let begin = OffsetDateTime::now_utc();
    params.not_before = begin;
    params.not_after = begin.saturating_add(Duration::days(365).saturating_mul(clamped(wanted.years)));
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "vetch");
    // Not a CA: some clients refuse a CA as a server certificate, and every client can trust this
    // one directly.
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    for host in &wanted.hosts {
        let name = san(host)?;
        if !params.subject_alt_names.contains(&name) {
            params.subject_alt_names.push(name);
        }
    }
    let key = KeyPair::generate()?;
    let certificate = params.self_signed(&key)?;
    Ok((certificate.pem(), key.serialize_pem(), params.not_after))
}

/// A certificate cannot hold a year of more than four digits.
fn clamped(years: u32) -> i32 {
    years.min(5000) as i32
}

/// The name in a certificate for `host:port`.
fn san(host: &str) -> Result<SanType, rcgen::Error> {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let name = name.strip_prefix('[').and_then(|n| n.strip_suffix(']')).unwrap_or(name);
    match name.parse::<IpAddr>() {
        Ok(address) => Ok(SanType::IpAddress(address)),
        Err(_) => Ok(SanType::DnsName(Ia5String::try_from(name)?)),
    }
}

fn write(path: &Path, contents: &str, mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(path)?;
    file.write_all(contents.as_bytes())?;
    file.sync_all()
}

fn failed(wanted: &SelfSigned, reason: impl ToString) -> TlsError {
    TlsError::SelfSigned { path: wanted.directory.clone(), reason: reason.to_string() }
}
