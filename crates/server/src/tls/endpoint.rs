//! The settings put to work: files read, watched and turned into what a handshake needs.

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
use super::error::TlsError;
use super::failures::Failures;
use super::files::{Kept, Look};
use super::gate::{Gate, Names};
use super::material::{Identity, Revoked, Trust};
use super::self_signed;
use super::settings::{TlsSettings, TlsVersion};

/// The files are looked at when a client calls, but no more often than this.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);

/// Serves TLS as one set of settings says.
pub struct Tls {
    fixed: Fixed,
    files: Mutex<Files>,
    current: Mutex<Arc<Generation>>,
    looked: Mutex<Instant>,
    pub(crate) failures: Failures,
    pub(crate) reloads: Reloads,
}

/// What does not change while the server runs.
pub(super) struct Fixed {
    pub(super) provider: Arc<CryptoProvider>,
    pub(super) versions: Vec<&'static SupportedProtocolVersion>,
    names: Names,
}

struct Files {
    identity: Kept<Identity>,
    trust: Option<Kept<Trust>>,
    revoked: Option<Kept<Revoked>>,
}

/// What was made of the files as they were at one time. Tickets for resuming a session are sealed
/// with a key of their own in each, so nobody resumes a session past authorities that have been
/// replaced.
pub(super) struct Generation {
    pub(super) config: Arc<ServerConfig>,
    /// None: clients need no certificate.
    pub(super) gate: Option<Arc<Gate>>,
    not_after: i64,
}

/// How often changed files were taken and turned down.
#[derive(Debug, Default)]
pub(crate) struct Reloads {
    pub(crate) taken: AtomicU64,
    pub(crate) refused: AtomicU64,
}

impl Tls {
    /// Reads everything, and makes a certificate first if there is none and one was asked for.
    pub fn open(settings: &TlsSettings) -> Result<Tls, TlsError> {
        let fixed = Fixed::of(settings)?;
        let files = Files::open(settings)?;
        let first = Arc::new(files.generation(&fixed)?);
        warn_of_end(first.not_after);
        Ok(Tls {
            fixed,
            files: Mutex::new(files),
            current: Mutex::new(first),
            looked: Mutex::new(Instant::now()),
            failures: Failures::default(),
            reloads: Reloads::default(),
        })
    }

    /// What the next handshake is done with, after a look at the files if one is due.
    pub(super) async fn current(self: &Arc<Tls>) -> Arc<Generation> {
        if self.claim_look() {
            let this = self.clone();
            // A file may lie on a disk that hangs, which must not stop a thread that serves others.
            let looking = border::spawn_blocking(move || this.look());
            looking.await.expect("looking at files does not panic");
        }
        self.current.lock().clone()
    }

    /// Unix time at which the certificate in use ends.
    pub(crate) fn not_after(&self) -> i64 {
        self.current.lock().not_after
    }

    /// Are the files as they lie there what is in use?
    pub(crate) fn is_up_to_date(&self) -> bool {
        self.files.lock().work()
    }

    fn claim_look(&self) -> bool {
        let mut looked = self.looked.lock();
        let due = looked.elapsed() >= BETWEEN_LOOKS;
        if due {
            *looked = Instant::now();
        }
        due
    }

