//! Arguments that several commands have.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};

use crate::measure::pin::Pin;

#[derive(Args, Clone, Debug)]
pub(crate) struct Common {
    /// Servers to connect to, one connection after the other.
    #[arg(long, alias = "endpoint", value_delimiter = ',', default_value = "http://127.0.0.1:2379")]
    pub(crate) endpoints: Vec<String>,
    /// Start this command line instead, with {data}, {client} and {peer} filled in.
    #[arg(long, conflicts_with_all = ["endpoints", "pid"])]
    pub(crate) server: Option<String>,
    /// Where servers that are started here keep their data.
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    pub(crate) data_root: PathBuf,
    /// lean: HTTP/2 frames in batches over plain TCP; tonic: an ordinary gRPC client, with TLS if
    /// asked for.
    #[arg(long, value_enum, default_value_t = Client::Lean)]
    pub(crate) client: Client,
    /// Connections; not more than there are clients.
    #[arg(long, default_value_t = 8)]
    pub(crate) connections: usize,
    /// Threads that generate load.
    #[arg(long, default_value_t = 1)]
    pub(crate) threads: usize,
    /// Measured time of each point.
    #[arg(long, default_value = "10s", value_parser = duration)]
    pub(crate) duration: Duration,
    /// Time before it, of which nothing counts.
    #[arg(long, default_value = "1s", value_parser = duration)]
    pub(crate) warmup: Duration,
    /// Processes of the server, or of all servers of a cluster: report the sum of CPU time and
    /// memory.
    #[arg(long, value_delimiter = ',')]
    pub(crate) pid: Vec<u32>,
    /// Processors for client and server, such as 0,1.
    #[arg(long, value_name = "CLIENT,SERVER")]
    pub(crate) pin: Option<Pin>,
    /// All keys begin with this.
    #[arg(long, default_value = "/registry/vetch-bench/")]
    pub(crate) prefix: String,
    /// Delete the keys below the prefix in the end.
    #[arg(long)]
    pub(crate) clean: bool,
    /// Write the report as JSON; - for standard output.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write the report as a page with plots.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Say nothing while it runs.
    #[arg(long)]
    pub(crate) quiet: bool,
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) access: Access,
}

/// As etcdctl has them.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Access {
    /// Authorities that the server's certificate is checked with.
    #[arg(long)]
    pub(crate) cacert: Option<PathBuf>,
    #[arg(long, requires = "key")]
    pub(crate) cert: Option<PathBuf>,
    #[arg(long, requires = "cert")]
    pub(crate) key: Option<PathBuf>,
    /// NAME or NAME:PASSWORD
    #[arg(long)]
    pub(crate) user: Option<String>,
    #[arg(long, requires = "user")]
    pub(crate) password: Option<String>,
}

impl Access {
    pub(crate) fn name_and_password(&self) -> Result<(String, String)> {
        let user = self.user.clone().unwrap_or_default();
        if let Some(password) = &self.password {
            return Ok((user, password.clone()));
        }
        let parts = user.split_once(':').map(|(name, password)| (name.to_owned(), password.to_owned()));
        parts.ok_or_else(|| anyhow::anyhow!("--user NAME:PASSWORD, or --password as well"))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Client {
    Lean,
    Tonic,
}

impl Client {
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Client::Lean => "lean (HTTP/2 frames in batches, plain TCP)",
            Client::Tonic => "tonic (ordinary gRPC client)",
        }
    }
}

impl Common {
    /// Says what cannot be done before anything is started.
    pub(crate) fn check(&self) -> Result<()> {
        let access = &self.access;
        let secured = self.endpoints.iter().any(|endpoint| endpoint.starts_with("https://"));
        let credentials = access.cacert.is_some() || access.cert.is_some() || access.user.is_some();
        ensure!(
            self.client == Client::Tonic || !(secured || credentials),
            "the lean client speaks plain HTTP/2 only: for TLS or a user give --client tonic"
        );
        ensure!(
            self.connections > 0 && self.threads > 0,
            "at least one connection and one thread are needed"
        );
        ensure!(
            self.connections <= 20_000 && self.threads <= 256,
            "so many connections or threads are a mistake"
        );
        ensure!(!self.duration.is_zero(), "a duration is needed");
        Ok(())
    }
}

