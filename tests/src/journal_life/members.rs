//! The Vetch servers of a cluster, and who of them writes.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use vetch_api::pb;

use super::LIMIT;
use crate::client::Client;
use crate::faults::SMALL_STORAGE;
use crate::server::{Kind, Options, Server, free_port};

const SERVERS: usize = 3;

pub(super) struct Members {
    pub(super) servers: Vec<Server>,
}

/// The server that writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Writer {
    pub(super) at: usize,
    pub(super) epoch: u64,
}

impl Members {
    pub(super) fn start(journal: &[String], further: &[String]) -> Result<Members> {
        let mut members = Members::none();
        for _ in 0..SERVERS {
            members.add(journal, further)?;
        }
        Ok(members)
    }

    pub(super) fn none() -> Members {
        Members { servers: Vec::new() }
    }

    /// Starts one more server.
    pub(super) fn add(&mut self, journal: &[String], further: &[String]) -> Result<()> {
        let at = self.servers.len();
        let mut flags = flags(at)?;
        flags.extend(journal.iter().chain(further).cloned());
        self.servers.push(Server::start_with(Kind::Vetch, Options { flags, data_dir: None })?);
        Ok(())
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
        }
        Ok(())
    }

    /// No server may end by itself.
    pub(super) fn all_run(&mut self) -> Result<()> {
        for (at, server) in self.servers.iter_mut().enumerate() {
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

/// Of the server with this number.
pub(crate) fn flags(at: usize) -> Result<Vec<String>> {
    // Of no use in a cluster on a journal, but checked: they have to fit the name.
    let peer = format!("http://127.0.0.1:{}", free_port()?);
    let mut flags = vec![
        format!("--name=server-{at}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=server-{at}={peer}"),
    ];
    flags.extend(SMALL_STORAGE.iter().map(|flag| (*flag).to_owned()));
    Ok(flags)
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
    (agree && leader != 0).then_some(Writer { at, epoch })
}

fn describe(told: &Result<pb::StatusResponse>) -> String {
    match told {
        Ok(status) => format!("leader {:x}, term {}", status.leader, status.raft_term),
        Err(error) => format!("{error:#}"),
    }
}
