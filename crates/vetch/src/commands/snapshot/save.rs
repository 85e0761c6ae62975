//! `vetch snapshot save`: fetches a snapshot over the API, from a Vetch or an etcd.
//!
//! The file gets its name only when all of it is on disk and its hash is right.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use sha2::{Digest, Sha256};
use tonic::metadata::AsciiMetadataValue;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use vetch_api::pb::auth_client::AuthClient;
use vetch_api::pb::maintenance_client::MaintenanceClient;
use vetch_api::pb::{AuthenticateRequest, SnapshotRequest};

use super::super::progress::Ticker;
use super::super::{Failure, answer};

/// Length of the hash behind a snapshot.
const HASH: usize = 32;

#[derive(Args)]
pub(super) struct Save {
    /// The file to write.
    filename: PathBuf,
    /// The server; exactly one.
    #[arg(long, default_value = "127.0.0.1:2379")]
    endpoints: String,
    /// Certificates of the authorities that the server's is checked by. Makes the connection a TLS one.
    #[arg(long)]
    cacert: Option<PathBuf>,
    /// The client's certificate and its key.
    #[arg(long, requires = "key")]
    cert: Option<PathBuf>,
    #[arg(long, requires = "cert")]
    key: Option<PathBuf>,
    /// User and password as user:password.
    #[arg(long)]
    user: Option<String>,
    /// The password, if it is not part of --user.
    #[arg(long, requires = "user")]
    password: Option<String>,
    /// How long a connection may take, in seconds or with a unit (2s, 500ms).
    #[arg(long, default_value = "2s", value_parser = duration)]
    dial_timeout: Duration,
}

impl Save {
    pub(super) fn run(&self) -> Result<(), Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let part = PathBuf::from(format!("{}.part", self.filename.display()));
        let saved = runtime.block_on(self.fetch(&part));
        let version = saved.inspect_err(|_| {
            // What is left of it is of no use, and the error is worth more than a second one.
            let _ = fs::remove_file(&part);
        })?;
        fs::rename(&part, &self.filename)?;
        let dir = self.filename.parent().filter(|dir| !dir.as_os_str().is_empty());
        File::open(dir.unwrap_or(Path::new(".")))?.sync_all()?;
        let shown = if version.is_empty() { String::new() } else { format!("\nServer version {version}") };
        answer(&format!("Snapshot saved at {}{shown}", self.filename.display()))
    }

    async fn fetch(&self, part: &Path) -> Result<String, Failure> {
        let channel = self.connect().await?;
        let mut request = tonic::Request::new(SnapshotRequest {});
        if let Some(token) = self.token(channel.clone()).await? {
            request.metadata_mut().insert("token", token);
        }
        let mut client = MaintenanceClient::new(channel);
        let mut stream = client.snapshot(request).await.map_err(refused)?.into_inner();
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(part)?;
        let mut sink = Sink { file, hash: Sha256::new(), held: Vec::new(), written: 0 };
        let mut ticker = Ticker::new();
        let mut version = String::new();
        while let Some(message) = stream.message().await.map_err(refused)? {
            sink.take(&message.blob)?;
            ticker.tell("saving", sink.written, sink.written + message.remaining_bytes);
            version = message.version;
        }
        sink.finish()?;
        Ok(version)
    }

    async fn connect(&self) -> Result<Channel, Failure> {
        if self.endpoints.contains(',') {
            return Err(Failure::bad_arguments(
                "snapshot must be requested to one selected node, not multiple",
            ));
        }
        let is_tls = self.cacert.is_some() || self.endpoints.starts_with("https://");
        let scheme = if is_tls { "https://" } else { "http://" };
        let address = self.endpoints.trim_start_matches("https://").trim_start_matches("http://");
        let mut endpoint =
            Endpoint::from_shared(format!("{scheme}{address}"))?.connect_timeout(self.dial_timeout);
        if is_tls {
            let Some(cacert) = &self.cacert else {
                return Err(Failure::bad_arguments("--cacert is needed for an https endpoint"));
            };
            let mut tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read(cacert)?));
            if let Some((cert, key)) = self.cert.as_ref().zip(self.key.as_ref()) {
                tls = tls.identity(Identity::from_pem(read(cert)?, read(key)?));
            }
            endpoint = endpoint.tls_config(tls)?;
        }
        endpoint.connect().await.map_err(|error| {
            let cause =
                std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
            Failure { code: 1, text: format!("cannot connect to {}: {error}{cause}", self.endpoints) }
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

/// The file being written. The last bytes are held back, because they are the hash of all others.
struct Sink {
    file: File,
    hash: Sha256,
    held: Vec<u8>,
    written: u64,
}

impl Sink {
    fn take(&mut self, piece: &[u8]) -> Result<(), Failure> {
        self.file.write_all(piece)?;
        self.written += piece.len() as u64;
        self.held.extend_from_slice(piece);
        let known = self.held.len().saturating_sub(HASH);
        self.hash.update(&self.held[..known]);
        self.held.drain(..known);
        Ok(())
    }

    fn finish(self) -> Result<(), Failure> {
        let is_right = self.held.len() == HASH && self.hash.finalize()[..] == self.held[..];
        if !is_right {
            let text = "the snapshot is incomplete: its hash does not match. Nothing was saved; try again";
            return Err(Failure { code: 1, text: text.into() });
        }
        Ok(self.file.sync_all()?)
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(path).map_err(|error| Failure { code: 1, text: format!("{}: {error}", path.display()) })
}

fn refused(status: tonic::Status) -> Failure {
    let text = format!("rpc error: code = {:?} desc = {}", status.code(), status.message());
    Failure { code: 1, text }
}

fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len()));
    let number: f64 = number.parse().map_err(|_| format!("{text:?} is not a duration"))?;
    let seconds = match unit {
        "" | "s" => number,
        "ms" => number / 1000.0,
        "m" => number * 60.0,
        _ => return Err(format!("{unit:?} is not a unit of time known here")),
    };
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}