/// Closed or open loop.
#[derive(Args, Clone, Debug)]
pub(crate) struct Load {
    /// Clients of which each waits for its answer; several numbers make several measurements.
    #[arg(long, value_delimiter = ',', default_value = "64", conflicts_with = "rate")]
    pub(crate) clients: Vec<usize>,
    /// Requests per second instead, sent on time whether or not earlier ones were answered.
    #[arg(long, value_delimiter = ',')]
    pub(crate) rate: Vec<f64>,
    /// Requests under way at most, with --rate; what is due beyond waits, and its waiting counts.
    #[arg(long, default_value_t = 2048)]
    pub(crate) in_flight: usize,
    /// End after so many requests.
    #[arg(long)]
    pub(crate) requests: Option<u64>,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Objects {
    /// How many keys there are.
    #[arg(long, default_value_t = 10_000)]
    pub(crate) keys: usize,
    /// Bytes of a value.
    #[arg(long, default_value_t = 400)]
    pub(crate) value_size: usize,
    /// The keys are there already, from a run with the same prefix, number and size.
    #[arg(long)]
    pub(crate) loaded: bool,
    /// Write the keys by transactions that create them, for servers without a plain put, such as
    /// kine.
    #[arg(long)]
    pub(crate) create: bool,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Simple {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) load: Load,
    #[command(flatten)]
    pub(crate) objects: Objects,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Reading {
    #[command(flatten)]
    pub(crate) simple: Simple,
    /// Reads that may be stale.
    #[arg(long)]
    pub(crate) serializable: bool,
    /// Keys that do not exist: what a call costs by itself.
    #[arg(long)]
    pub(crate) absent: bool,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Listing {
    #[command(flatten)]
    pub(crate) simple: Simple,
    /// Keys of one list, several numbers make several measurements; all: every key.
    #[arg(long, value_delimiter = ',', default_value = "500,10000,all")]
    pub(crate) lengths: Vec<String>,
    /// By RangeStream.
    #[arg(long)]
    pub(crate) stream: bool,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Paging {
    #[command(flatten)]
    pub(crate) simple: Simple,
    #[arg(long, default_value_t = 500)]
    pub(crate) page: usize,
}

#[derive(Args, Clone, Debug)]
pub(crate) struct Leasing {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) load: Load,
    #[arg(long, default_value_t = 1000)]
    pub(crate) leases: usize,
    /// Seconds.
    #[arg(long, default_value_t = 600)]
    pub(crate) ttl: i64,
}

/// Several servers, one workload; see `compare`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Compare {
    /// NAME=URL, or NAME=COMMAND with {data}, {client} and {peer} in it; the first is the reference
    /// of all ratios.
    #[arg(long = "target", required = true)]
    pub(crate) targets: Vec<String>,
    #[arg(long, default_value_t = 5)]
    pub(crate) rounds: usize,
    /// Between two measurements.
    #[arg(long, default_value = "1s", value_parser = duration)]
    pub(crate) pause: Duration,
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// The workload and its options, after --.
    #[arg(last = true, required = true)]
    pub(crate) workload: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
#[error("{0:?} is not a duration such as 500ms, 10s or 2m")]
pub(crate) struct DurationError(String);

/// 500ms, 10s, 2m.
pub(crate) fn duration(text: &str) -> Result<Duration, DurationError> {
    let wrong = || DurationError(text.to_owned());
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let seconds = match unit {
        "ms" => number / 1e3,
        "s" => number,
        "m" => number * 60.0,
        "h" => number * 3600.0,
        _ => return Err(wrong()),
    };
    Duration::try_from_secs_f64(seconds).map_err(|_| wrong())
}
