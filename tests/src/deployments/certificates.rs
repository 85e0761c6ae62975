//! Certificates as deployments have them: one authority, a server's certificate, a client's.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use anyhow::Result;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose, SanType,
};

/// Writes `pki/{ca,server,client}.{crt,key}`.
pub(super) fn write(dir: &Path) -> Result<()> {
    let pki = dir.join("pki");
    fs::create_dir_all(&pki)?;
    let mut params = named("etcd-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    fs::write(pki.join("ca.crt"), authority.pem())?;
    let mut server = named("node-1");
    // A member calls others with the certificate it serves with, so it is good for both.
    server.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    server.subject_alt_names = vec![
        SanType::DnsName("localhost".try_into()?),
        SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        SanType::IpAddress(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2))),
        SanType::IpAddress(IpAddr::V6(Ipv6Addr::LOCALHOST)),
    ];
    issue(&pki, "server", server, &authority)?;
    let mut client = named("kube-apiserver-etcd-client");
    client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    issue(&pki, "client", client, &authority)
}

fn named(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

fn issue(
    pki: &Path,
    name: &str,
    params: CertificateParams,
    authority: &CertifiedIssuer<'static, KeyPair>,
) -> Result<()> {
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, authority)?;
    fs::write(pki.join(format!("{name}.crt")), certificate.pem())?;
    fs::write(pki.join(format!("{name}.key")), key.serialize_pem())?;
    Ok(())
}
