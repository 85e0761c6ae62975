//! TLS settings from the flags, once for clients and once for peers.
//!
//! Plain data: names of files that are not opened yet, and names of cipher suites in Go's spelling.
//! What can be checked without opening a file, such as the order of versions, was checked before.

use std::path::PathBuf;

/// TLS settings of one kind of listener: for clients, metrics included, or for peers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsSettings {
    /// The server's certificate chain and its key, both PEM.
    pub cert_file: Option<PathBuf>,
    pub key_file: Option<PathBuf>,
    /// The client certificate for calls to other servers, instead of the pair above.
    pub client_cert_file: Option<PathBuf>,
    pub client_key_file: Option<PathBuf>,
    /// CAs of client certificates. With a file, every client needs a certificate.
    pub trusted_ca_file: Option<PathBuf>,
    /// Every client needs a certificate; without a CA file, the system's CAs are trusted.
    pub client_cert_auth: bool,
    /// Certificates that were revoked.
    pub crl_file: Option<PathBuf>,
    /// If not empty, a client's certificate must have one of these common names.
    pub allowed_cns: Vec<String>,
    /// If not empty, a client's certificate must be valid for one of these hosts.
    pub allowed_hostnames: Vec<String>,
    /// Peers only: do not compare the names in a client's certificate with its address.
    pub skip_client_san_verification: bool,
    /// Make a certificate if none is given.
    pub auto: Option<SelfSigned>,
    pub min_version: TlsVersion,
    /// None: the newest there is.
    pub max_version: Option<TlsVersion>,
    /// Suites of TLS 1.2 by their Go (IANA) names. Empty: a sound choice. Unknown names are
    /// still in here.
    pub cipher_suites: Vec<String>,
}

impl TlsSettings {
    /// No certificate was given, so there is nothing to serve TLS with unless one is made.
    pub fn is_empty(&self) -> bool {
        self.cert_file.is_none() && self.key_file.is_none()
    }

    /// Whether every client needs a certificate.
    pub fn demands_client_cert(&self) -> bool {
        self.client_cert_auth || self.trusted_ca_file.is_some()
    }
}

/// A certificate made at the first start and kept for later ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelfSigned {
    /// Holds `cert.pem` and `key.pem`, found there or put there.
    pub directory: PathBuf,
    /// How long a new one is valid, in years of 365 days.
    pub years: u32,
    /// `host:port` of the URLs it will be used on.
    pub hosts: Vec<String>,
}

/// TLS 1.0 and 1.1 are not supported.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    #[default]
    V1_2,
    V1_3,
}
