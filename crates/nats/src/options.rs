//! Options: where the servers are, how to log in, which stream.

use std::path::PathBuf;
use std::time::Duration;

use async_nats::{ConnectErrorKind, ConnectOptions};

use crate::NatsError;

/// How often a server is asked whether it is still there; the third question without an answer is
/// one too many. A server that is cut off or stopped is left for another one after that.
const PING: Duration = Duration::from_millis(500);
/// How long a server may take to accept a connection before the next one is tried.
const CONNECT: Duration = Duration::from_millis(1500);

/// How to log in.
#[derive(Clone, Debug, Default)]
pub enum Login {
    #[default]
    None,
    User {
        name: String,
        password: String,
    },
    Token(String),
    /// The text of a credentials file, as `nsc` writes it.
    Credentials(String),
}

/// Certificates; the system's authorities are trusted unless one is given.
#[derive(Clone, Debug, Default)]
pub struct Tls {
    pub required: bool,
    pub authority: Option<PathBuf>,
    /// Certificate and key of this client.
    pub client: Option<(PathBuf, PathBuf)>,
}

#[derive(Clone, Debug)]
pub struct Options {
    /// Any of them is enough; the others are learnt.
    pub urls: Vec<String>,
    pub login: Login,
    /// A user of the system account, to look at every server's settings.
    pub system: Option<Login>,
    pub tls: Tls,
    pub stream: String,
    pub replicas: usize,
    /// Bytes that the stream may hold; above that, appends are refused.
    pub max_bytes: Option<i64>,
    /// Use the stream although it may lose acknowledged records.
    pub allow_unsafe: bool,
    /// Go on when most of the servers are fit and the others do not answer: one that is away must
    /// not keep a server of ours from starting. They are looked at when they are back.
    pub most_are_enough: bool,
    /// How long a request may take.
    pub timeout: Duration,
}

impl Options {
    pub fn new(urls: Vec<String>, stream: &str) -> Options {
        Options {
            urls,
            login: Login::None,
            system: None,
            tls: Tls::default(),
            stream: stream.to_string(),
            replicas: 3,
            max_bytes: None,
            allow_unsafe: false,
            most_are_enough: false,
            timeout: Duration::from_secs(5),
        }
    }

    /// The only subject of the stream.
    pub fn subject(&self) -> String {
        format!("vetch.journal.{}", self.stream)
    }

    pub(crate) async fn connect(
        &self,
        login: &Login,
        options: ConnectOptions,
    ) -> Result<async_nats::Client, NatsError> {
        let failed = |error: &dyn std::fmt::Display| NatsError::Connect(error.to_string());
        let mut options = options
            .name(format!("vetch {}", self.stream))
            .connection_timeout(CONNECT.min(self.timeout))
            .request_timeout(Some(self.timeout))
            .ping_interval(PING)
            .reconnect_delay_callback(|attempt| Duration::from_millis(50 * attempt.min(10) as u64))
            .require_tls(self.tls.required);
        if let Some(authority) = &self.tls.authority {
            options = options.add_root_certificates(authority.clone());
        }
        if let Some((certificate, key)) = &self.tls.client {
            options = options.add_client_certificate(certificate.clone(), key.clone());
        }
        options = match login {
            Login::None => options,
            Login::User { name, password } => options.user_and_password(name.clone(), password.clone()),
            Login::Token(token) => options.token(token.clone()),
            Login::Credentials(text) => options.credentials(text).map_err(|error| failed(&error))?,
        };
        let urls: Result<Vec<async_nats::ServerAddr>, _> = self.urls.iter().map(|url| url.parse()).collect();
        let urls = urls.map_err(|error| failed(&error))?;
        options.connect(urls).await.map_err(|error| match error.kind() {
            ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
                NatsError::Login(error.to_string())
            }
            _ => failed(&error),
        })
    }
}
