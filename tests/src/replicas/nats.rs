//! The journal of a cluster: three nats-server processes, which can be killed and started again.

use std::fs::{self, OpenOptions};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use super::{POLL_INTERVAL, TIMEOUT};
use crate::gateway::http;
use crate::server::{Site, free_port};

const SERVERS: usize = 3;
/// The password of servers and clients. Only the trial reaches them, and they are gone with their
/// directory.
const SECRET: &str = "trial";
pub(crate) const STREAM: &str = "vetch";

pub(crate) struct Journal {
    directory: TempDir,
    nodes: Vec<Node>,
    /// What the account of Vetch may use, in the syntax of the configuration.
    limits: String,
}

/// What the stream holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamState {
    pub(crate) bytes: u64,
    pub(crate) first: u64,
    pub(crate) last: u64,
}

struct Node {
    site: Site,
    /// For clients, for the other servers, and for status.
    ports: [u16; 3],
    process: Option<Child>,
}

impl Node {
    fn new(site: Site, ports: [u16; 3]) -> Node {
        Node { site, ports, process: None }
    }

    fn address(&self, port: usize) -> SocketAddr {
        SocketAddr::from((self.site.address, self.ports[port]))
    }

    fn client(&self) -> SocketAddr {
        self.address(0)
    }

    fn route(&self) -> SocketAddr {
        self.address(1)
    }

    fn monitor(&self) -> SocketAddr {
        self.address(2)
    }
}

impl Journal {
    /// Starts all servers on loopback and waits until they serve.
    pub(crate) async fn start() -> Result<Journal> {
        Journal::start_on(loopback()?, "enabled".to_owned()).await
    }

    /// The same for an account that may store so many bytes, replicas counted.
    pub(crate) async fn start_limited(bytes: u64) -> Result<Journal> {
        Journal::start_on(loopback()?, format!("{{ max_mem: 0, max_file: {bytes} }}")).await
    }

    /// Each server on a host of its own, where its usual ports are free.
    pub(crate) async fn start_on_hosts(sites: [Site; SERVERS]) -> Result<Journal> {
        let nodes = sites.into_iter().map(|site| Node::new(site, [4222, 6222, 8222])).collect();
        Journal::start_on(nodes, "enabled".to_owned()).await
    }

