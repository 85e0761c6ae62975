//! A TLS endpoint: reads and watches the files of its settings, and makes handshake configurations
//! from them.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::ServerName;
use rustls::sign::SingleCertAndKey;
use rustls::{ServerConfig, SupportedProtocolVersion, version};
use vetch_http2::border;

use super::cipher;
use super::client_verifier::{AllowedNames, ClientVerifier};
use super::error::TlsError;
use super::failures::Failures;
use super::files::{Reload, Reloadable};
use super::material::{Identity, Revoked, TrustedCas};
use super::self_signed;
use super::settings::{TlsSettings, TlsVersion};

/// The files are checked when a client connects, but no more often than this.
const FILE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Serves TLS as one set of settings says.
pub struct Tls {
    fixed: StaticConfig,
    files: Mutex<Files>,
    current: Mutex<Arc<LoadedConfig>>,
    checked_at: Mutex<Instant>,
    pub(crate) failures: Failures,
    pub(crate) reloads: Reloads,
}

/// What does not change while the server runs.
pub(super) struct StaticConfig {
    pub(super) provider: Arc<CryptoProvider>,
    pub(super) versions: Vec<&'static SupportedProtocolVersion>,
    names: AllowedNames,
}

struct Files {
    identity: Reloadable<Identity>,
    trust: Option<Reloadable<TrustedCas>>,
    revoked: Option<Reloadable<Revoked>>,
}

/// The configuration from one state of the files. Each has its own key for session tickets, so no
/// session can be resumed after the CAs were replaced.
pub(super) struct LoadedConfig {
    pub(super) config: Arc<ServerConfig>,
    /// None: clients need no certificate.
    pub(super) verifier: Option<Arc<ClientVerifier>>,
    not_after: i64,
}

/// How often changed files were accepted and rejected.
#[derive(Debug, Default)]
pub(crate) struct Reloads {
    pub(crate) taken: AtomicU64,
    pub(crate) refused: AtomicU64,
}

impl Tls {
    /// Reads everything, and makes a certificate first if there is none and one was asked for.
    pub fn open(settings: &TlsSettings) -> Result<Tls, TlsError> {
        let fixed = StaticConfig::from_settings(settings)?;
        let files = Files::open(settings)?;
        let first = Arc::new(files.load(&fixed)?);
        warn_if_expired(first.not_after);
        Ok(Tls {
            fixed,
            files: Mutex::new(files),
            current: Mutex::new(first),
            checked_at: Mutex::new(Instant::now()),
            failures: Failures::default(),
            reloads: Reloads::default(),
        })
    }

    /// The configuration of the next handshake, after a check of the files if one is due.
    pub(super) async fn current(self: &Arc<Tls>) -> Arc<LoadedConfig> {
        if self.claim_check() {
            let this = self.clone();
            // A file may be on a disk that hangs, which must not block a thread that serves others.
            let reloading = border::spawn_blocking(move || this.reload());
            reloading.await.expect("checking files does not panic");
        }
        self.current.lock().clone()
    }

    /// Unix time at which the certificate in use expires.
    pub(crate) fn not_after(&self) -> i64 {
        self.current.lock().not_after
    }

    /// Whether the present files are in use.
    pub(crate) fn is_up_to_date(&self) -> bool {
        self.files.lock().are_current()
    }

    fn claim_check(&self) -> bool {
        let mut checked_at = self.checked_at.lock();
        let due = checked_at.elapsed() >= FILE_CHECK_INTERVAL;
        if due {
            *checked_at = Instant::now();
        }
        due
    }

