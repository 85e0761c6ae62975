//! Verification of client certificates.
//!
//! The rules are those of Go, as etcd uses it: the chain leads to a trusted CA, every certificate
//! in it is valid now, its extended key usages allow clients, no serial number is revoked, and if
//! names are required, it has one of them. `webpki` builds and checks the chain; it rejects two
//! kinds of certificate that Go accepts and that are in use, and [`directly_trusted`] handles
//! those.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, TrustAnchor, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, SignatureScheme, crypto,
};
use webpki::{EndEntityCert, ExtendedKeyUsageValidator, KeyPurposeId, KeyPurposeIdIter, RawPublicKeyEntity};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::ParsedExtension;
use x509_parser::prelude::FromDer;

use super::material::{CaCertificate, Revoked, TrustedCas};

/// Names of which a client's certificate must have one.
#[derive(Debug, Clone)]
pub(super) enum AllowedNames {
    Any,
    Common(Vec<String>),
    Hosts(Vec<ServerName<'static>>),
}

/// The settings that a client's certificate is checked against.
#[derive(Debug)]
pub(super) struct ClientVerifier {
    pub(super) trust: Arc<TrustedCas>,
    pub(super) revoked: Option<Arc<Revoked>>,
    pub(super) names: AllowedNames,
    pub(super) algorithms: WebPkiSupportedAlgorithms,
}

/// Errors of a certificate that the library does not have.
#[derive(Debug, thiserror::Error)]
enum Rejection {
    #[error("certificate serial {0} revoked")]
    Revoked(String),
    #[error("client certificate authentication failed: the certificate has none of the allowed names")]
    Name,
    #[error("no certificate")]
    Missing,
    #[error("{0}")]
    Chain(webpki::Error),
    #[error("{0}")]
    Unreadable(String),
}

/// The error for the log: the library would show ours in debug form.
pub(super) fn describe(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(CertificateError::Other(OtherError(objection))) => objection.to_string(),
        error => error.to_string(),
    }
}

