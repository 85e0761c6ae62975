//! The state of one server: everything that Vetch reports, or what etcd reports of it.

use std::time::Duration;

use serde::Serialize;
use tonic::Code;
use vetch_api::pb;
use vetch_api::pb::kv_client::KvClient;
use vetch_api::pb::maintenance_client::MaintenanceClient;
use vetch_api::vetch::operator_client::OperatorClient;
use vetch_api::vetch::{LookRequest, LookResponse, Server, Storage};

use super::Failure;
use super::client::{ClientArgs, Session, refused};

/// Timeout of a response.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The state of one endpoint.
#[derive(Debug, Serialize)]
pub(crate) struct Found {
    pub(crate) endpoint: String,
    pub(crate) is_healthy: bool,
    /// Problems, if there are any.
    pub(crate) trouble: Vec<String>,
    /// None if the server did not answer.
    pub(crate) look: Option<LookResponse>,
}

impl Found {
    pub(crate) async fn at(endpoint: &str, client: &ClientArgs) -> Found {
        let mut trouble = Vec::new();
        let look = match look_at(endpoint, client, &mut trouble).await {
            Ok(look) => Some(look),
            Err(failure) => {
                trouble.push(failure.text);
                None
            }
        };
        if let Some(server) = look.as_ref().and_then(|look| look.server.as_ref()) {
            trouble.extend(server.alarms.iter().map(|alarm| format!("alarm raised: {alarm}")));
        }
        Found { endpoint: endpoint.into(), is_healthy: trouble.is_empty(), trouble, look }
    }
}

async fn look_at(
    endpoint: &str,
    client: &ClientArgs,
    trouble: &mut Vec<String>,
) -> Result<LookResponse, Failure> {
    let session = client.connect(endpoint).await?;
    if let Err(failure) = check(&session).await {
        trouble.push(failure.text);
    }
    look(&session, 0).await
}

/// Whether it serves a linearizable read. "Permission denied" counts as served.
async fn check(session: &Session) -> Result<(), Failure> {
    let failed = |text| Failure { code: 1, text };
    let request = session.request(pb::RangeRequest { key: "health".into(), ..Default::default() });
    let mut client = KvClient::new(session.channel());
    match tokio::time::timeout(TIMEOUT, client.range(request)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(status)) if status.code() == Code::PermissionDenied => Ok(()),
        Ok(Err(status)) => Err(failed(format!("a read failed: {}", refused(status).text))),
        Err(_) => Err(failed(format!("a read was not answered in {} s", TIMEOUT.as_secs()))),
    }
}

/// Everything that Vetch reports, with up to `most_streams` slow streams, or what etcd reports.
pub(crate) async fn look(session: &Session, most_streams: u32) -> Result<LookResponse, Failure> {
    let looked = tokio::time::timeout(TIMEOUT, look_now(session, most_streams)).await;
    looked.unwrap_or_else(|_| Err(Failure { code: 1, text: format!("no answer in {} s", TIMEOUT.as_secs()) }))
}

async fn look_now(session: &Session, most_streams: u32) -> Result<LookResponse, Failure> {
    let request = session.request(LookRequest { most_streams });
    match OperatorClient::new(session.channel()).look(request).await {
        Ok(look) => Ok(look.into_inner()),
        Err(status) if status.code() == Code::Unimplemented => look_at_etcd(session).await,
        Err(status) => Err(refused(status)),
    }
}

async fn look_at_etcd(session: &Session) -> Result<LookResponse, Failure> {
    let request = session.request(pb::StatusRequest {});
    let status =
        MaintenanceClient::new(session.channel()).status(request).await.map_err(refused)?.into_inner();
    let header = status.header.unwrap_or_default();
    let bytes = |number: i64| u64::try_from(number).unwrap_or(0);
    let server = Server {
        cluster_id: header.cluster_id,
        member_id: header.member_id,
        leader: status.leader,
        term: status.raft_term,
        etcd_version: status.version,
        alarms: status.errors,
        ..Server::default()
    };
    let storage = Storage {
        revision: header.revision,
        bytes: bytes(status.db_size_in_use),
        quota_bytes: bytes(status.db_size_quota),
        disk_bytes: bytes(status.db_size),
        seconds_since_compaction: -1.0,
        ..Storage::default()
    };
    Ok(LookResponse { server: Some(server), storage: Some(storage), ..LookResponse::default() })
}