    fn reload(&self) {
        let mut files = self.files.lock();
        let (replaced, refused) = files.reload();
        self.reloads.refused.fetch_add(refused, Relaxed);
        if replaced == 0 {
            return;
        }
        match files.load(&self.fixed) {
            Ok(next) => {
                self.reloads.taken.fetch_add(replaced, Relaxed);
                warn_if_expired(next.not_after);
                *self.current.lock() = Arc::new(next);
            }
            Err(error) => tracing::error!(%error, "cannot use replaced TLS files; the old ones stay in use"),
        }
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

fn warn_if_expired(not_after: i64) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() as i64;
    if not_after < now {
        tracing::warn!(
            expired_seconds_ago = now - not_after,
            "the server's certificate has expired; clients will refuse it"
        );
    }
}

impl StaticConfig {
    pub(super) fn from_settings(settings: &TlsSettings) -> Result<StaticConfig, TlsError> {
        let cipher_suites = cipher::select(&settings.cipher_suites)?;
        let provider = CryptoProvider { cipher_suites, ..aws_lc_rs::default_provider() };
        let spoken = settings.min_version..=settings.max_version.unwrap_or(TlsVersion::V1_3);
        let all = [(TlsVersion::V1_3, &version::TLS13), (TlsVersion::V1_2, &version::TLS12)];
        let versions = all.iter().filter(|(v, _)| spoken.contains(v)).map(|(_, version)| *version).collect();
        Ok(StaticConfig { provider: Arc::new(provider), versions, names: names(settings)? })
    }
}

fn names(settings: &TlsSettings) -> Result<AllowedNames, TlsError> {
    let (cns, hostnames) = (settings.allowed_cns.clone(), settings.allowed_hostnames.clone());
    match (cns.is_empty(), hostnames.is_empty()) {
        (true, true) => Ok(AllowedNames::Any),
        (false, true) => Ok(AllowedNames::Common(cns)),
        (true, false) => {
            let parse = |name: String| {
                ServerName::try_from(name.clone()).map_err(|_| TlsError::AllowedHostname(name))
            };
            Ok(AllowedNames::Hosts(hostnames.into_iter().map(parse).collect::<Result<_, _>>()?))
        }
        (false, false) => Err(TlsError::ConflictingNames { cns, hostnames }),
    }
}

impl Files {
    fn open(settings: &TlsSettings) -> Result<Files, TlsError> {
        let pair = match (&settings.cert_file, &settings.key_file, &settings.auto) {
            (Some(cert), Some(key), _) => (cert.clone(), key.clone()),
            (None, None, Some(wanted)) => self_signed::ensure(wanted)?,
            (cert, key, _) => return Err(incomplete_pair(cert, key)),
        };
        check_client_pair(settings)?;
        if settings.client_cert_auth && settings.trusted_ca_file.is_none() {
            return Err(TlsError::NoTrustedCa);
        }
        let identity = Reloadable::open(vec![pair.0, pair.1], identity)?;
        let trust = settings.trusted_ca_file.clone();
        let trust = trust
            .map(|path| Reloadable::open(vec![path], |files| TrustedCas::parse(&files[0].0, &files[0].1)));
        let revoked = settings.crl_file.clone();
        let revoked = revoked
            .map(|path| Reloadable::open(vec![path], |files| Revoked::parse(&files[0].0, &files[0].1)));
        Ok(Files { identity, trust: trust.transpose()?, revoked: revoked.transpose()? })
    }

    fn load(&self, fixed: &StaticConfig) -> Result<LoadedConfig, TlsError> {
        let verifier = self.trust.as_ref().map(|trust| {
            Arc::new(ClientVerifier {
                trust: trust.value(),
                revoked: self.revoked.as_ref().map(Reloadable::value),
                names: fixed.names.clone(),
                algorithms: fixed.provider.signature_verification_algorithms,
            })
        });
        let builder = ServerConfig::builder_with_provider(fixed.provider.clone())
            .with_protocol_versions(&fixed.versions)?;
        let builder = match &verifier {
            Some(verifier) => builder.with_client_cert_verifier(verifier.clone()),
            None => builder.with_no_client_auth(),
        };
        let identity = self.identity.value();
        let key = SingleCertAndKey::from(identity.key.clone());
        let mut config = builder.with_cert_resolver(Arc::new(key));
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        config.ticketer = aws_lc_rs::Ticketer::new()?;
        Ok(LoadedConfig { config: Arc::new(config), verifier, not_after: identity.not_after })
    }

    /// Checks all files. Returns how many groups of them were replaced, and how many of the
    /// replacements are not usable.
    fn reload(&mut self) -> (u64, u64) {
        let reloads = [
            Some(reload(&mut self.identity, "certificate")),
            self.trust.as_mut().map(|trust| reload(trust, "trusted CAs")),
            self.revoked.as_mut().map(|revoked| reload(revoked, "revocation list")),
        ];
        let count =
            |wanted: fn(&Reload) -> bool| reloads.iter().flatten().filter(|l| wanted(l)).count() as u64;
        (count(|l| matches!(l, Reload::Replaced)), count(|l| matches!(l, Reload::Rejected(_))))
    }

    fn are_current(&self) -> bool {
        self.identity.is_current()
            && self.trust.as_ref().is_none_or(Reloadable::is_current)
            && self.revoked.as_ref().is_none_or(Reloadable::is_current)
    }
}

pub(super) fn identity(files: &[(PathBuf, Vec<u8>)]) -> Result<Identity, TlsError> {
    let [(cert_path, cert), (key_path, key)] = files else { unreachable!("two paths were given") };
    Identity::parse((cert_path, cert), (key_path, key))
}

/// The client certificate for calls to other servers is not used by a listener, but named files
/// have to be valid.
fn check_client_pair(settings: &TlsSettings) -> Result<(), TlsError> {
    match (&settings.client_cert_file, &settings.client_key_file) {
        (None, None) => Ok(()),
        (Some(cert), Some(key)) => Reloadable::open(vec![cert.clone(), key.clone()], identity).map(|_| ()),
        (cert, key) => Err(incomplete_pair(cert, key)),
    }
}

pub(super) fn incomplete_pair(cert: &Option<PathBuf>, key: &Option<PathBuf>) -> TlsError {
    let shown = |path: &Option<PathBuf>| path.as_ref().map(|p| p.display().to_string()).unwrap_or_default();
    TlsError::IncompletePair { key: shown(key), cert: shown(cert) }
}

pub(super) fn reload<T>(kept: &mut Reloadable<T>, what: &str) -> Reload {
    let outcome = kept.reload();
    match &outcome {
        Reload::Unchanged => {}
        Reload::Replaced => tracing::info!(what, files = kept.paths(), "reloaded TLS files"),
        Reload::Rejected(error) => {
            tracing::error!(what, %error, "cannot use replaced TLS files; the old ones stay in use");
        }
    }
    outcome
}
