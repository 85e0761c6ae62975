//! Settings of TLS, from the flags.

use std::path::{Path, PathBuf};

use vetch_server::http::Serves;
use vetch_server::http::url::Url;
use vetch_server::tls::settings::{SelfSigned, TlsSettings, TlsVersion};

use super::SettingsError;
use crate::flags::Parsed;

/// TLS settings of listeners for clients and metrics.
pub(super) fn client(
    flags: &Parsed,
    data_dir: &Path,
    listeners: &[(Url, Serves)],
) -> Result<TlsSettings, SettingsError> {
    let hosts = |serves: Serves| serves != Serves::Peer && serves != Serves::Metrics;
    Ok(TlsSettings {
        client_cert_file: path(flags, "client-cert-file"),
        client_key_file: path(flags, "client-key-file"),
        crl_file: path(flags, "client-crl-file"),
        allowed_cns: flags.list("client-cert-allowed-cn"),
        allowed_hostnames: flags.list("client-cert-allowed-hostname"),
        auto: automatic(flags, "auto-tls", data_dir.join("fixtures/client"), listeners, hosts)?,
        ..common(flags, "")?
    })
}

/// TLS settings of listeners for peers.
pub(super) fn peer(
    flags: &Parsed,
    data_dir: &Path,
    listeners: &[(Url, Serves)],
) -> Result<TlsSettings, SettingsError> {
    let hosts = |serves: Serves| serves == Serves::Peer;
    Ok(TlsSettings {
        client_cert_file: path(flags, "peer-client-cert-file"),
        client_key_file: path(flags, "peer-client-key-file"),
        crl_file: path(flags, "peer-crl-file"),
        allowed_cns: flags.list("peer-cert-allowed-cn"),
        allowed_hostnames: flags.list("peer-cert-allowed-hostname"),
        skip_client_san_verification: flags.bool("peer-skip-client-san-verification"),
        auto: automatic(flags, "peer-auto-tls", data_dir.join("fixtures/peer"), listeners, hosts)?,
        ..common(flags, "peer-")?
    })
}

/// TLS settings of calls to other servers of a cluster: the CAs of peers, else those of clients,
/// and the first client certificate that is given for peers, else for clients. None without CAs.
pub(super) fn peer_client(client: &TlsSettings, peer: &TlsSettings) -> Option<TlsSettings> {
    let trusted_ca_file = peer.trusted_ca_file.clone().or_else(|| client.trusted_ca_file.clone())?;
    let pairs = [
        (&peer.client_cert_file, &peer.client_key_file),
        (&peer.cert_file, &peer.key_file),
        (&client.client_cert_file, &client.client_key_file),
        (&client.cert_file, &client.key_file),
    ];
    let shown = pairs.into_iter().find(|(cert, key)| cert.is_some() || key.is_some());
    let (cert_file, key_file) = shown.map(|(cert, key)| (cert.clone(), key.clone())).unwrap_or_default();
    Some(TlsSettings {
        cert_file,
        key_file,
        trusted_ca_file: Some(trusted_ca_file),
        min_version: client.min_version,
        max_version: client.max_version,
        cipher_suites: client.cipher_suites.clone(),
        ..TlsSettings::default()
    })
}

/// The flags that both kinds have under similar names.
fn common(flags: &Parsed, prefix: &str) -> Result<TlsSettings, SettingsError> {
    let (min, max) = (flags.text("tls-min-version"), flags.text("tls-max-version"));
    let (min_version, max_version) = (version(min)?, version(max)?);
    if let (Some(lowest), Some(highest)) = (min_version, max_version)
        && lowest > highest
    {
        return Err(SettingsError::TlsVersions { min: min.to_string(), max: max.to_string() });
    }
    let cipher_suites = flags.list("cipher-suites");
    if min_version == Some(TlsVersion::V1_3) && !cipher_suites.is_empty() {
        return Err(SettingsError::CiphersOfTls13);
    }
    let named = |name: &str| path(flags, &format!("{prefix}{name}"));
    Ok(TlsSettings {
        cert_file: named("cert-file"),
        key_file: named("key-file"),
        trusted_ca_file: named("trusted-ca-file"),
        client_cert_auth: flags.bool(&format!("{prefix}client-cert-auth")),
        min_version: min_version.unwrap_or_default(),
        max_version,
        cipher_suites,
        ..TlsSettings::default()
    })
}

fn path(flags: &Parsed, name: &str) -> Option<PathBuf> {
    Some(flags.text(name)).filter(|text| !text.is_empty()).map(PathBuf::from)
}

fn version(text: &str) -> Result<Option<TlsVersion>, SettingsError> {
    match text {
        "" => Ok(None),
        "TLS1.2" => Ok(Some(TlsVersion::V1_2)),
        "TLS1.3" => Ok(Some(TlsVersion::V1_3)),
        other => Err(SettingsError::TlsVersion(other.to_string())),
    }
}

fn automatic(
    flags: &Parsed,
    switch: &str,
    directory: PathBuf,
    listeners: &[(Url, Serves)],
    wanted: impl Fn(Serves) -> bool,
) -> Result<Option<SelfSigned>, SettingsError> {
    if !flags.bool(switch) {
        return Ok(None);
    }
    let years = match flags.uint("self-signed-cert-validity") {
        // In a file, zero counts as not given.
        0 if flags.file.is_some() => 1,
        years @ 1..=1000 => u32::try_from(years).expect("at most 1000"),
        other => return Err(SettingsError::Validity(other)),
    };
    let urls = listeners.iter().filter(|(url, serves)| url.host().is_some() && wanted(*serves));
    Ok(Some(SelfSigned { directory, years, hosts: urls.map(|(url, _)| url.address()).collect() }))
}

/// A URL that asks for TLS needs a certificate.
pub(super) fn check_certificate(url: &Url, serves: Serves, tls: &TlsSettings) -> Result<(), SettingsError> {
    if !url.is_secure() || (tls.is_empty() && tls.auto.is_some()) {
        return Ok(());
    }
    match serves {
        Serves::Metrics if tls.is_empty() => return Err(SettingsError::NoMetricsCertificate),
        Serves::Grpc | Serves::GrpcAndHttp | Serves::Http if tls.is_empty() => {
            return Err(SettingsError::NoClientCertificate(url.to_string()));
        }
        _ => {}
    }
    if tls.cert_file.is_some() && tls.key_file.is_some() {
        return Ok(());
    }
    Err(incomplete_pair(tls))
}

pub(super) fn incomplete_pair(tls: &TlsSettings) -> SettingsError {
    let text = |path: &Option<PathBuf>| path.as_ref().map(|p| p.display().to_string()).unwrap_or_default();
    SettingsError::HalfCertificate { key: text(&tls.key_file), cert: text(&tls.cert_file) }
}