    fn look(&self) {
        let mut files = self.files.lock();
        let (replaced, refused) = files.look();
        self.reloads.refused.fetch_add(refused, Relaxed);
        if replaced == 0 {
            return;
        }
        match files.generation(&self.fixed) {
            Ok(next) => {
                self.reloads.taken.fetch_add(replaced, Relaxed);
                warn_of_end(next.not_after);
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

fn warn_of_end(not_after: i64) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() as i64;
    if not_after < now {
        tracing::warn!(
            ended_seconds_ago = now - not_after,
            "the server's certificate has ended; clients will refuse it"
        );
    }
}

impl Fixed {
    pub(super) fn of(settings: &TlsSettings) -> Result<Fixed, TlsError> {
        let cipher_suites = cipher::chosen(&settings.cipher_suites)?;
        let provider = CryptoProvider { cipher_suites, ..aws_lc_rs::default_provider() };
        let spoken = settings.min_version..=settings.max_version.unwrap_or(TlsVersion::V1_3);
        let all = [(TlsVersion::V1_3, &version::TLS13), (TlsVersion::V1_2, &version::TLS12)];
        let versions = all.iter().filter(|(v, _)| spoken.contains(v)).map(|(_, version)| *version).collect();
        Ok(Fixed { provider: Arc::new(provider), versions, names: names(settings)? })
    }
}

fn names(settings: &TlsSettings) -> Result<Names, TlsError> {
    let (cns, hostnames) = (settings.allowed_cns.clone(), settings.allowed_hostnames.clone());
    match (cns.is_empty(), hostnames.is_empty()) {
        (true, true) => Ok(Names::Any),
        (false, true) => Ok(Names::Common(cns)),
        (true, false) => {
            let parse = |name: String| {
                ServerName::try_from(name.clone()).map_err(|_| TlsError::AllowedHostname(name))
            };
            Ok(Names::Hosts(hostnames.into_iter().map(parse).collect::<Result<_, _>>()?))
        }
        (false, false) => Err(TlsError::NamesOfBothKinds { cns, hostnames }),
    }
}

impl Files {
    fn open(settings: &TlsSettings) -> Result<Files, TlsError> {
        let pair = match (&settings.cert_file, &settings.key_file, &settings.auto) {
            (Some(cert), Some(key), _) => (cert.clone(), key.clone()),
            (None, None, Some(wanted)) => self_signed::ensure(wanted)?,
            (cert, key, _) => return Err(half_a_pair(cert, key)),
        };
        check_client_pair(settings)?;
        if settings.client_cert_auth && settings.trusted_ca_file.is_none() {
            return Err(TlsError::NoAuthority);
        }
        let identity = Kept::open(vec![pair.0, pair.1], identity)?;
        let trust = settings.trusted_ca_file.clone();
        let trust = trust.map(|path| Kept::open(vec![path], |files| Trust::parse(&files[0].0, &files[0].1)));
        let revoked = settings.crl_file.clone();
        let revoked =
            revoked.map(|path| Kept::open(vec![path], |files| Revoked::parse(&files[0].0, &files[0].1)));
        Ok(Files { identity, trust: trust.transpose()?, revoked: revoked.transpose()? })
    }

    fn generation(&self, fixed: &Fixed) -> Result<Generation, TlsError> {
        let gate = self.trust.as_ref().map(|trust| {
            Arc::new(Gate {
                trust: trust.value(),
                revoked: self.revoked.as_ref().map(Kept::value),
                names: fixed.names.clone(),
                algorithms: fixed.provider.signature_verification_algorithms,
            })
        });
        let builder = ServerConfig::builder_with_provider(fixed.provider.clone())
            .with_protocol_versions(&fixed.versions)?;
        let builder = match &gate {
            Some(gate) => builder.with_client_cert_verifier(gate.clone()),
            None => builder.with_no_client_auth(),
        };
        let identity = self.identity.value();
        let key = SingleCertAndKey::from(identity.key.clone());
        let mut config = builder.with_cert_resolver(Arc::new(key));
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        config.ticketer = aws_lc_rs::Ticketer::new()?;
        Ok(Generation { config: Arc::new(config), gate, not_after: identity.not_after })
    }

    /// Looks at all files. Gives how many groups of them were replaced, and how many of the
    /// replacements are no good.
    fn look(&mut self) -> (u64, u64) {
        let looks = [
            Some(look(&mut self.identity, "certificate")),
            self.trust.as_mut().map(|trust| look(trust, "trusted authorities")),
            self.revoked.as_mut().map(|revoked| look(revoked, "revocation list")),
        ];
        let count = |wanted: fn(&Look) -> bool| looks.iter().flatten().filter(|l| wanted(l)).count() as u64;
        (count(|l| matches!(l, Look::Replaced)), count(|l| matches!(l, Look::Refused(_))))
    }

    fn work(&self) -> bool {
        self.identity.works()
            && self.trust.as_ref().is_none_or(Kept::works)
            && self.revoked.as_ref().is_none_or(Kept::works)
    }
}

pub(super) fn identity(files: &[(PathBuf, Vec<u8>)]) -> Result<Identity, TlsError> {
    let [(cert_path, cert), (key_path, key)] = files else { unreachable!("two paths were given") };
    Identity::parse((cert_path, cert), (key_path, key))
}

/// What the server shows when it calls others, which is not a listener's business; but files that
/// are named have to be right.
fn check_client_pair(settings: &TlsSettings) -> Result<(), TlsError> {
    match (&settings.client_cert_file, &settings.client_key_file) {
        (None, None) => Ok(()),
        (Some(cert), Some(key)) => Kept::open(vec![cert.clone(), key.clone()], identity).map(|_| ()),
        (cert, key) => Err(half_a_pair(cert, key)),
    }
}

pub(super) fn half_a_pair(cert: &Option<PathBuf>, key: &Option<PathBuf>) -> TlsError {
    let shown = |path: &Option<PathBuf>| path.as_ref().map(|p| p.display().to_string()).unwrap_or_default();
    TlsError::HalfAPair { key: shown(key), cert: shown(cert) }
}

pub(super) fn look<T>(kept: &mut Kept<T>, what: &str) -> Look {
    let look = kept.look();
    match &look {
        Look::Same => {}
        Look::Replaced => tracing::info!(what, files = kept.paths(), "reloaded TLS files"),
        Look::Refused(error) => {
            tracing::error!(what, %error, "cannot use replaced TLS files; the old ones stay in use");
        }
    }
    look
}
