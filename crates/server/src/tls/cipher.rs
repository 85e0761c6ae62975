//! Cipher suites by their Go names, which etcd's flags and documentation use.
//!
//! By default every suite is offered that is still considered sound. Go knows more suites than this
//! server speaks: those without forward secrecy or with CBC, RC4 or 3DES. Naming one of those is
//! refused: silently dropping it from the list would be worse.

use rustls::SupportedCipherSuite;
use rustls::crypto::aws_lc_rs::cipher_suite as suite;

use super::error::TlsError;

/// Suites of TLS 1.2. A list of names chooses among them.
const TLS12_SUITES: [(&str, SupportedCipherSuite); 8] = [
    ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
    ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384),
    ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
    ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
    ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
    ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384),
    ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256),
    ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256),
];

/// Suites of TLS 1.3. All are always on, as in Go: naming some neither adds nor removes any.
const TLS13_SUITES: [(&str, SupportedCipherSuite); 3] = [
    ("TLS_AES_128_GCM_SHA256", suite::TLS13_AES_128_GCM_SHA256),
    ("TLS_AES_256_GCM_SHA384", suite::TLS13_AES_256_GCM_SHA384),
    ("TLS_CHACHA20_POLY1305_SHA256", suite::TLS13_CHACHA20_POLY1305_SHA256),
];

/// The suites of a list of names. An empty list means all.
pub(super) fn select(names: &[String]) -> Result<Vec<SupportedCipherSuite>, TlsError> {
    let mut suites: Vec<SupportedCipherSuite> = TLS13_SUITES.iter().map(|(_, suite)| *suite).collect();
    for name in names {
        if let Some((_, suite)) = TLS12_SUITES.iter().find(|(known, _)| known == name) {
            suites.push(*suite);
        } else if !TLS13_SUITES.iter().any(|(known, _)| known == name) {
            return Err(TlsError::Cipher { name: name.clone(), known: known_names() });
        }
    }
    if names.is_empty() {
        suites.extend(TLS12_SUITES.iter().map(|(_, suite)| *suite));
    }
    let mut distinct = Vec::new();
    for suite in suites {
        if !distinct.contains(&suite) {
            distinct.push(suite);
        }
    }
    Ok(distinct)
}

fn known_names() -> String {
    let names: Vec<&str> = TLS12_SUITES.iter().chain(&TLS13_SUITES).map(|(name, _)| *name).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selected_count(names: &[&str]) -> Result<usize, TlsError> {
        let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
        select(&names).map(|suites| suites.len())
    }

    #[test]
    fn names_choose_among_the_suites_of_tls_1_2_only() {
        assert_eq!(selected_count(&[]).unwrap(), 9);
        let old_and_new_name =
            ["TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"];
        assert_eq!(selected_count(&old_and_new_name).unwrap(), 4);
        assert_eq!(selected_count(&["TLS_AES_128_GCM_SHA256"]).unwrap(), 3);
    }

    #[test]
    fn a_suite_that_is_not_spoken_is_refused_with_those_that_are() {
        for name in ["TLS_RSA_WITH_AES_128_CBC_SHA", "TLS_ECDHE_RSA_WITH_RC4_128_SHA", "nonsense"] {
            let error = selected_count(&[name]).unwrap_err().to_string();
            assert!(error.contains(&format!("unexpected TLS cipher suite {name:?}")), "{error}");
            assert!(error.contains("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"), "{error}");
        }
    }
}
