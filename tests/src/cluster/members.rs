//! The Vetch servers of a cluster, and who of them writes.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use vetch_api::pb;

use super::LIMIT;
use super::network::SERVERS;
use crate::client::Client;
use crate::faults::SMALL_STORAGE;
use crate::server::{Kind, Options, Server, free_port};

const PORT: u16 = 2379;
const PEER_PORT: u16 = 2380;

pub(super) struct Members {
    pub(super) servers: Vec<Server>,
    /// Which of them are not expected to run.
    away: BTreeSet<usize>,
}

/// The server that writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Writer {
    pub(super) at: usize,
    pub(super) member: u64,
    pub(super) epoch: u64,
}

impl Members {
    /// Starts all servers, and waits until each says that it is ready.
    pub(super) fn start(journal: &[String], further: &[String]) -> Result<Members> {
        let mut servers = Vec::new();
        for (at, host) in SERVERS.into_iter().enumerate() {
            // Of no use in a cluster on a journal, but checked: they have to fit the name.
            let peer = format!("http://{}:{PEER_PORT}", host.address());
            let mut flags = vec![
                format!("--name=server-{at}"),
                format!("--listen-peer-urls={peer}"),
                format!("--initial-advertise-peer-urls={peer}"),
                format!("--initial-cluster=server-{at}={peer}"),
            ];
            flags.extend(SMALL_STORAGE.iter().map(|flag| (*flag).to_owned()));
            flags.extend(journal.iter().chain(further).cloned());
            let options = Options { flags, data_dir: None };
            servers.push(Server::on_host(Kind::Vetch, options, host.site(), PORT)?);
        }
        let all: Vec<usize> = (0..servers.len()).collect();
        let mut members = Members { servers, away: all.iter().copied().collect() };
        members.run(&all)?;
        Ok(members)
    }

    pub(super) fn endpoints(&self) -> Vec<String> {
        self.servers.iter().map(Server::endpoint).collect()
    }

    /// Starts servers that were killed, all at once, and waits until each says that it is ready.
    pub(super) fn run(&mut self, which: &[usize]) -> Result<()> {
        for &at in which {
            self.servers[at].spawn_under(&[])?;
        }
        for &at in which {
            self.servers[at].wait_ready(LIMIT).with_context(|| format!("server {at} after its start"))?;
            self.away.remove(&at);
        }
        Ok(())
    }

    pub(super) fn kill(&mut self, at: usize) -> Result<()> {
        self.away.insert(at);
        self.servers[at].kill()
    }

    /// Asks a server to end, and waits until it has.
    pub(super) fn end(&mut self, at: usize) -> Result<()> {
        self.away.insert(at);
        self.servers[at].terminate().map(drop)
    }

    pub(super) fn signal(&self, at: usize, signal: Signal) -> Result<()> {
        self.servers[at].signal(signal)
    }

    /// No server may end by itself.
    pub(super) fn all_run(&mut self) -> Result<()> {
        for (at, server) in self.servers.iter_mut().enumerate().filter(|(at, _)| !self.away.contains(at)) {
            ensure!(server.alive(), "server {at} has ended by itself:\n{}", server.log_tail()?);
        }
        Ok(())
    }

    /// Waits until all servers agree on who writes.
    pub(super) async fn writer(&self) -> Result<Writer> {
        let begun = Instant::now();
        loop {
            let mut told = Vec::new();
            for server in &self.servers {
                told.push(status(&server.endpoint()).await);
            }
            if let Some(writer) = agreed(&told) {
                return Ok(writer);
            }
            let shown: Vec<String> = told.iter().map(describe).collect();
            ensure!(
                begun.elapsed() < LIMIT,
                "waited {LIMIT:?} for the servers to agree on who writes: {}",
                shown.join("; ")
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Leaves the files where they are.
    pub(super) fn keep_files(&mut self) -> Vec<PathBuf> {
        self.servers.iter_mut().map(Server::keep_files).collect()
    }
}

/// Starts one server more, where the clients are, and waits until it says that it is ready.
pub(super) fn start(name: &str, journal: &[String], further: &[String]) -> Result<Server> {
    // Of no use in a cluster on a journal, but checked: they have to fit the name.
    let peer = format!("http://127.0.0.1:{}", free_port()?);
    let mut flags = vec![
        format!("--name={name}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster={name}={peer}"),
    ];
    flags.extend(SMALL_STORAGE.iter().map(|flag| (*flag).to_owned()));
    flags.extend(journal.iter().chain(further).cloned());
    Server::start_with(Kind::Vetch, Options { flags, data_dir: None })
}

async fn status(endpoint: &str) -> Result<pb::StatusResponse> {
    let client = Client::connect(endpoint).await?;
    let mut maintenance = client.maintenance.clone();
    let answer = tokio::time::timeout(Duration::from_secs(2), maintenance.status(pb::StatusRequest {}));
    Ok(answer.await.context("no status in time")??.into_inner())
}

fn agreed(told: &[Result<pb::StatusResponse>]) -> Option<Writer> {
    let told: Vec<&pb::StatusResponse> = told.iter().map(|told| told.as_ref().ok()).collect::<Option<_>>()?;
    let (leader, epoch) = (told.first()?.leader, told.first()?.raft_term);
    let is_leader = |status: &&pb::StatusResponse| {
        status.header.as_ref().is_some_and(|header| header.member_id == leader)
    };
    let at = told.iter().position(is_leader)?;
    let agree = told.iter().all(|status| (status.leader, status.raft_term) == (leader, epoch));
    (agree && leader != 0).then_some(Writer { at, member: leader, epoch })
}

fn describe(told: &Result<pb::StatusResponse>) -> String {
    match told {
        Ok(status) => format!("leader {:x}, term {}", status.leader, status.raft_term),
        Err(error) => format!("{error:#}"),
    }
}
