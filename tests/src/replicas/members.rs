//! The Vetch servers of a cluster, and which of them leads.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use vetch_api::pb;

use super::{POLL_INTERVAL, TIMEOUT};
use crate::client::Client;
use crate::faults::SMALL_STORAGE;
use crate::server::{Kind, Options, Server, Site, free_port};

/// On hosts of their own.
const PORT: u16 = 2379;
const PEER_PORT: u16 = 2380;

pub(crate) struct Members {
    pub(crate) servers: Vec<Server>,
    /// Which of them are not expected to run.
    stopped: BTreeSet<usize>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Leader {
    pub(crate) at: usize,
    pub(crate) member: u64,
    pub(crate) epoch: u64,
}

impl Members {
    pub(crate) fn none() -> Members {
        Members { servers: Vec::new(), stopped: BTreeSet::new() }
    }

    /// Starts three servers on loopback, one after the other.
    pub(crate) fn start(journal: &[String], further: &[String]) -> Result<Members> {
        let mut members = Members::none();
        for _ in 0..3 {
            members.add(journal, further)?;
        }
        Ok(members)
    }

    /// Starts a server on each host, all at once, and waits until they are ready.
    pub(crate) fn start_on_hosts(sites: &[Site], journal: &[String], further: &[String]) -> Result<Members> {
        let mut members = Members::none();
        for (at, site) in sites.iter().enumerate() {
            let flags = flags(&format!("server-{at}"), site.address, PEER_PORT, &[journal, further]);
            let options = Options { flags, data_dir: None };
            members.servers.push(Server::on_host(Kind::Vetch, options, site.clone(), PORT)?);
        }
        let all: Vec<usize> = (0..sites.len()).collect();
        members.stopped.extend(&all);
        members.run(&all)?;
        Ok(members)
    }

    /// Starts one more server on loopback.
    pub(crate) fn add(&mut self, journal: &[String], further: &[String]) -> Result<()> {
        self.servers.push(start_one(&format!("server-{}", self.servers.len()), journal, further)?);
        Ok(())
    }

    pub(crate) fn endpoints(&self) -> Vec<String> {
        self.servers.iter().map(Server::endpoint).collect()
    }

    /// Starts servers that were killed, all at once, and waits until they are ready.
    pub(crate) fn run(&mut self, which: &[usize]) -> Result<()> {
        for &at in which {
            self.servers[at].spawn_under(&[])?;
        }
        for &at in which {
            self.servers[at].wait_ready(TIMEOUT).with_context(|| format!("server {at} after its start"))?;
            self.stopped.remove(&at);
        }
        Ok(())
    }

    pub(crate) fn kill(&mut self, at: usize) -> Result<()> {
        self.stopped.insert(at);
        self.servers[at].kill()
    }

    /// Terminates a server and waits until it has ended.
    pub(crate) fn end(&mut self, at: usize) -> Result<()> {
        self.stopped.insert(at);
        self.servers[at].terminate().map(drop)
    }

    pub(crate) fn signal(&self, at: usize, signal: Signal) -> Result<()> {
        self.servers[at].signal(signal)
    }

    /// No server may end by itself.
    pub(crate) fn all_run(&mut self) -> Result<()> {
        let stopped = &self.stopped;
        for (at, server) in self.servers.iter_mut().enumerate().filter(|(at, _)| !stopped.contains(at)) {
            ensure!(server.alive(), "server {at} has ended by itself:\n{}", server.log_tail()?);
        }
        Ok(())
    }

    /// Waits until all servers agree on the leader.
    pub(crate) async fn leader(&self) -> Result<Leader> {
        let begun = Instant::now();
        loop {
            let mut statuses = Vec::new();
            for server in &self.servers {
                statuses.push(status(&server.endpoint()).await);
            }
            if let Some(leader) = agreed(&statuses) {
                return Ok(leader);
            }
            let shown: Vec<String> = statuses.iter().map(describe).collect();
            ensure!(
                begun.elapsed() < TIMEOUT,
                "waited {TIMEOUT:?} for the servers to agree on the leader: {}",
                shown.join("; ")
            );
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    /// Leaves the files where they are.
    pub(crate) fn keep_files(&mut self) -> Vec<PathBuf> {
        self.servers.iter_mut().map(Server::keep_files).collect()
    }
}

/// Starts one server on loopback and waits until it is ready.
pub(crate) fn start_one(name: &str, journal: &[String], further: &[String]) -> Result<Server> {
    let flags = loopback_flags(name, &[journal, further])?;
    Server::start_with(Kind::Vetch, Options { flags, data_dir: None })
}

/// The flags of a server of this name on loopback.
pub(crate) fn loopback_flags(name: &str, further: &[&[String]]) -> Result<Vec<String>> {
    Ok(flags(name, Ipv4Addr::LOCALHOST, free_port()?, further))
}

fn flags(name: &str, address: Ipv4Addr, peer_port: u16, further: &[&[String]]) -> Vec<String> {
    // Without effect in a cluster on a journal, but checked: they have to match the name.
    let peer = format!("http://{address}:{peer_port}");
    let mut flags = vec![
        format!("--name={name}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster={name}={peer}"),
    ];
    flags.extend(SMALL_STORAGE.iter().map(|flag| (*flag).to_owned()));
    flags.extend(further.iter().copied().flatten().cloned());
    flags
}

async fn status(endpoint: &str) -> Result<pb::StatusResponse> {
    let client = Client::connect(endpoint).await?;
    let mut maintenance = client.maintenance.clone();
    let answer = tokio::time::timeout(Duration::from_secs(2), maintenance.status(pb::StatusRequest {}));
    Ok(answer.await.context("no status in time")??.into_inner())
}

fn agreed(statuses: &[Result<pb::StatusResponse>]) -> Option<Leader> {
    let statuses: Vec<&pb::StatusResponse> =
        statuses.iter().map(|status| status.as_ref().ok()).collect::<Option<_>>()?;
    let (leader, epoch) = (statuses.first()?.leader, statuses.first()?.raft_term);
    let is_leader = |status: &&pb::StatusResponse| {
        status.header.as_ref().is_some_and(|header| header.member_id == leader)
    };
    let at = statuses.iter().position(is_leader)?;
    let agree = statuses.iter().all(|status| (status.leader, status.raft_term) == (leader, epoch));
    (agree && leader != 0).then_some(Leader { at, member: leader, epoch })
}

fn describe(status: &Result<pb::StatusResponse>) -> String {
    match status {
        Ok(status) => format!("leader {:x}, term {}", status.leader, status.raft_term),
        Err(error) => format!("{error:#}"),
    }
}
