//! The deployments trial: what the tools that run etcd pass to it today must start vetch unchanged,
//! and serve them.
//!
//! Each deployment is the literal set of flags, variables and files of one tool, with ports and
//! paths of this machine in it. The server runs in a directory of its own, is asked what the tool's
//! probes ask, and is written to and read from with etcdctl as the tool's clients would.

mod certificates;
mod sets;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::gateway::http;
use crate::server::{Kind, free_port, peers};
use sets::{DEPLOYMENTS, Deployment};

/// Start a server as kubeadm, k3s, OpenShift, kubespray, Talos, kops and Kubernetes' tests start
/// etcd.
#[derive(Args, Debug)]
pub(crate) struct Deployments {
    #[arg(long, default_value = "vetch")]
    server: Kind,
    /// Run only deployments whose name contains this.
    #[arg(long, default_value = "")]
    only: String,
}

impl Deployments {
    pub(crate) async fn run(&self) -> Result<()> {
        let chosen: Vec<&Deployment> = DEPLOYMENTS.iter().filter(|d| d.name.contains(&self.only)).collect();
        ensure!(!chosen.is_empty(), "no deployment is called {:?}", self.only);
        for deployment in &chosen {
            try_one(self.server, deployment).await.with_context(|| deployment.name.to_owned())?;
            println!("{}: starts, is probed, is written to and read", deployment.name);
        }
        println!("{} deployments", chosen.len());
        Ok(())
    }
}

/// What the placeholders stand for.
struct Places {
    dir: String,
    ports: [(&'static str, u16); 4],
}

impl Places {
    fn find(dir: &Path) -> Result<Places> {
        let dir = dir.display().to_string();
        let ports = [
            ("{client}", free_port()?),
            ("{peer}", free_port()?),
            ("{http}", free_port()?),
            ("{metrics}", free_port()?),
        ];
        Ok(Places { dir, ports })
    }

    fn fill(&self, text: &str) -> String {
        let mut text = text.replace("{dir}", &self.dir);
        for (name, port) in self.ports {
            text = text.replace(name, &port.to_string());
        }
        text
    }

    fn port(&self, name: &str) -> u16 {
        self.ports.iter().find(|(known, _)| *known == name).expect("a port of the table").1
    }
}

async fn try_one(kind: Kind, deployment: &Deployment) -> Result<()> {
    let scratch = tempfile::Builder::new().prefix("vetch-deployment-").tempdir()?;
    certificates::write(scratch.path())?;
    let places = Places::find(scratch.path())?;
    let log = scratch.path().join("log");
    let mut running = Running(start(kind, deployment, &places, scratch.path(), &log)?);
    let outcome = talk(deployment, &places, &mut running).await;
    outcome.with_context(|| format!("the log:\n{}", end_of(&log)))
}

fn start(kind: Kind, deployment: &Deployment, places: &Places, dir: &Path, log: &Path) -> Result<Child> {
    let mut command = Command::new(kind.binary()?);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("ETCD")) {
        command.env_remove(name);
    }
    for line in deployment.variables.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once('=').with_context(|| format!("{line:?} sets nothing"))?;
        command.env(name, places.fill(value));
    }
    if !deployment.file.is_empty() {
        let path = dir.join("config");
        fs::write(&path, places.fill(deployment.file))?;
        command.arg(format!("--config-file={}", path.display()));
    }
    command.args(deployment.flags.split_whitespace().map(|flag| places.fill(flag)));
    let log = fs::File::create(log)?;
    command.current_dir(dir).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
    command.spawn().with_context(|| format!("starting {command:?}"))
}

/// A process that does not outlive its trial.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself, which was noticed elsewhere.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const TIMEOUT: Duration = Duration::from_secs(30);

async fn talk(deployment: &Deployment, places: &Places, running: &mut Running) -> Result<()> {
    let begun = Instant::now();
    // Some of these sets log nothing that would tell, so the server is asked until it answers.
    while let Err(error) = etcdctl(deployment, places, &["endpoint", "health"]) {
        if let Some(status) = running.0.try_wait()? {
            bail!("it ended with {status}");
        }
        ensure!(begun.elapsed() < TIMEOUT, "it is not healthy in time: {error:#}");
        sleep(Duration::from_millis(50));
    }
    etcdctl(deployment, places, &["put", "/registry/x", "y"])?;
    let found = etcdctl(deployment, places, &["get", "/registry/x", "--print-value-only"])?;
    ensure!(found.trim() == "y", "what was written is not read: {found:?}");
    for (port, path, wanted) in deployment.probes {
        let answer = http::send(places.port(port), "GET", path, "", None).await?;
        ensure!(
            answer.status == 200 && answer.body.contains(wanted),
            "{path} on {port} answers {answer:?} without {wanted:?}"
        );
    }
    Ok(())
}

fn etcdctl(deployment: &Deployment, places: &Places, arguments: &[&str]) -> Result<String> {
    let mut command = Command::new(peers()?.join("etcdctl"));
    command.arg(format!("--endpoints={}", places.fill(deployment.endpoints)));
    command.args(["--dial-timeout=2s", "--command-timeout=5s"]);
    if deployment.endpoints.contains("https://") {
        for (flag, file) in [("cacert", "ca.crt"), ("cert", "client.crt"), ("key", "client.key")] {
            command.arg(format!("--{flag}={}/pki/{file}", places.dir));
        }
    }
    let output = command.args(arguments).env_clear().output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "etcdctl {arguments:?}: {said}");
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn end_of(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}