impl ClientVerifier {
    /// Checks a whole chain, the client's own certificate first.
    pub(super) fn check(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> Result<(), Error> {
        let [leaf, rest @ ..] = chain else { return Err(other(Rejection::Missing)) };
        self.check_chain(leaf, rest, now)?;
        for certificate in chain {
            self.check_serial(&parsed(certificate)?)?;
        }
        self.check_names(leaf)
    }

    fn check_chain(
        &self,
        leaf: &CertificateDer<'_>,
        rest: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        // An expired CA is not trusted. The library does not check that.
        let valid = |a: &&CaCertificate| {
            let now = now.as_secs() as i64;
            a.valid.0 <= now && now <= a.valid.1
        };
        let cas: Vec<&CaCertificate> = self.trust.cas.iter().filter(valid).collect();
        let anchors: Vec<TrustAnchor<'_>> = cas.iter().map(|a| a.anchor.clone()).collect();
        let verified = EndEntityCert::try_from(leaf).and_then(|end| {
            let path = end.verify_for_usage(self.algorithms.all, &anchors, rest, now, Client, None, None);
            path.map(|_| ())
        });
        match verified {
            Ok(()) => Ok(()),
            Err(webpki::Error::UnsupportedCertVersion | webpki::Error::CaUsedAsEndEntity) => {
                directly_trusted(leaf, &cas, now)
            }
            Err(error) => Err(from_chain_error(error)),
        }
    }

    fn check_serial(&self, certificate: &X509Certificate<'_>) -> Result<(), Error> {
        match &self.revoked {
            Some(revoked) if revoked.holds(certificate.raw_serial()) => {
                Err(other(Rejection::Revoked(certificate.raw_serial_as_string().replace(':', ""))))
            }
            _ => Ok(()),
        }
    }

    fn check_names(&self, leaf: &CertificateDer<'_>) -> Result<(), Error> {
        let has_one = match &self.names {
            AllowedNames::Any => true,
            AllowedNames::Common(allowed) => {
                let name = common_name(&parsed(leaf)?);
                allowed.iter().any(|allowed| Some(allowed) == name.as_ref())
            }
            // A certificate too old to have alternative names is valid for no host.
            AllowedNames::Hosts(allowed) => EndEntityCert::try_from(leaf).is_ok_and(|end| {
                allowed.iter().any(|host| end.verify_is_valid_for_subject_name(host).is_ok())
            }),
        };
        if has_one { Ok(()) } else { Err(other(Rejection::Name)) }
    }
}

impl ClientCertVerifier for ClientVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.trust.names
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let mut chain = vec![end_entity.clone()];
        chain.extend_from_slice(intermediates);
        self.check(&chain, now).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        if !is_old(cert) {
            return crypto::verify_tls12_signature(message, cert, dss, &self.algorithms);
        }
        let known = self.algorithms.mapping.iter().find(|(scheme, _)| *scheme == dss.scheme);
        let algorithms = known.map(|(_, algorithms)| *algorithms).unwrap_or_default();
        let key = public_key(cert)?;
        let key = RawPublicKeyEntity::try_from(&key).map_err(from_chain_error)?;
        let fits = algorithms.iter().any(|a| key.verify_signature(*a, message, dss.signature()).is_ok());
        if fits {
            Ok(HandshakeSignatureValid::assertion())
        } else {
            Err(CertificateError::BadSignature.into())
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        if !is_old(cert) {
            return crypto::verify_tls13_signature(message, cert, dss, &self.algorithms);
        }
        crypto::verify_tls13_signature_with_raw_key(message, &public_key(cert)?, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Extended key usages of a client's certificate: client, any, or none.
struct Client;

impl ExtendedKeyUsageValidator for Client {
    fn validate(&self, mut purposes: KeyPurposeIdIter<'_, '_>) -> Result<(), webpki::Error> {
        const CLIENT: KeyPurposeId<'_> = KeyPurposeId::new(&[0x2b, 6, 1, 5, 5, 7, 3, 2]);
        const ANY: KeyPurposeId<'_> = KeyPurposeId::new(&[0x55, 0x1d, 0x25, 0]);
        let mut stated = false;
        for purpose in purposes.by_ref() {
            let purpose = purpose?;
            stated = true;
            if purpose == CLIENT || purpose == ANY {
                return Ok(());
            }
        }
        if stated { Err(purpose_missing()) } else { Ok(()) }
    }
}

fn purpose_missing() -> webpki::Error {
    webpki::Error::RequiredEkuNotFoundContext(webpki::RequiredEkuNotFoundContext {
        required: webpki::KeyUsage::client_auth(),
        present: Vec::new(),
    })
}

/// Certificates of version 1, which `openssl x509 -req` makes when it is given no extensions, and
/// certificates that are CAs themselves, as self-signed ones often are. Both are accepted if a
/// trusted CA signed them itself, or if they are in the CA file.
fn directly_trusted(leaf: &CertificateDer<'_>, cas: &[&CaCertificate], now: UnixTime) -> Result<(), Error> {
    let certificate = parsed(leaf)?;
    let now = now.as_secs() as i64;
    if now < certificate.validity().not_before.timestamp() {
        return Err(CertificateError::NotValidYet.into());
    }
    if now > certificate.validity().not_after.timestamp() {
        return Err(CertificateError::Expired.into());
    }
    for extension in certificate.extensions() {
        match extension.parsed_extension() {
            ParsedExtension::ExtendedKeyUsage(purposes) if !purposes.client_auth && !purposes.any => {
                return Err(CertificateError::InvalidPurpose.into());
            }
            ParsedExtension::BasicConstraints(_)
            | ParsedExtension::KeyUsage(_)
            | ParsedExtension::ExtendedKeyUsage(_)
            | ParsedExtension::SubjectAlternativeName(_) => {}
            _ if extension.critical => return Err(CertificateError::UnhandledCriticalExtension.into()),
            _ => {}
        }
    }
    let vouches = |authority: &CaCertificate| {
        if authority.der == *leaf {
            return true;
        }
        // Only the library evaluates name constraints, and it was not used here.
        authority.anchor.name_constraints.is_none()
            && parsed(&authority.der).is_ok_and(|issuer| {
                issuer.subject().as_raw() == certificate.issuer().as_raw()
                    && certificate.verify_signature(Some(issuer.public_key())).is_ok()
            })
    };
    if cas.iter().any(|authority| vouches(authority)) {
        Ok(())
    } else {
        Err(CertificateError::UnknownIssuer.into())
    }
}

/// The common name of a certificate's subject; the last one if there are several, as Go reads them.
pub(super) fn common_name(certificate: &X509Certificate<'_>) -> Option<String> {
    let last = certificate.subject().iter_common_name().last()?;
    last.as_str().ok().map(str::to_string)
}

pub(super) fn parsed<'a>(der: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, Error> {
    let parsed = X509Certificate::from_der(der.as_ref());
    parsed.map(|(_, certificate)| certificate).map_err(|e| other(Rejection::Unreadable(e.to_string())))
}

/// Version 1: too old for the library.
fn is_old(certificate: &CertificateDer<'_>) -> bool {
    matches!(EndEntityCert::try_from(certificate), Err(webpki::Error::UnsupportedCertVersion))
}

fn public_key(certificate: &CertificateDer<'_>) -> Result<SubjectPublicKeyInfoDer<'static>, Error> {
    Ok(SubjectPublicKeyInfoDer::from(parsed(certificate)?.public_key().raw.to_vec()))
}

fn other(objection: Rejection) -> Error {
    match objection {
        Rejection::Missing => Error::NoCertificatesPresented,
        objection => CertificateError::Other(OtherError(Arc::new(objection))).into(),
    }
}

/// The library's error where there is one, because the client's alert depends on it.
fn from_chain_error(error: webpki::Error) -> Error {
    use webpki::Error as W;
    let certificate = match error {
        W::CertExpired { time, not_after } => CertificateError::ExpiredContext { time, not_after },
        W::CertNotValidYet { time, not_before } => CertificateError::NotValidYetContext { time, not_before },
        W::UnknownIssuer => CertificateError::UnknownIssuer,
        W::InvalidSignatureForPublicKey => CertificateError::BadSignature,
        W::RequiredEkuNotFoundContext(_) => CertificateError::InvalidPurpose,
        W::UnsupportedCriticalExtension => CertificateError::UnhandledCriticalExtension,
        W::BadDer | W::BadDerTime | W::TrailingData(_) => CertificateError::BadEncoding,
        error => return other(Rejection::Chain(error)),
    };
    certificate.into()
}

#[cfg(test)]
mod tests;