    async fn start_on(nodes: Vec<Node>, limits: String) -> Result<Journal> {
        let directory = tempfile::Builder::new().prefix("vetch-journal-").tempdir()?;
        let mut journal = Journal { directory, nodes, limits };
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
        let node = &self.nodes[at];
        let routes: Vec<String> =
            self.nodes.iter().map(|node| format!("nats-route://{}", node.route())).collect();
        let user = |name: &str| format!("users: [{{user: {name}, password: {SECRET}}}]");
        [
            format!("server_name: journal-{at}"),
            format!("listen: {}", node.client()),
            format!("http: {}", node.monitor()),
            "max_payload: 8MB".to_owned(),
            format!(
                "jetstream {{ store_dir: {:?}, sync_interval: always }}",
                self.path(at, "data").display().to_string()
            ),
            format!(
                "accounts {{ SYS {{ {} }}, APP {{ jetstream: {}, {} }} }}",
                user("sys"),
                self.limits,
                user("app")
            ),
            "system_account: SYS".to_owned(),
            format!("cluster {{ name: vetch, listen: {}, routes: [{}] }}\n", node.route(), routes.join(", ")),
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
        let urls: Vec<String> = self.nodes.iter().map(|node| format!("nats://{}", node.client())).collect();
        vec![
            format!("--journal={}", urls.join(",")),
            format!("--journal-login-file={}", self.logins().display()),
            format!("--journal-stream={STREAM}"),
        ]
    }

    /// Starts one server and waits for nothing.
    pub(crate) fn run(&mut self, at: usize) -> Result<()> {
        let log = OpenOptions::new().create(true).append(true).open(self.path(at, "log"))?;
        let mut command = self.nodes[at].site.command(&binary()?);
        command.arg("-c").arg(self.path(at, "conf")).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.nodes[at].process = Some(command.spawn().with_context(|| format!("starting {command:?}"))?);
        Ok(())
    }

    pub(crate) fn kill(&mut self, at: usize) -> Result<()> {
        let mut process = self.nodes[at].process.take().context("the journal's server is not running")?;
        process.kill()?;
        process.wait()?;
        Ok(())
    }

    /// Terminates a server and waits until it has ended.
    pub(crate) fn end(&mut self, at: usize) -> Result<()> {
        self.signal(at, Signal::TERM)?;
        let mut process = self.nodes[at].process.take().context("the journal's server is not running")?;
        process.wait()?;
        Ok(())
    }

    pub(crate) fn signal(&self, at: usize, signal: Signal) -> Result<()> {
        let process = self.nodes[at].process.as_ref().context("the journal's server is not running")?;
        kill_process(Pid::from_raw(i32::try_from(process.id())?).context("pid 0")?, signal)?;
        Ok(())
    }

    /// Waits until every server is healthy and has caught up.
    pub(crate) async fn healthy(&self) -> Result<()> {
        let begun = Instant::now();
        for (at, node) in self.nodes.iter().enumerate() {
            while !get(node, "/healthz").await.is_ok_and(|answer| answer.status == 200) {
                ensure!(
                    begun.elapsed() < TIMEOUT,
                    "waited {TIMEOUT:?} for the journal's server {at} to be well"
                );
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        }
        Ok(())
    }

    /// The server that leads the stream.
    pub(crate) async fn stream_leader(&self) -> Result<usize> {
        let begun = Instant::now();
        loop {
            for node in &self.nodes {
                if let Some(leader) = stream(node, STREAM).await.as_ref().and_then(leader_of) {
                    return Ok(leader);
                }
            }
            ensure!(begun.elapsed() < TIMEOUT, "waited {TIMEOUT:?} for the stream to have a leader");
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// What the stream of this name holds, according to its leader.
    pub(crate) async fn stream_state(&self, name: &str) -> Result<StreamState> {
        let begun = Instant::now();
        loop {
            for (at, node) in self.nodes.iter().enumerate() {
                let Some(stream) = stream(node, name).await else { continue };
                let number = |what: &str| stream["state"][what].as_u64();
                if leader_of(&stream) == Some(at)
                    && let (Some(bytes), Some(first), Some(last)) =
                        (number("bytes"), number("first_seq"), number("last_seq"))
                {
                    return Ok(StreamState { bytes, first, last });
                }
            }
            ensure!(
                begun.elapsed() < TIMEOUT,
                "waited {TIMEOUT:?} for the leader of the stream to say what it holds"
            );
            tokio::time::sleep(POLL_INTERVAL).await;
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

fn loopback() -> Result<Vec<Node>> {
    let node = |_| Ok(Node::new(Site::here(), [free_port()?, free_port()?, free_port()?]));
    (0..SERVERS).map(node).collect()
}

async fn get(node: &Node, path: &str) -> Result<http::Answer> {
    http::send_to(node.monitor(), "GET", path, "", None).await
}

/// What a server knows of a stream.
async fn stream(node: &Node, name: &str) -> Option<Value> {
    let answer = get(node, "/jsz?accounts=true&streams=true").await.ok()?;
    let status: Value = serde_json::from_str(&answer.body).ok()?;
    let accounts = status["account_details"].as_array()?;
    let mut streams = accounts.iter().filter_map(|account| account["stream_detail"].as_array()).flatten();
    streams.find(|stream| stream["name"] == name).cloned()
}

fn leader_of(stream: &Value) -> Option<usize> {
    stream["cluster"]["leader"].as_str()?.strip_prefix("journal-")?.parse().ok()
}

/// `scripts/nats.sh` builds it and says where; `VETCH_NATS` is that directory.
fn binary() -> Result<PathBuf> {
    let directory = std::env::var_os("VETCH_NATS")
        .context("VETCH_NATS does not say where nats-server is: VETCH_NATS=$(scripts/nats.sh)")?;
    let binary = Path::new(&directory).join("nats-server");
    ensure!(binary.exists(), "{} does not exist: run scripts/nats.sh", binary.display());
    Ok(binary)
}
