//! The contents of the files: the server's identity, the CAs it trusts, and the revocation list.
//!
//! Everything is checked as it is read, so that an unusable file is found at the start, or when it
//! is replaced, and not by the first client.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use rustls::DistinguishedName;
use rustls::crypto::aws_lc_rs::sign::any_supported_type;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, TrustAnchor};
use rustls::sign::CertifiedKey;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;
use x509_parser::revocation_list::CertificateRevocationList;

use super::error::TlsError;

/// The server's certificate chain and key.
#[derive(Debug)]
pub(super) struct Identity {
    pub(super) key: Arc<CertifiedKey>,
    /// Unix time at which the certificate expires.
    pub(super) not_after: i64,
}

impl Identity {
    pub(super) fn parse(cert: (&Path, &[u8]), key: (&Path, &[u8])) -> Result<Identity, TlsError> {
        let chain = certificates(cert.0, cert.1)?;
        let leaf = parsed(cert.0, &chain[0])?;
        let not_after = leaf.validity().not_after.timestamp();
        let private =
            PrivateKeyDer::from_pem_slice(key.1).map_err(|e| TlsError::content(key.0, no_key(&e)))?;
        let signer = any_supported_type(&private).map_err(|e| TlsError::content(key.0, e))?;
        // Compared here and not by the library, which cannot read the oldest kind of certificate.
        if signer.public_key().is_some_and(|public| public.as_ref() != leaf.public_key().raw) {
            return Err(TlsError::content(key.0, "tls: private key does not match public key"));
        }
        Ok(Identity { key: Arc::new(CertifiedKey::new(chain, signer)), not_after })
    }
}

/// The CAs whose clients are trusted.
#[derive(Debug)]
pub(super) struct TrustedCas {
    pub(super) cas: Vec<CaCertificate>,
    /// Their names, which are sent to clients so that they can choose among their certificates.
    pub(super) names: Vec<DistinguishedName>,
}

/// One certificate of the file.
#[derive(Debug)]
pub(super) struct CaCertificate {
    pub(super) der: CertificateDer<'static>,
    pub(super) anchor: TrustAnchor<'static>,
    /// Its validity, in Unix time.
    pub(super) valid: (i64, i64),
}

impl TrustedCas {
    pub(super) fn parse(path: &Path, contents: &[u8]) -> Result<TrustedCas, TlsError> {
        let mut cas = Vec::new();
        for der in certificates(path, contents)? {
            let validity = parsed(path, &der)?.validity().clone();
            let anchor = webpki::anchor_from_trusted_cert(&der).map_err(|e| TlsError::content(path, e))?;
            let anchor = anchor.to_owned();
            let valid = (validity.not_before.timestamp(), validity.not_after.timestamp());
            cas.push(CaCertificate { der, anchor, valid });
        }
        let names = cas.iter().map(|a| DistinguishedName::in_sequence(&a.anchor.subject)).collect();
        Ok(TrustedCas { cas, names })
    }
}

/// Revoked serial numbers. As in etcd only the number is compared, not the issuer, and the list is
/// trusted because it is in the file: neither its signature nor its date is checked.
#[derive(Debug)]
pub(super) struct Revoked {
    serials: HashSet<Vec<u8>>,
}

impl Revoked {
    /// DER, as etcd takes it, or PEM, as most tools write it.
    pub(super) fn parse(path: &Path, contents: &[u8]) -> Result<Revoked, TlsError> {
        let der = match CertificateRevocationListDer::from_pem_slice(contents) {
            Ok(der) => der,
            Err(_) => CertificateRevocationListDer::from(contents.to_vec()),
        };
        let (_, list) = CertificateRevocationList::from_der(der.as_ref())
            .map_err(|e| TlsError::content(path, format!("not a certificate revocation list: {e}")))?;
        let serials = list.iter_revoked_certificates().map(|r| without_zeros(r.raw_serial()).to_vec());
        Ok(Revoked { serials: serials.collect() })
    }

    pub(super) fn holds(&self, serial: &[u8]) -> bool {
        self.serials.contains(without_zeros(serial))
    }
}

/// Encoders differ in the zero they put before a number that would look negative.
fn without_zeros(serial: &[u8]) -> &[u8] {
    let zeros = serial.iter().take_while(|byte| **byte == 0).count();
    &serial[zeros..]
}

/// Every certificate of a PEM file, of which there must be one.
fn certificates(path: &Path, contents: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let mut found = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(contents) {
        found.push(certificate.map_err(|e| TlsError::content(path, e))?);
    }
    if found.is_empty() {
        return Err(TlsError::content(path, "tls: failed to find any PEM data in certificate input"));
    }
    Ok(found)
}

fn parsed<'a>(path: &Path, der: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, TlsError> {
    let parsed = X509Certificate::from_der(der.as_ref());
    parsed.map(|(_, certificate)| certificate).map_err(|e| TlsError::content(path, e))
}

fn no_key(error: &pem::Error) -> String {
    match error {
        pem::Error::NoItemsFound => {
            "tls: failed to find a PEM private key that is not encrypted (PKCS #1, PKCS #8 or SEC 1)"
                .to_string()
        }
        other => other.to_string(),
    }
}
