//! Clients that are not ours: curl, openssl and etcdctl. Each says how it fared, in words that can
//! be compared.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use super::pki::Pki;
use crate::server::peers;

/// How a client calls.
#[derive(Clone, Copy)]
pub(crate) struct Caller<'a> {
    pub(crate) pki: &'a Pki,
    /// Whose certificate it shows; none if empty.
    pub(crate) name: &'a str,
    pub(crate) port: u16,
}

impl Caller<'_> {
    fn file(&self, end: &str) -> String {
        self.pki.text(&format!("{}{end}", self.name))
    }

    /// `in 200 h2`, or `out` and nothing else: which alert a client gets, and how it words that,
    /// may differ.
    pub(super) fn curl(&self, path: &str, more: &[&str]) -> Result<String> {
        let url = format!("https://127.0.0.1:{}{path}", self.port);
        let mut command = Command::new("curl");
        command.args(["--silent", "--max-time", "5", "--output", "/dev/null"]);
        command.args([
            "--write-out",
            "%{http_code} h%{http_version}",
            "--cacert",
            &self.pki.text("roots.crt"),
        ]);
        if !self.name.is_empty() {
            command.args(["--cert", &self.file(".crt"), "--key", &self.file(".key")]);
        }
        let output = command.args(more).arg(url).output().context("curl is needed")?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(if output.status.success() { format!("in {said}") } else { "out".to_owned() })
    }

    /// What etcdctl prints and how it ends.
    pub(crate) fn etcdctl(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(peers()?.join("etcdctl"));
        command.args(["--insecure-transport=false", "--command-timeout=2s", "--dial-timeout=2s"]);
        command.arg(format!("--endpoints=https://127.0.0.1:{}", self.port));
        command.arg(format!("--cacert={}", self.pki.text("roots.crt")));
        if !self.name.is_empty() {
            command.args([format!("--cert={}", self.file(".crt")), format!("--key={}", self.file(".key"))]);
        }
        let output = command.args(arguments).output()?;
        let said = String::from_utf8_lossy(&output.stdout).trim().replace('\n', " ");
        Ok(if output.status.success() { format!("in {said}") } else { "out".to_owned() })
    }

    /// The version and cipher agreed on, or `out`.
    pub(super) fn s_client(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new("openssl");
        command.args(["s_client", "-brief", "-connect", &format!("127.0.0.1:{}", self.port)]);
        if !self.name.is_empty() {
            command.args(["-cert", &self.file(".crt"), "-key", &self.file(".key")]);
        }
        let output = command.args(arguments).stdin(Stdio::null()).output().context("openssl is needed")?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let of = |key: &str| said.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
        match (of("Protocol version:"), of("Ciphersuite:")) {
            (Some(version), Some(cipher)) if output.status.success() => Ok(format!("in {version} {cipher}")),
            _ => Ok("out".to_owned()),
        }
    }
}

/// Plain HTTP over TLS's port: the answer, or `closed`. Not `/version`, which changes in etcd's
/// first moments.
pub(super) fn plain(port: u16) -> Result<String> {
    let url = format!("http://127.0.0.1:{port}/health");
    let output = Command::new("curl").args(["--silent", "--max-time", "5", &url]).output()?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Ok(if output.status.success() { said } else { "closed".to_owned() })
}

/// TLS over a socket in the file system.
pub(super) fn over_unix_socket(pki: &Pki, socket: &Path) -> Result<String> {
    let caller = Caller { pki, name: "good", port: 1 };
    caller.curl("/version", &["--unix-socket", &socket.display().to_string()])
}
