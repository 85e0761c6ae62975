//! The journal of a cluster: three nats-server processes on loopback.

use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;

use super::LIMIT;
use crate::gateway::http;
use crate::server::free_port;

const SERVERS: usize = 3;
/// How servers and clients know each other. They listen on loopback only and are gone with their
/// directory.
const SECRET: &str = "trial";
pub(crate) const STREAM: &str = "vetch";

pub(crate) struct Journal {
    directory: TempDir,
    nodes: Vec<Node>,
    /// What the account of Vetch may use, in the words of the configuration.
    allowed: String,
}

/// What the stream holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    pub(crate) bytes: u64,
    pub(crate) first: u64,
    pub(crate) last: u64,
}

struct Node {
    port: u16,
    route: u16,
    /// Where it tells how it is.
    monitor: u16,
    process: Option<Child>,
}

impl Journal {
    /// Starts all servers and waits until they serve.
    pub(crate) async fn start() -> Result<Journal> {
        Journal::start_allowing("enabled".to_owned()).await
    }

    /// The same for an account that may store so many bytes, replicas counted.
    pub(super) async fn start_limited(bytes: u64) -> Result<Journal> {
        Journal::start_allowing(format!("{{ max_mem: 0, max_file: {bytes} }}")).await
    }

    async fn start_allowing(allowed: String) -> Result<Journal> {
        let directory = tempfile::Builder::new().prefix("vetch-journal-").tempdir()?;
        let mut nodes = Vec::new();
        for _ in 0..SERVERS {
            let (port, route, monitor) = (free_port()?, free_port()?, free_port()?);
            nodes.push(Node { port, route, monitor, process: None });
        }
        let mut journal = Journal { directory, nodes, allowed };
        for at in 0..SERVERS {
            fs::write(journal.path(at, "conf"), journal.config(at))?;
        }
        fs::write(journal.logins(), format!("app:{SECRET}\nsys:{SECRET}\n"))?;
        for at in 0..SERVERS {
            journal.run(at)?;
        }
        journal.healthy().await?;
        Ok(journal)
    }

    fn config(&self, at: usize) -> String {
        let Node { port, route, monitor, .. } = &self.nodes[at];
        let routes: Vec<String> =
            self.nodes.iter().map(|node| format!("nats-route://127.0.0.1:{}", node.route)).collect();
        let user = |name: &str| format!("users: [{{user: {name}, password: {SECRET}}}]");
        [
            format!("server_name: journal-{at}"),
            format!("listen: 127.0.0.1:{port}"),
            format!("http: 127.0.0.1:{monitor}"),
            "max_payload: 8MB".to_owned(),
            format!(
                "jetstream {{ store_dir: {:?}, sync_interval: always }}",
                self.path(at, "data").display().to_string()
            ),
            format!(
                "accounts {{ SYS {{ {} }}, APP {{ jetstream: {}, {} }} }}",
                user("sys"),
                self.allowed,
                user("app")
            ),
            "system_account: SYS".to_owned(),
            format!(
                "cluster {{ name: vetch, listen: 127.0.0.1:{route}, routes: [{}] }}\n",
                routes.join(", ")
            ),
        ]
        .join("\n")
    }

    fn path(&self, at: usize, what: &str) -> PathBuf {
        self.directory.path().join(format!("journal-{at}.{what}"))
    }

    fn logins(&self) -> PathBuf {
        self.directory.path().join("logins")
    }

    /// By which a Vetch server finds the journal.
    pub(crate) fn flags(&self) -> Vec<String> {
        let urls: Vec<String> =
            self.nodes.iter().map(|node| format!("nats://127.0.0.1:{}", node.port)).collect();
        vec![
            format!("--journal={}", urls.join(",")),
            format!("--journal-login-file={}", self.logins().display()),
            format!("--journal-stream={STREAM}"),
        ]
    }

    /// Starts one server and waits for nothing.
    fn run(&mut self, at: usize) -> Result<()> {
        let log = OpenOptions::new().create(true).append(true).open(self.path(at, "log"))?;
        let mut command = Command::new(binary()?);
        command.arg("-c").arg(self.path(at, "conf")).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.nodes[at].process = Some(command.spawn().with_context(|| format!("starting {command:?}"))?);
        Ok(())
    }

    /// Waits until every server says that it is well, and has everything.
    pub(super) async fn healthy(&self) -> Result<()> {
        let begun = Instant::now();
        for (at, node) in self.nodes.iter().enumerate() {
            while !http::send(node.monitor, "GET", "/healthz", "", None)
                .await
                .is_ok_and(|answer| answer.status == 200)
            {
                ensure!(begun.elapsed() < LIMIT, "waited {LIMIT:?} for the journal's server {at} to be well");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        Ok(())
    }

    /// What the stream of this name holds, as its leader says.
    pub(crate) async fn held(&self, stream: &str) -> Result<Held> {
        let begun = Instant::now();
        loop {
            for (at, node) in self.nodes.iter().enumerate() {
                let Some(told) = ask_stream(node.monitor, stream).await else { continue };
                let leader = told["cluster"]["leader"].as_str().unwrap_or_default();
                let number = |what: &str| told["state"][what].as_u64();
                if leader == format!("journal-{at}")
                    && let (Some(bytes), Some(first), Some(last)) =
                        (number("bytes"), number("first_seq"), number("last_seq"))
                {
                    return Ok(Held { bytes, first, last });
                }
            }
            ensure!(
                begun.elapsed() < LIMIT,
                "waited {LIMIT:?} for the leader of the stream to say what it holds"
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Leaves the files where they are.
    pub(crate) fn keep_files(&mut self) -> &Path {
        self.directory.disable_cleanup(true);
        self.directory.path()
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        for process in self.nodes.iter_mut().filter_map(|node| node.process.as_mut()) {
            if let Err(error) = process.kill().and_then(|()| process.wait()) {
                eprintln!("could not end a server of the journal: {error}");
            }
        }
    }
}

async fn ask_stream(monitor: u16, name: &str) -> Option<Value> {
    let answer = http::send(monitor, "GET", "/jsz?accounts=true&streams=true", "", None).await.ok()?;
    let told: Value = serde_json::from_str(&answer.body).ok()?;
    let accounts = told["account_details"].as_array()?;
    let mut streams = accounts.iter().filter_map(|account| account["stream_detail"].as_array()).flatten();
    streams.find(|stream| stream["name"] == name).cloned()
}

/// `scripts/nats.sh` builds it and says where; `VETCH_NATS` is that directory.
fn binary() -> Result<PathBuf> {
    let directory = std::env::var_os("VETCH_NATS")
        .context("VETCH_NATS does not say where nats-server is: VETCH_NATS=$(scripts/nats.sh)")?;
    let binary = Path::new(&directory).join("nats-server");
    ensure!(binary.exists(), "{} does not exist: run scripts/nats.sh", binary.display());
    Ok(binary)
}
