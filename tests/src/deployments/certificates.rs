//! Certificates as deployments have them: one authority, a server's certificate, a client's.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use anyhow::Result;
use rcgen::{CertificateParams, KeyPair, KeyUsagePurpose, SanType};
use vetch_testkit::certificates::{self, Authority};

/// Writes `pki/{ca,server,client}.{crt,key}`.
pub(super) fn write(dir: &Path) -> Result<()> {
    let pki = dir.join("pki");
    fs::create_dir_all(&pki)?;
    let authority = certificates::authority("etcd-ca", |params| {
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    })?;
    fs::write(pki.join("ca.crt"), authority.pem())?;
    let mut server = certificates::server("node-1");
    server.subject_alt_names.extend([
        SanType::IpAddress(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2))),
        SanType::IpAddress(IpAddr::V6(Ipv6Addr::LOCALHOST)),
    ]);
    issue(&pki, "server", &server, &authority)?;
    issue(&pki, "client", &certificates::client("kube-apiserver-etcd-client"), &authority)
}

fn issue(pki: &Path, name: &str, params: &CertificateParams, authority: &Authority) -> Result<()> {
    let pair = certificates::issue(authority, params, &KeyPair::generate()?)?;
    fs::write(pki.join(format!("{name}.crt")), pair.cert)?;
    fs::write(pki.join(format!("{name}.key")), pair.key)?;
    Ok(())
}
