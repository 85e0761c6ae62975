//! Keys for signing and verifying, from the files that etcd takes.

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair,
};
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, EncodingKey, Header, Validation};
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;

use super::{JwtError, KeyFile, family_name};

/// The key to sign with, if there is one, and the key to verify with.
pub(super) fn load(
    algorithm: Algorithm,
    public: Option<&KeyFile>,
    private: Option<&KeyFile>,
) -> Result<(Option<EncodingKey>, DecodingKey), JwtError> {
    let family = algorithm.family();
    let name = family_name(family);
    if family == AlgorithmFamily::Hmac {
        // The file is the secret, as it is. There is no public half.
        let secret = private.filter(|file| !file.content.is_empty()).ok_or(JwtError::MissingKey(name))?;
        let (signing, verifying) =
            (EncodingKey::from_secret(&secret.content), DecodingKey::from_secret(&secret.content));
        return Ok((Some(signing), verifying));
    }
    let verifying = public.map(|file| public_key(family, file)).transpose()?;
    let Some(private) = private else {
        return Ok((None, verifying.ok_or(JwtError::MissingKey(name))?));
    };
    let signing = private_key(algorithm, private)?;
    let own = own_public_key(algorithm, &signing).ok_or_else(|| private.bad(name))?;
    if verifying.is_some_and(|verifying| !is_key_pair(algorithm, &signing, &verifying)) {
        return Err(JwtError::Mismatch);
    }
    Ok((Some(signing), own))
}

fn public_key(family: AlgorithmFamily, file: &KeyFile) -> Result<DecodingKey, JwtError> {
    let pem = &file.content;
    let key = match family {
        AlgorithmFamily::Rsa => DecodingKey::from_rsa_pem(pem),
        AlgorithmFamily::Ec => DecodingKey::from_ec_pem(pem),
        AlgorithmFamily::Ed => DecodingKey::from_ed_pem(pem),
        AlgorithmFamily::Hmac => unreachable!("a secret has no public half"),
    };
    key.map_err(|_| file.bad(family_name(family)))
}

fn private_key(algorithm: Algorithm, file: &KeyFile) -> Result<EncodingKey, JwtError> {
    let family = algorithm.family();
    let bad = || file.bad(family_name(family));
    match family {
        AlgorithmFamily::Rsa => EncodingKey::from_rsa_pem(&file.content).map_err(|_| bad()),
        AlgorithmFamily::Ed => match PrivateKeyDer::from_pem_slice(&file.content) {
            Ok(PrivateKeyDer::Pkcs8(key)) => Ok(EncodingKey::from_ed_der(key.secret_pkcs8_der())),
            _ => Err(bad()),
        },
        AlgorithmFamily::Ec => match PrivateKeyDer::from_pem_slice(&file.content) {
            // OpenSSL's older form, which `openssl ecparam -genkey` writes.
            Ok(PrivateKeyDer::Sec1(key)) => {
                let der = sec1_to_pkcs8(algorithm, key.secret_sec1_der()).ok_or_else(bad)?;
                Ok(EncodingKey::from_ec_der(&der))
            }
            _ => EncodingKey::from_ec_pem(&file.content).map_err(|_| bad()),
        },
        AlgorithmFamily::Hmac => unreachable!("a secret is no private key"),
    }
}

/// The same key in the form that signing takes.
fn sec1_to_pkcs8(algorithm: Algorithm, sec1: &[u8]) -> Option<Vec<u8>> {
    let curve = match algorithm {
        Algorithm::ES256 => &ECDSA_P256_SHA256_FIXED_SIGNING,
        _ => &ECDSA_P384_SHA384_FIXED_SIGNING,
    };
    let pair = EcdsaKeyPair::from_private_key_der(curve, sec1).ok()?;
    Some(pair.to_pkcs8v1().ok()?.as_ref().to_vec())
}

fn own_public_key(algorithm: Algorithm, signing: &EncodingKey) -> Option<DecodingKey> {
    if algorithm == Algorithm::EdDSA {
        let pair = Ed25519KeyPair::from_pkcs8(signing.as_bytes()).ok()?;
        return Some(DecodingKey::from_ed_der(pair.public_key().as_ref()));
    }
    let jwk = Jwk::from_encoding_key(signing, algorithm).ok()?;
    DecodingKey::from_jwk(&jwk).ok()
}

/// Whether one key verifies what the other signs.
fn is_key_pair(algorithm: Algorithm, signing: &EncodingKey, verifying: &DecodingKey) -> bool {
    let mut validation = Validation::new(algorithm);
    validation.validate_exp = false;
    validation.required_spec_claims.clear();
    let claims = serde_json::json!({});
    let Ok(token) = jsonwebtoken::encode(&Header::new(algorithm), &claims, signing) else { return false };
    jsonwebtoken::decode::<serde_json::Value>(token, verifying, &validation).is_ok()
}
