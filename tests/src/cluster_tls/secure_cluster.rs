//! Three Vetch servers with certificates on a journal of three NATS servers, and clients with
//! certificates of theirs.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Request, Status};
use vetch_api::pb;
use vetch_api::pb::auth_client::AuthClient;

use crate::client::Client;
use crate::replicas::members;
use crate::replicas::nats::{Journal, STREAM, StreamState};
use crate::server::{Kind, Server};
use crate::tls::pki::{Pki, client};
use crate::tls::probe::Caller;

/// For everything that is waited for.
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
const SERVERS: usize = 3;

pub(super) struct SecureCluster {
    journal: Journal,
    pub(super) pki: Pki,
    pub(super) servers: Vec<Server>,
    /// Of whom certificates were made.
    names: BTreeSet<&'static str>,
}

impl SecureCluster {
    pub(super) async fn build(names: &[&'static str]) -> Result<SecureCluster> {
        let pki = Pki::new()?;
        pki.write("roots.crt", pki.authority.pem().as_bytes())?;
        for name in names {
            pki.issue(name, client(name))?;
        }
        let (journal, servers) = (Journal::start().await?, Vec::new());
        let mut cluster = SecureCluster { journal, pki, servers, names: names.iter().copied().collect() };
        for _ in 0..SERVERS {
            cluster.add()?;
        }
        Ok(cluster)
    }

    /// Starts one more server.
    pub(super) fn add(&mut self) -> Result<()> {
        let security = [
            format!("--cert-file={}", self.pki.text("server.crt")),
            format!("--key-file={}", self.pki.text("server.key")),
            format!("--trusted-ca-file={}", self.pki.text("ca.crt")),
            "--client-cert-auth=true".to_owned(),
            "--bcrypt-cost=4".to_owned(),
        ];
        let name = format!("server-{}", self.servers.len());
        let flags = members::loopback_flags(&name, &[&self.journal.flags(), &security])?;
        self.servers.push(Server::start_secure(Kind::Vetch, flags)?);
        Ok(())
    }

    /// A new connection to a server with the certificate of this name.
    pub(super) async fn client(&self, name: &str, at: usize) -> Result<Client> {
        let read = |file: &str| fs::read(self.pki.text(file));
        let identity = Identity::from_pem(read(&format!("{name}.crt"))?, read(&format!("{name}.key"))?);
        let tls = ClientTlsConfig::new()
            .ca_certificate(Certificate::from_pem(read("roots.crt")?))
            .identity(identity);
        let endpoint = Endpoint::from_shared(self.servers[at].endpoint())?.tls_config(tls)?;
        let channel = endpoint.connect_timeout(Duration::from_secs(5)).connect().await;
        Ok(Client::over(channel.with_context(|| format!("{name} connecting to server {at}"))?))
    }

    pub(super) async fn users(&self, name: &str, at: usize) -> Result<AuthClient<tonic::transport::Channel>> {
        Ok(AuthClient::new(self.client(name, at).await?.channel))
    }

    pub(super) fn etcdctl(&self, name: &str, at: usize, arguments: &[&str]) -> Result<String> {
        Caller { pki: &self.pki, name, port: self.servers[at].port }.etcdctl(arguments)
    }

    pub(super) fn alive(&mut self) -> Vec<usize> {
        (0..self.servers.len()).filter(|&at| self.servers[at].alive()).collect()
    }

    /// Waits until all servers that run agree on the leader.
    pub(super) async fn leader(&mut self) -> Result<usize> {
        let begun = Instant::now();
        loop {
            let alive = self.alive();
            if let Some(at) = self.agreed(&alive).await {
                return Ok(at);
            }
            ensure!(
                begun.elapsed() < TIMEOUT,
                "waited {TIMEOUT:?} for servers {alive:?} to agree on the leader"
            );
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    async fn agreed(&self, alive: &[usize]) -> Option<usize> {
        let mut statuses = Vec::new();
        for &at in alive {
            let mut maintenance = self.client("root", at).await.ok()?.maintenance;
            let status = maintenance.status(pb::StatusRequest {});
            let status = tokio::time::timeout(Duration::from_secs(2), status).await.ok()?.ok()?.into_inner();
            statuses.push((status.leader, status.header?.member_id));
        }
        let (leader, _) = *statuses.first()?;
        let same = leader != 0 && statuses.iter().all(|(other, _)| *other == leader);
        statuses.iter().position(|(_, member)| same && *member == leader).map(|at| alive[at])
    }

    /// A server that runs and does not lead.
    pub(super) async fn follower(&mut self) -> Result<usize> {
        let leader = self.leader().await?;
        self.alive().into_iter().find(|&at| at != leader).context("there is no other server")
    }

    pub(super) async fn stream_state(&self) -> Result<StreamState> {
        self.journal.stream_state(STREAM).await
    }

    /// New certificates for everybody, by a new authority. While it takes over, everyone trusts
    /// both; in the end, only the new one.
    pub(super) async fn rotate(&mut self, noticed: Duration) -> Result<()> {
        let next = crate::tls::pki::authority("etcd-ca", |_| {})?;
        let both = [self.pki.authority.pem(), next.pem()].concat();
        self.pki.write("ca.crt", both.as_bytes())?;
        self.pki.write("roots.crt", both.as_bytes())?;
        tokio::time::sleep(noticed).await;
        for name in &self.names {
            for end in ["crt", "key"] {
                let old = fs::read(self.pki.text(&format!("{name}.{end}")))?;
                self.pki.write(&format!("old-{name}.{end}"), &old)?;
            }
            self.pki.issue_by(&next, name, client(name))?;
        }
        self.pki.issue_by(&next, "server", crate::tls::pki::server())?;
        tokio::time::sleep(noticed).await;
        self.pki.write("ca.crt", next.pem().as_bytes())?;
        self.pki.write("roots.crt", next.pem().as_bytes())?;
        tokio::time::sleep(noticed).await;
        self.pki.authority = next;
        Ok(())
    }

    /// Keeps all files if the trial failed, and says where.
    pub(super) fn judge(mut self, outcome: Result<()>) -> Result<()> {
        if outcome.is_err() {
            for (at, server) in self.servers.iter_mut().enumerate() {
                let log = server.log_tail().unwrap_or_default();
                println!("files of server {at} are kept in {}\n{log}", server.keep_files().display());
            }
            println!("files of the journal are kept in {}", self.journal.keep_files().display());
        }
        outcome
    }
}

/// Puts a key; retries while there is no leader.
pub(super) async fn put(client: &Client, key: &str, more: &[(&'static str, String)]) -> Result<i64, Status> {
    let begun = Instant::now();
    loop {
        let message = pb::PutRequest { key: key.to_owned().into(), value: "v".into(), ..Default::default() };
        match client.kv.clone().put(asking(message, more)).await {
            Err(status) if may_go_away(&status) && begun.elapsed() < TIMEOUT => {
                tokio::time::sleep(POLL_INTERVAL).await
            }
            answer => return Ok(answer?.into_inner().header.unwrap_or_default().revision),
        }
    }
}

fn may_go_away(status: &Status) -> bool {
    let texts = ["no leader", "request timed out", "leader changed"];
    status.code() == Code::Unavailable && texts.iter().any(|text| status.message().contains(text))
}

pub(super) async fn get(
    client: &Client,
    key: &str,
    more: &[(&'static str, String)],
) -> Result<usize, Status> {
    let message = pb::RangeRequest { key: key.to_owned().into(), ..Default::default() };
    Ok(client.kv.clone().range(asking(message, more)).await?.into_inner().kvs.len())
}

pub(super) fn asking<T>(message: T, more: &[(&'static str, String)]) -> Request<T> {
    let mut request = Request::new(message);
    for (name, value) in more {
        request.metadata_mut().insert(*name, value.parse().expect("it is text"));
    }
    request
}
