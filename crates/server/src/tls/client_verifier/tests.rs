//! Certificates that are in use, and what the verifier says.

use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, CustomExtension,
    DnType, ExtendedKeyUsagePurpose as Purpose, GeneralSubtree, IsCa, KeyIdMethod, KeyPair, NameConstraints,
    RevokedCertParams, SanType, SerialNumber, date_time_ymd,
};

use rustls::pki_types::pem::PemObject;

use super::*;

/// 2030, within the validity of everything that has no dates of its own.
const NOW: UnixTime = UnixTime::since_unix_epoch(std::time::Duration::from_secs(1_900_000_000));

type CaCertificate = CertifiedIssuer<'static, KeyPair>;

fn params(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

fn authority_with(name: &str, change: impl FnOnce(&mut CertificateParams)) -> CaCertificate {
    let mut params = params(name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    change(&mut params);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

fn authority(name: &str) -> CaCertificate {
    authority_with(name, |_| {})
}

/// What kubeadm gives its clients, changed as a test wants it.
fn client(authority: &CaCertificate, change: impl FnOnce(&mut CertificateParams)) -> CertificateDer<'static> {
    let mut params = params("kube-apiserver-etcd-client");
    params.extended_key_usages = vec![Purpose::ClientAuth];
    change(&mut params);
    params.signed_by(&KeyPair::generate().unwrap(), authority).unwrap().der().clone()
}

fn verifier(cas: &[&str]) -> ClientVerifier {
    let trust = TrustedCas::parse(Path::new("ca.crt"), cas.concat().as_bytes()).unwrap();
    let provider = crypto::aws_lc_rs::default_provider();
    let algorithms = provider.signature_verification_algorithms;
    ClientVerifier { trust: Arc::new(trust), revoked: None, names: AllowedNames::Any, algorithms }
}

fn verdict(verifier: &ClientVerifier, chain: &[CertificateDer<'_>]) -> String {
    match verifier.check(chain, NOW) {
        Ok(()) => "in".to_string(),
        Err(error) => describe(&error),
    }
}

#[test]
fn clients_of_a_trusted_authority_come_in_and_others_do_not() {
    let (ours, theirs) = (authority("etcd-ca"), authority("etcd-ca"));
    let verifier = verifier(&[&ours.pem()]);
    assert_eq!(verdict(&verifier, &[client(&ours, |_| {})]), "in");
    let stranger = verdict(&verifier, &[client(&theirs, |_| {})]);
    assert!(stranger.contains("invalid peer certificate"), "{stranger}");
    assert_eq!(verdict(&verifier, &[]), "peer sent no certificates");
}

#[test]
fn dates_count_for_clients_and_authorities() {
    let ours = authority("etcd-ca");
    let ended = client(&ours, |p| p.not_after = date_time_ymd(2029, 1, 1));
    let coming = client(&ours, |p| p.not_before = date_time_ymd(2031, 1, 1));
    let gate_of_ours = verifier(&[&ours.pem()]);
    assert!(verdict(&gate_of_ours, &[ended]).contains("expired"));
    assert!(verdict(&gate_of_ours, &[coming]).contains("not valid yet"));
    let old = authority_with("old-ca", |p| p.not_after = date_time_ymd(2029, 1, 1));
    let of_old = client(&old, |_| {});
    assert!(verdict(&verifier(&[&old.pem()]), std::slice::from_ref(&of_old)).contains("UnknownIssuer"));
    // While a CA is being replaced, the file holds both.
    assert_eq!(verdict(&verifier(&[&old.pem(), &ours.pem()]), &[client(&ours, |_| {})]), "in");
}

#[test]
fn purposes_are_those_of_a_client_or_none() {
    let ours = authority("etcd-ca");
    let verifier = verifier(&[&ours.pem()]);
    let of = |purposes: &[Purpose]| {
        verdict(&verifier, &[client(&ours, |p| p.extended_key_usages = purposes.to_vec())])
    };
    assert_eq!(of(&[Purpose::ServerAuth, Purpose::ClientAuth]), "in");
    assert_eq!(of(&[Purpose::Any]), "in");
    assert_eq!(of(&[]), "in");
    assert!(of(&[Purpose::ServerAuth]).contains("InvalidPurpose"), "{}", of(&[Purpose::ServerAuth]));
}

#[test]
fn a_chain_leads_through_the_authorities_the_client_sends() {
    let root = authority("root");
    let mut params = params("intermediate");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    let between = CertifiedIssuer::signed_by(params, KeyPair::generate().unwrap(), &root).unwrap();
    let leaf = client(&between, |_| {});
    let verifier = verifier(&[&root.pem()]);
    assert_eq!(verdict(&verifier, &[leaf.clone(), between.der().clone()]), "in");
    assert!(verdict(&verifier, &[leaf]).contains("UnknownIssuer"));
}

#[test]
fn a_certificate_that_is_an_authority_comes_in_if_it_is_trusted_itself() {
    let ours = authority("etcd-ca");
    let verifier = verifier(&[&ours.pem()]);
    assert_eq!(verdict(&verifier, &[ours.der().clone()]), "in", "the very certificate in the file");
    let child = client(&ours, |p| p.is_ca = IsCa::Ca(BasicConstraints::Unconstrained));
    assert_eq!(verdict(&verifier, &[child]), "in");
    let ended = |p: &mut CertificateParams| {
        p.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        p.not_after = date_time_ymd(2029, 1, 1);
    };
    assert!(verdict(&verifier, &[client(&ours, ended)]).contains("expired"));
    let impostor = authority("etcd-ca");
    assert!(verdict(&verifier, &[impostor.der().clone()]).contains("UnknownIssuer"), "same name, other key");
    let unknown = |p: &mut CertificateParams| {
        p.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let mut strange = CustomExtension::from_oid_content(&[1, 2, 3, 4], vec![5, 0]);
        strange.set_criticality(true);
        p.custom_extensions.push(strange);
    };
    assert!(verdict(&verifier, &[client(&ours, unknown)]).contains("UnhandledCriticalExtension"));
}

#[test]
fn constraints_on_names_hold() {
    let ours = authority_with("etcd-ca", |p| {
        p.name_constraints = Some(NameConstraints {
            permitted_subtrees: vec![GeneralSubtree::DnsName("inside".into())],
            excluded_subtrees: Vec::new(),
        });
    });
    let verifier = verifier(&[&ours.pem()]);
    let named = |name: &'static str| {
        client(&ours, move |p| p.subject_alt_names = vec![SanType::DnsName(name.try_into().unwrap())])
    };
    assert_eq!(verdict(&verifier, &[named("host.inside")]), "in");
    assert!(verdict(&verifier, &[named("host.outside")]).contains("NameConstraint"));
}

#[test]
fn a_revoked_number_stays_out_wherever_it_is_in_the_chain() {
    let ours = authority("etcd-ca");
    // The first byte would make it negative, so it is written with a zero before it.
    let serial = SerialNumber::from(vec![0x9a, 0xbc, 0xde]);
    let list = CertificateRevocationListParams {
        this_update: date_time_ymd(2020, 1, 1),
        next_update: date_time_ymd(2021, 1, 1),
        crl_number: SerialNumber::from(1),
        issuing_distribution_point: None,
        revoked_certs: vec![RevokedCertParams {
            serial_number: serial.clone(),
            revocation_time: date_time_ymd(2020, 1, 1),
            reason_code: None,
            invalidity_date: None,
        }],
        key_identifier_method: KeyIdMethod::Sha256,
    };
    let list = list.signed_by(&ours).unwrap();
    let revoked = client(&ours, |p| p.serial_number = Some(serial));
    let other = client(&ours, |p| p.serial_number = Some(SerialNumber::from(7)));
    for contents in [list.der().to_vec(), list.pem().unwrap().into_bytes()] {
        let mut verifier = verifier(&[&ours.pem()]);
        verifier.revoked = Some(Arc::new(Revoked::parse(Path::new("crl"), &contents).unwrap()));
        assert!(verdict(&verifier, std::slice::from_ref(&revoked)).contains("9abcde revoked"));
        assert_eq!(verdict(&verifier, std::slice::from_ref(&other)), "in");
        assert!(verdict(&verifier, &[other.clone(), revoked.clone()]).contains("revoked"));
    }
    assert!(Revoked::parse(Path::new("crl"), b"nonsense").is_err());
}

#[test]
fn names_that_are_demanded_must_be_there() {
    let ours = authority("etcd-ca");
    let leaf = client(&ours, |p| {
        p.subject_alt_names = vec![
            SanType::DnsName("*.cluster.local".try_into().unwrap()),
            SanType::IpAddress([10, 0, 0, 7].into()),
        ];
    });
    let with = |names: AllowedNames| {
        verdict(&ClientVerifier { names, ..verifier(&[&ours.pem()]) }, std::slice::from_ref(&leaf))
    };
    let common = |name: &str| with(AllowedNames::Common(vec!["other".into(), name.into()]));
    let host = |name: &str| with(AllowedNames::Hosts(vec![ServerName::try_from(name.to_string()).unwrap()]));
    assert_eq!(common("kube-apiserver-etcd-client"), "in");
    assert!(common("kube-apiserver").contains("none of the allowed names"), "{}", common("kube-apiserver"));
    assert_eq!(host("api.cluster.local"), "in");
    assert_eq!(host("10.0.0.7"), "in");
    for other in ["cluster.local", "a.b.cluster.local", "10.0.0.8", "kube-apiserver-etcd-client"] {
        assert!(host(other).contains("none of the allowed names"), "{other}");
    }
}

/// Made by `openssl x509 -req` without extensions: version 1, valid until 2126, with the CA that
/// signed it.
#[test]
fn a_certificate_of_version_1_comes_in_if_a_trusted_authority_signed_it() {
    let leaf = CertificateDer::from_pem_slice(include_bytes!("testdata/version1.pem")).unwrap();
    let signer = include_str!("testdata/version1-ca.pem");
    assert!(is_old(&leaf));
    assert_eq!(verdict(&verifier(&[signer]), std::slice::from_ref(&leaf)), "in");
    let other = authority("version1 ca");
    assert!(verdict(&verifier(&[&other.pem()]), std::slice::from_ref(&leaf)).contains("UnknownIssuer"));
    let hosts = AllowedNames::Hosts(vec![ServerName::try_from("old").unwrap()]);
    let demanding = ClientVerifier { names: hosts, ..verifier(&[signer]) };
    assert!(verdict(&demanding, &[leaf]).contains("none of the allowed names"));
}
