//! Every call to the etcd, over one connection.

use std::time::Duration;

use tokio_stream::StreamExt;
use tonic::transport::Channel;
use tonic::{Code, Response, Status, Streaming};
use vetch_api::pb;
use vetch_api::pb::auth_client::AuthClient;
use vetch_api::pb::kv_client::KvClient;
use vetch_api::pb::lease_client::LeaseClient;
use vetch_api::pb::maintenance_client::MaintenanceClient;
use vetch_api::pb::watch_client::WatchClient;
use vetch_api::pb::watch_request::RequestUnion;

use super::error::MigrateError;
use crate::commands::Failure;
use crate::commands::client::{Access, Session};

/// Timeout of a call.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// The same for one that reads all of the data.
const LONG_CALL_TIMEOUT: Duration = Duration::from_secs(900);

/// A lease that is never granted: revoking it is refused with one of two errors, which shows
/// whether the fence is set.
const NO_LEASE: i64 = i64::MAX;

/// The status of the etcd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SourceStatus {
    pub(super) cluster_id: u64,
    pub(super) member_id: u64,
    pub(super) revision: i64,
    pub(super) version: String,
}

/// Whether authentication is on, and its revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SourceAuth {
    pub(super) enabled: bool,
    pub(super) revision: u64,
}

#[derive(Debug, Clone)]
pub(super) struct Source {
    pub(super) endpoint: String,
    session: Session,
}

impl Source {
    /// The first of `endpoints` that answers, and its status.
    pub(super) async fn connect(
        endpoints: &[String],
        access: &Access,
    ) -> Result<(Source, SourceStatus), Failure> {
        let mut failures = Vec::new();
        for endpoint in endpoints {
            match Source::try_connect(endpoint, access).await {
                Ok(connected) => return Ok(connected),
                Err(failure) => failures.push(failure.text),
            }
        }
        Err(Failure { code: 1, text: failures.join("; ") })
    }

    async fn try_connect(endpoint: &str, access: &Access) -> Result<(Source, SourceStatus), Failure> {
        let source = Source { endpoint: endpoint.to_owned(), session: access.connect(endpoint).await? };
        let source_status = source.status().await;
        let source_status = source_status.map_err(|trouble| Failure {
            code: 1,
            text: format!("{endpoint} does not report its status: {}", trouble.text()),
        })?;
        Ok((source, source_status))
    }

    pub(super) fn channel(&self) -> Channel {
        self.session.channel()
    }

    fn maintenance(&self) -> MaintenanceClient<Channel> {
        MaintenanceClient::new(self.channel()).max_decoding_message_size(usize::MAX)
    }

    fn lease(&self) -> LeaseClient<Channel> {
        LeaseClient::new(self.channel()).max_decoding_message_size(usize::MAX)
    }

    pub(super) async fn status(&self) -> Result<SourceStatus, MigrateError> {
        let mut client = self.maintenance();
        let answer =
            with_timeout(CALL_TIMEOUT, client.status(self.session.request(pb::StatusRequest {}))).await?;
        let header = answer.header.unwrap_or_default();
        Ok(SourceStatus {
            cluster_id: header.cluster_id,
            member_id: header.member_id,
            revision: header.revision,
            version: answer.version,
        })
    }

    pub(super) async fn snapshot(&self) -> Result<Streaming<pb::SnapshotResponse>, MigrateError> {
        let mut client = self.maintenance();
        with_timeout(LONG_CALL_TIMEOUT, client.snapshot(self.session.request(pb::SnapshotRequest {}))).await
    }

