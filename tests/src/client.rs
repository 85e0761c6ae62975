//! One connection to a server with a client for each of its services.

use anyhow::{Context, Result};
use std::time::Duration;
use tonic::transport::{Channel, Endpoint};
use vetch_api::health::health_client::HealthClient;
use vetch_api::pb;
use vetch_api::pb::cluster_client::ClusterClient;
use vetch_api::pb::kv_client::KvClient;
use vetch_api::pb::lease_client::LeaseClient;
use vetch_api::pb::maintenance_client::MaintenanceClient;
use vetch_api::pb::watch_client::WatchClient;
use vetch_api::v3electionpb::election_client::ElectionClient;
use vetch_api::v3lockpb::lock_client::LockClient;

#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) kv: KvClient<Channel>,
    pub(crate) watch: WatchClient<Channel>,
    pub(crate) lease: LeaseClient<Channel>,
    pub(crate) maintenance: MaintenanceClient<Channel>,
    pub(crate) cluster: ClusterClient<Channel>,
    pub(crate) lock: LockClient<Channel>,
    pub(crate) election: ElectionClient<Channel>,
    pub(crate) health: HealthClient<Channel>,
    /// For calls that no typed client makes.
    pub(crate) channel: Channel,
}

impl Client {
    pub(crate) async fn connect(endpoint: &str) -> Result<Client> {
        Client::connect_with(endpoint, None).await
    }

    /// One that gives the connection up when a sign of life, asked for so often, takes as long as
    /// that.
    pub(crate) async fn connect_with(endpoint: &str, keep_alive: Option<Duration>) -> Result<Client> {
        let mut builder = Endpoint::from_shared(endpoint.to_owned())?
            .connect_timeout(Duration::from_secs(5))
            .initial_connection_window_size(1 << 24)
            .initial_stream_window_size(1 << 24);
        if let Some(interval) = keep_alive {
            builder = builder
                .http2_keep_alive_interval(interval)
                .keep_alive_timeout(interval)
                .keep_alive_while_idle(true);
        }
        let channel = builder.connect().await.with_context(|| format!("connecting to {endpoint}"))?;
        Ok(Client::over(channel))
    }

    /// Over a connection that was made elsewhere.
    pub(crate) fn over(channel: Channel) -> Client {
        // Servers of this API send messages of any size; the client's limit would hide what they
        // do.
        Client {
            kv: KvClient::new(channel.clone()).max_decoding_message_size(usize::MAX),
            watch: WatchClient::new(channel.clone()).max_decoding_message_size(usize::MAX),
            lease: LeaseClient::new(channel.clone()).max_decoding_message_size(usize::MAX),
            maintenance: MaintenanceClient::new(channel.clone()).max_decoding_message_size(usize::MAX),
            cluster: ClusterClient::new(channel.clone()),
            lock: LockClient::new(channel.clone()),
            election: ElectionClient::new(channel.clone()),
            health: HealthClient::new(channel.clone()),
            channel,
        }
    }

    /// The store's revision now.
    pub(crate) async fn revision(&self) -> Result<i64> {
        let request = pb::RangeRequest { key: "\0".into(), count_only: true, ..Default::default() };
        let response = self.kv.clone().range(request).await?.into_inner();
        Ok(response.header.context("a range answer has no header")?.revision)
    }
}
