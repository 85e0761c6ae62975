//! The journal of a cluster: three nats-server processes, each on a host of its own, which can be
//! killed and started again.

use std::fs::{self, OpenOptions};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use super::LIMIT;
use super::network::{Host, JOURNAL};
use crate::gateway::http;

/// For clients, for each other, and where a server tells how it is.
const PORT: u16 = 4222;
const ROUTE: u16 = 6222;
const MONITOR: u16 = 8222;
/// How servers and clients know each other. Nobody else is on their network, and they are gone with
/// their directory.
const SECRET: &str = "trial";
const STREAM: &str = "vetch";

pub(super) struct Journal {
    directory: TempDir,
    /// In the order of hosts; None is away.
    processes: [Option<Child>; JOURNAL.len()],
}

impl Journal {
    /// Starts all servers and waits until they serve.
    pub(super) async fn start() -> Result<Journal> {
        let directory = tempfile::Builder::new().prefix("vetch-journal-").tempdir()?;
        let mut journal = Journal { directory, processes: [None, None, None] };
        for at in 0..JOURNAL.len() {
            fs::write(journal.path(at, "conf"), journal.config(at))?;
        }
        fs::write(journal.logins(), format!("app:{SECRET}\nsys:{SECRET}\n"))?;
        for at in 0..JOURNAL.len() {
            journal.run(at)?;
        }
        journal.healthy().await?;
        Ok(journal)
    }

    fn config(&self, at: usize) -> String {
        let address = JOURNAL[at].address();
        let routes: Vec<String> =
            JOURNAL.iter().map(|host| format!("nats-route://{}:{ROUTE}", host.address())).collect();
        let user = |name: &str| format!("users: [{{user: {name}, password: {SECRET}}}]");
        [
            format!("server_name: journal-{at}"),
            format!("listen: {address}:{PORT}"),
            format!("http: {address}:{MONITOR}"),
            "max_payload: 8MB".to_owned(),
            format!(
                "jetstream {{ store_dir: {:?}, sync_interval: always }}",
                self.path(at, "data").display().to_string()
            ),
            format!(
                "accounts {{ SYS {{ {} }}, APP {{ jetstream: enabled, {} }} }}",
                user("sys"),
                user("app")
            ),
            "system_account: SYS".to_owned(),
            format!(
                "cluster {{ name: vetch, listen: {address}:{ROUTE}, routes: [{}] }}\n",
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
    pub(super) fn flags(&self) -> Vec<String> {
        let urls: Vec<String> =
            JOURNAL.iter().map(|host| format!("nats://{}:{PORT}", host.address())).collect();
        vec![
            format!("--journal={}", urls.join(",")),
            format!("--journal-login-file={}", self.logins().display()),
            format!("--journal-stream={STREAM}"),
        ]
    }

    /// Starts one server and waits for nothing.
    pub(super) fn run(&mut self, at: usize) -> Result<()> {
        let log = OpenOptions::new().create(true).append(true).open(self.path(at, "log"))?;
        let mut command = JOURNAL[at].site().command(&binary()?);
        command.arg("-c").arg(self.path(at, "conf")).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        self.processes[at] = Some(command.spawn().with_context(|| format!("starting {command:?}"))?);
        Ok(())
    }

    pub(super) fn kill(&mut self, at: usize) -> Result<()> {
        let mut process = self.processes[at].take().context("the journal's server is not running")?;
        process.kill()?;
        process.wait()?;
        Ok(())
    }

    /// Asks a server to end, and waits until it has.
    pub(super) fn end(&mut self, at: usize) -> Result<()> {
        self.signal(at, Signal::TERM)?;
        let mut process = self.processes[at].take().context("the journal's server is not running")?;
        process.wait()?;
        Ok(())
    }

    pub(super) fn signal(&self, at: usize, signal: Signal) -> Result<()> {
        let process = self.processes[at].as_ref().context("the journal's server is not running")?;
        kill_process(Pid::from_raw(i32::try_from(process.id())?).context("pid 0")?, signal)?;
        Ok(())
    }

    /// Waits until every server says that it is well, and has everything.
    pub(super) async fn healthy(&self) -> Result<()> {
        let begun = Instant::now();
        for (at, host) in JOURNAL.into_iter().enumerate() {
            while !ask(host, "/healthz").await.is_ok_and(|answer| answer.status == 200) {
                ensure!(begun.elapsed() < LIMIT, "waited {LIMIT:?} for the journal's server {at} to be well");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        Ok(())
    }

    /// The server that leads the stream.
    pub(super) async fn leader(&self) -> Result<usize> {
        let begun = Instant::now();
        loop {
            for host in JOURNAL {
                if let Some(leader) = ask_leader(host).await {
                    return Ok(leader);
                }
            }
            ensure!(begun.elapsed() < LIMIT, "waited {LIMIT:?} for the stream to have a leader");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Leaves the files where they are.
    pub(super) fn keep_files(&mut self) -> &Path {
        self.directory.disable_cleanup(true);
        self.directory.path()
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        for process in self.processes.iter_mut().flatten() {
            if let Err(error) = process.kill().and_then(|()| process.wait()) {
                eprintln!("could not end a server of the journal: {error}");
            }
        }
    }
}

async fn ask(host: Host, path: &str) -> Result<http::Answer> {
    http::send_to(SocketAddr::from((host.address(), MONITOR)), "GET", path, "", None).await
}

async fn ask_leader(host: Host) -> Option<usize> {
    let answer = ask(host, "/jsz?accounts=true&streams=true").await.ok()?;
    let told: Value = serde_json::from_str(&answer.body).ok()?;
    let accounts = told["account_details"].as_array()?;
    let mut streams = accounts.iter().filter_map(|account| account["stream_detail"].as_array()).flatten();
    let stream = streams.find(|stream| stream["name"] == STREAM)?;
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
