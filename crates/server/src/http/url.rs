//! URLs in flags: where to listen, and what to advertise.
//!
//! Accepts and refuses what etcd does, in its words, since people search for those. `http` and
//! `https` have a host and a port and nothing else; `unix` and `unixs` have the path of a socket.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

#[cfg(test)]
mod tests;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Url {
    text: String,
    secure: bool,
    target: Address,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Address {
    /// `host:port`, the host in brackets if it has colons.
    Tcp(String),
    Unix(PathBuf),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    #[error("URL scheme must be http, https, unix, or unixs: {0}")]
    Scheme(String),
    #[error("URL address does not have the form \"host:port\": {0}")]
    NoPort(String),
    #[error("URL must not contain a path: {0}")]
    HasPath(String),
    #[error("parse {url:?}: invalid port {port:?} after host")]
    Port { url: String, port: String },
    #[error("expected IP in URL for binding ({0})")]
    NoAddress(String),
    #[error("unexpected empty host ({0})")]
    NoHost(String),
}

impl Url {
    pub fn parse(text: &str) -> Result<Url, UrlError> {
        let text = text.trim();
        let unknown = || UrlError::Scheme(text.to_string());
        let (scheme, rest) = text.split_once(':').ok_or_else(unknown)?;
        let scheme = scheme.to_ascii_lowercase();
        let target = match scheme.as_str() {
            "http" | "https" => Address::Tcp(tcp(text, rest)?),
            "unix" | "unixs" => Address::Unix(PathBuf::from(rest.strip_prefix("//").unwrap_or(rest))),
            _ => return Err(unknown()),
        };
        Ok(Url { text: format!("{scheme}:{rest}"), secure: scheme.ends_with('s'), target })
    }

    /// All of a list separated by commas, in order and each once.
    pub fn parse_list(text: &str) -> Result<Vec<Url>, UrlError> {
        let mut urls = text.split(',').map(Url::parse).collect::<Result<Vec<Url>, UrlError>>()?;
        urls.sort();
        urls.dedup();
        Ok(urls)
    }

    /// The URL uses TLS.
    pub fn is_secure(&self) -> bool {
        self.secure
    }

    /// `host:port`, or the path of the socket.
    pub fn address(&self) -> String {
        match &self.target {
            Address::Tcp(address) => address.clone(),
            Address::Unix(path) => path.display().to_string(),
        }
    }

    pub(super) fn target(&self) -> &Address {
        &self.target
    }

    /// A listener needs an address: what a name resolves to may change under it.
    pub fn check_listen(&self) -> Result<(), UrlError> {
        match self.host() {
            Some(host) if host != "localhost" && host.parse::<IpAddr>().is_err() => {
                Err(UrlError::NoAddress(self.text.clone()))
            }
            _ => Ok(()),
        }
    }

    /// An advertised URL needs a host.
    pub fn check_advertise(&self) -> Result<(), UrlError> {
        if self.host() == Some("") { Err(UrlError::NoHost(self.text.clone())) } else { Ok(()) }
    }

    /// The host without brackets; none for a socket in the file system.
    pub fn host(&self) -> Option<&str> {
        let Address::Tcp(address) = &self.target else { return None };
        let host = address.rsplit_once(':').map_or(address.as_str(), |(host, _)| host);
        Some(host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host))
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// `host:port` behind the scheme of a URL.
fn tcp(text: &str, rest: &str) -> Result<String, UrlError> {
    let no_port = || UrlError::NoPort(text.to_string());
    let rest = rest.strip_prefix("//").ok_or_else(no_port)?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let authority = &rest[..end];
    let address = authority.rsplit_once('@').map_or(authority, |(_, address)| address);
    let (host, port) = address.rsplit_once(':').ok_or_else(no_port)?;
    let is_bracketed = host.starts_with('[') && host.ends_with(']');
    if !is_bracketed && host.contains([':', '[', ']']) {
        return Err(no_port());
    }
    if !port.bytes().all(|b| b.is_ascii_digit()) {
        return Err(UrlError::Port { url: text.to_string(), port: format!(":{port}") });
    }
    if rest[end..].starts_with('/') {
        return Err(UrlError::HasPath(text.to_string()));
    }
    Ok(address.to_string())
}