    /// A watch over everything from a revision on.
    pub(super) async fn watch(&self, from: i64) -> Result<Streaming<pb::WatchResponse>, MigrateError> {
        let create = pb::WatchCreateRequest {
            key: vec![0].into(),
            range_end: vec![0].into(),
            start_revision: from,
            fragment: true,
            ..Default::default()
        };
        let request = pb::WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) };
        // The request side stays open as long as the responses are read.
        let requests = tokio_stream::once(request).chain(tokio_stream::pending());
        let mut client = WatchClient::new(self.channel()).max_decoding_message_size(usize::MAX);
        with_timeout(CALL_TIMEOUT, client.watch(self.session.request(requests))).await
    }

    pub(super) async fn leases(&self) -> Result<Vec<i64>, MigrateError> {
        let mut client = self.lease();
        let answer =
            with_timeout(CALL_TIMEOUT, client.lease_leases(self.session.request(pb::LeaseLeasesRequest {})))
                .await?;
        Ok(answer.leases.iter().map(|lease| lease.id).collect())
    }

    /// Seconds left and seconds granted; None if there is no such lease.
    pub(super) async fn time_to_live(&self, id: i64) -> Result<Option<(i64, i64)>, MigrateError> {
        let mut client = self.lease();
        let request = self.session.request(pb::LeaseTimeToLiveRequest { id, keys: false });
        let answer = with_timeout(CALL_TIMEOUT, client.lease_time_to_live(request)).await?;
        Ok((answer.granted_ttl > 0).then_some((answer.ttl, answer.granted_ttl)))
    }

    pub(super) async fn hash_kv(&self, revision: i64) -> Result<pb::HashKvResponse, MigrateError> {
        let mut client = self.maintenance();
        with_timeout(LONG_CALL_TIMEOUT, client.hash_kv(self.session.request(pb::HashKvRequest { revision })))
            .await
    }

    /// None if this etcd is too old to report it.
    pub(super) async fn auth(&self) -> Result<Option<SourceAuth>, MigrateError> {
        let mut client = AuthClient::new(self.channel());
        let call = client.auth_status(self.session.request(pb::AuthStatusRequest {}));
        let answer = tokio::time::timeout(CALL_TIMEOUT, call).await.map_err(|_| no_answer())?;
        match answer.map(Response::into_inner) {
            Ok(answer) => Ok(Some(SourceAuth { enabled: answer.enabled, revision: answer.auth_revision })),
            Err(status) if status.code() == Code::Unimplemented => Ok(None),
            Err(status) => Err(status.into()),
        }
    }

    /// Whether the alarm of the fence is raised.
    pub(super) async fn is_fenced(&self) -> Result<bool, MigrateError> {
        let answer = self.alarm(pb::alarm_request::AlarmAction::Get, 0).await?;
        Ok(answer.alarms.iter().any(|alarm| alarm.alarm() == pb::AlarmType::Corrupt))
    }

    /// Makes the etcd refuse writes, and returns the revision at which it stands from then on.
    pub(super) async fn fence(&self, member: u64) -> Result<i64, MigrateError> {
        let answer = self.alarm(pb::alarm_request::AlarmAction::Activate, member).await?;
        let mut client = self.lease();
        let probe = client.lease_revoke(self.session.request(pb::LeaseRevokeRequest { id: NO_LEASE }));
        let refused = tokio::time::timeout(CALL_TIMEOUT, probe).await.map_err(|_| no_answer())?;
        match refused.map_err(|status| status.code()) {
            Err(Code::DataLoss) => Ok(answer.header.unwrap_or_default().revision),
            Ok(_) | Err(Code::NotFound) => {
                Err(MigrateError::Fatal("the etcd still takes writes after it was fenced".into()))
            }
            // Too busy, or shutting down: the answer is unknown.
            Err(code) => Err(MigrateError::Disconnected(format!(
                "the etcd does not say whether it is fenced: {code:?}"
            ))),
        }
    }

    /// Of any member: an earlier run may have raised it through another one.
    pub(super) async fn unfence(&self) -> Result<(), MigrateError> {
        let answer = self.alarm(pb::alarm_request::AlarmAction::Get, 0).await?;
        for alarm in answer.alarms.iter().filter(|alarm| alarm.alarm() == pb::AlarmType::Corrupt) {
            self.alarm(pb::alarm_request::AlarmAction::Deactivate, alarm.member_id).await?;
        }
        Ok(())
    }

    /// A page of keys at a revision, from `key` on.
    pub(super) async fn page(
        &self,
        key: &[u8],
        revision: i64,
        limit: i64,
    ) -> Result<pb::RangeResponse, MigrateError> {
        let mut client = KvClient::new(self.channel()).max_decoding_message_size(usize::MAX);
        let request = pb::RangeRequest {
            key: key.to_vec().into(),
            range_end: vec![0].into(),
            revision,
            limit,
            serializable: true,
            ..Default::default()
        };
        with_timeout(CALL_TIMEOUT, client.range(self.session.request(request))).await
    }

    async fn alarm(
        &self,
        action: pb::alarm_request::AlarmAction,
        member_id: u64,
    ) -> Result<pb::AlarmResponse, MigrateError> {
        let mut client = self.maintenance();
        // All kinds are listed, one kind is changed.
        let is_change = action != pb::alarm_request::AlarmAction::Get;
        let alarm = if is_change { pb::AlarmType::Corrupt } else { pb::AlarmType::None };
        let request = pb::AlarmRequest { action: action.into(), member_id, alarm: alarm.into() };
        with_timeout(CALL_TIMEOUT, client.alarm(self.session.request(request))).await
    }
}

async fn with_timeout<M>(
    timeout: Duration,
    call: impl Future<Output = Result<Response<M>, Status>>,
) -> Result<M, MigrateError> {
    let answer = tokio::time::timeout(timeout, call).await.map_err(|_| no_answer())?;
    Ok(answer?.into_inner())
}

fn no_answer() -> MigrateError {
    MigrateError::Disconnected("no answer in time".into())
}
