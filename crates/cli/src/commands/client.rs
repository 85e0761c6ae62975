//! How commands reach a server: flags with etcdctl's names, a connection, and the user.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use tonic::Request;
use tonic::metadata::AsciiMetadataValue;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use vetch_api::pb::AuthenticateRequest;
use vetch_api::pb::auth_client::AuthClient;

use super::Failure;
use crate::causes::with_causes;

/// Flow control windows of a connection: with small ones every few kilobytes of a large response
/// wait for the other side.
const WINDOW: u32 = 8 << 20;

#[derive(Args, Clone)]
pub(crate) struct ClientArgs {
    /// Servers, separated by commas.
    #[arg(long, default_value = "127.0.0.1:2379")]
    endpoints: String,
    #[command(flatten)]
    pub(crate) access: Access,
}

/// Options of a connection besides its address.
#[derive(Args, Debug, Clone)]
pub(crate) struct Access {
    /// CA certificates to verify the server with. Enables TLS.
    #[arg(long)]
    cacert: Option<PathBuf>,
    /// The client's own certificate.
    #[arg(long, requires = "key")]
    cert: Option<PathBuf>,
    /// The key of that certificate.
    #[arg(long, requires = "cert")]
    key: Option<PathBuf>,
    /// User and password as user:password.
    #[arg(long)]
    user: Option<String>,
    /// The password, if it is not part of --user.
    #[arg(long, requires = "user")]
    password: Option<String>,
    /// How long a connection may take, in seconds or with units (2s, 500ms).
    #[arg(long, default_value = "2s", value_parser = duration)]
    pub(crate) dial_timeout: Duration,
}

/// A connection, and its user.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    channel: Channel,
    token: Option<AsciiMetadataValue>,
}

impl Session {
    pub(crate) fn channel(&self) -> Channel {
        self.channel.clone()
    }

    pub(crate) fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        if let Some(token) = &self.token {
            request.metadata_mut().insert("token", token.clone());
        }
        request
    }
}

impl ClientArgs {
    /// At least one.
    pub(crate) fn endpoints(&self) -> Vec<String> {
        self.endpoints.split(',').map(|endpoint| endpoint.trim().to_owned()).collect()
    }

    pub(crate) async fn connect(&self, endpoint: &str) -> Result<Session, Failure> {
        self.access.connect(endpoint).await
    }
}

impl Access {
    /// `endpoint` is an address, or a URL.
    pub(crate) async fn connect(&self, endpoint: &str) -> Result<Session, Failure> {
        let channel = self.channel(endpoint).await?;
        let token = self.token(channel.clone()).await?;
        Ok(Session { channel, token })
    }

    async fn channel(&self, endpoint: &str) -> Result<Channel, Failure> {
        let is_tls = self.cacert.is_some() || endpoint.starts_with("https://");
        let scheme = if is_tls { "https://" } else { "http://" };
        let address = endpoint.trim_start_matches("https://").trim_start_matches("http://");
        let mut target = Endpoint::from_shared(format!("{scheme}{address}"))?
            .connect_timeout(self.dial_timeout)
            .initial_connection_window_size(WINDOW)
            .initial_stream_window_size(WINDOW);
        if is_tls {
            let Some(cacert) = &self.cacert else {
                return Err(Failure::bad_arguments("--cacert is needed for an https endpoint"));
            };
            let mut tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read(cacert)?));
            if let Some((cert, key)) = self.cert.as_ref().zip(self.key.as_ref()) {
                tls = tls.identity(Identity::from_pem(read(cert)?, read(key)?));
            }
            target = target.tls_config(tls)?;
        }
        target.connect().await.map_err(|error| Failure {
            code: 1,
            text: format!("cannot connect to {endpoint}: {}", with_causes(&error)),
        })
    }

    async fn token(&self, channel: Channel) -> Result<Option<AsciiMetadataValue>, Failure> {
        let Some(user) = &self.user else { return Ok(None) };
        let (name, password) = match (&self.password, user.split_once(':')) {
            (Some(password), _) => (user.clone(), password.clone()),
            (None, Some((name, password))) => (name.to_owned(), password.to_owned()),
            (None, None) => {
                return Err(Failure::bad_arguments(
                    "--user without a password: use user:password or --password",
                ));
            }
        };
        let request = AuthenticateRequest { name, password };
        let answer = AuthClient::new(channel).authenticate(request).await.map_err(refused)?.into_inner();
        let token = AsciiMetadataValue::try_from(answer.token);
        token.map(Some).map_err(|_| Failure { code: 1, text: "the server's token is not text".into() })
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(path).map_err(|error| Failure { code: 1, text: format!("{}: {error}", path.display()) })
}

pub(crate) fn refused(status: tonic::Status) -> Failure {
    let text = format!("rpc error: code = {:?} desc = {}", status.code(), status.message());
    Failure { code: 1, text }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a duration such as 500ms, 2s, 5m or 168h")]
pub(crate) struct NoDuration(String);

/// A duration as the server's flags have it, or a bare number of seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, NoDuration> {
    let seconds = || text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let wrong = || NoDuration(text.to_string());
    crate::flags::duration(text).or_else(seconds).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units_or_are_seconds() {
        for (text, millis) in [("2s", 2000), ("500ms", 500), ("1h30m", 5_400_000), ("3", 3000), ("0.5", 500)]
        {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "x", "-1", "5y", "inf", "NaN"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
