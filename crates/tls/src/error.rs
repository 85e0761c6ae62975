//! Why TLS cannot be served, or a changed file cannot be used.

use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("KeyFile and CertFile must both be present[key: {key}, cert: {cert}]")]
    IncompletePair { key: String, cert: String },
    #[error(
        "--client-cert-auth needs --trusted-ca-file: without it a certificate of any public CA would be accepted"
    )]
    NoTrustedCa,
    #[error("AllowedCNs and AllowedHostnames are mutually exclusive (cns={cns:?}, hostnames={hostnames:?})")]
    ConflictingNames { cns: Vec<String>, hostnames: Vec<String> },
    #[error("{0:?} is neither a host name nor an IP address, so no client certificate can be valid for it")]
    AllowedHostname(String),
    #[error("unexpected TLS cipher suite {name:?}; supported: {known}")]
    Cipher { name: String, known: String },
    #[error("open {path}: {error}", path = path.display())]
    Read { path: PathBuf, error: io::Error },
    #[error("{path}: {reason}", path = path.display())]
    Content { path: PathBuf, reason: String },
    #[error("cannot make a certificate in {path}: {reason}", path = path.display())]
    SelfSigned { path: PathBuf, reason: String },
    #[error("TLS with these settings is not possible: {0}")]
    Config(#[from] rustls::Error),
}

impl TlsError {
    pub(super) fn content(path: &std::path::Path, reason: impl ToString) -> TlsError {
        TlsError::Content { path: path.to_path_buf(), reason: reason.to_string() }
    }
}
