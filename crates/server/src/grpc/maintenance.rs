//! The Maintenance service.

use std::time::{Duration, Instant};

use tonic::{Request, Response, Status};
use vetch_api::pb::alarm_request::AlarmAction as Action;
use vetch_api::pb::downgrade_request::DowngradeAction;
use vetch_api::pb::maintenance_server;
use vetch_api::{EtcdError, pb};
use vetch_node::Node;
use vetch_node::store::request::{Alarm, AlarmKind};
use vetch_node::types::{AlarmAction, AlarmSelector};

use super::authorise::RequiredPermission;
use super::downgrade;
use super::service_context::ServiceContext;
use super::snapshot::{self, SnapshotQueue, SnapshotStream};
use super::status;
use crate::remote::Remote;
use vetch_api::version;
use vetch_metrics::database_bytes;

/// How long another server may take to become leader.
const LEADER_TRANSFER_TIMEOUT: Duration = Duration::from_secs(5);

type GrpcResult<T> = Result<Response<T>, Status>;

pub(super) struct MaintenanceService(pub(super) ServiceContext, pub(super) SnapshotQueue);

#[tonic::async_trait]
impl maintenance_server::Maintenance for MaintenanceService {
    type SnapshotStream = SnapshotStream;

    async fn alarm(&self, request: Request<pb::AlarmRequest>) -> GrpcResult<pb::AlarmResponse> {
        let action = Action::try_from(request.get_ref().action);
        let required =
            if action == Ok(Action::Get) { RequiredPermission::User } else { RequiredPermission::Root };
        let (node, request) = self.0.authorise_request(request, required)?;
        let alarms = match action {
            Ok(Action::Get) => self.alarms(request.alarm),
            Ok(Action::Activate) => self.change_alarm(&node, AlarmAction::Activate, &request).await?,
            Ok(Action::Deactivate) => self.change_alarm(&node, AlarmAction::Deactivate, &request).await?,
            // etcd has no answer to this: it stops.
            Err(_) => return Err(status::undefined("vetch: undefined alarm action")),
        };
        Ok(Response::new(pb::AlarmResponse {
            header: self.0.header_now(),
            alarms: alarms.into_iter().map(alarm_member).collect(),
        }))
    }

    async fn status(&self, request: Request<pb::StatusRequest>) -> GrpcResult<pb::StatusResponse> {
        self.0.authorise_request(request, RequiredPermission::User)?;
        let node = self.0.node.status();
        Ok(Response::new(pb::StatusResponse {
            header: self.0.header(node.revision),
            version: version::SERVER.into(),
            // There is no file with free space that a defrag could return.
            db_size: as_signed(database_bytes(&node)),
            leader: self.0.leader(),
            raft_index: node.index,
            raft_term: node.term,
            raft_applied_index: node.index,
            errors: self.0.node.alarms().into_iter().map(alarm_text).collect(),
            db_size_in_use: as_signed(database_bytes(&node)),
            is_learner: false,
            storage_version: version::STORAGE.into(),
            // etcd shows what its flag was set to, and "no quota" is set as a negative number.
            db_size_quota: if node.quota_bytes == 0 { -1 } else { as_signed(node.quota_bytes) },
            downgrade_info: Some(pb::DowngradeInfo::default()),
        }))
    }

    /// Answered without a header, as etcd does.
    async fn defragment(
        &self,
        request: Request<pb::DefragmentRequest>,
    ) -> GrpcResult<pb::DefragmentResponse> {
        self.0.authorise_request(request, RequiredPermission::Root)?;
        let began = Instant::now();
        self.0.node.defragment().await.map_err(status::node)?;
        self.0.metrics.services.defragmented(began.elapsed());
        Ok(Response::new(pb::DefragmentResponse { header: None }))
    }

    async fn hash(&self, request: Request<pb::HashRequest>) -> GrpcResult<pb::HashResponse> {
        self.0.authorise_request(request, RequiredPermission::Root)?;
        let (hash, revision) = self.0.node.hash().await.map_err(status::node)?;
        Ok(Response::new(pb::HashResponse { header: self.0.header(revision), hash }))
    }

    async fn hash_kv(&self, request: Request<pb::HashKvRequest>) -> GrpcResult<pb::HashKvResponse> {
        let (_, request) = self.0.authorise_request(request, RequiredPermission::Root)?;
        let hash = self.0.node.hash_kv(request.revision).await.map_err(status::node)?;
        Ok(Response::new(pb::HashKvResponse {
            header: self.0.header(hash.revision),
            hash: hash.hash,
            compact_revision: hash.compact_revision,
            hash_revision: hash.hash_revision,
        }))
    }

    async fn snapshot(&self, request: Request<pb::SnapshotRequest>) -> GrpcResult<Self::SnapshotStream> {
        let remote = request.extensions().get::<Remote>().cloned();
        self.0.authorise_request(request, RequiredPermission::Root)?;
        Ok(Response::new(snapshot::stream(&self.0, &self.1, remote).await?))
    }

    /// A transfer of the leader to itself succeeds at once. The response has no header.
    async fn move_leader(
        &self,
        request: Request<pb::MoveLeaderRequest>,
    ) -> GrpcResult<pb::MoveLeaderResponse> {
        let (_, request) = self.0.authorise_request(request, RequiredPermission::Root)?;
        if self.0.node.cluster().is_some() {
            let moved =
                self.0.node.transfer_leadership(Some(request.target_id), LEADER_TRANSFER_TIMEOUT).await;
            moved.map_err(|error| status::etcd(status::etcd_from_leader_transfer(error)))?;
        } else if request.target_id != self.0.node.identity().member_id {
            return Err(status::etcd(EtcdError::BadLeaderTransferee));
        }
        Ok(Response::new(pb::MoveLeaderResponse { header: None }))
    }

    async fn downgrade(&self, request: Request<pb::DowngradeRequest>) -> GrpcResult<pb::DowngradeResponse> {
        let (_, request) = self.0.authorise_request(request, RequiredPermission::Root)?;
        match DowngradeAction::try_from(request.action) {
            Ok(DowngradeAction::Validate | DowngradeAction::Enable) => {
                downgrade::check(&request.version).map_err(status::etcd)?;
                Err(status::unsupported("vetch: there is no older version of Vetch's data to go back to"))
            }
            // None is ever in progress, and etcd accepts that too.
            Ok(DowngradeAction::Cancel) => Ok(Response::new(pb::DowngradeResponse {
                header: self.0.header_now(),
                version: downgrade::CLUSTER.into(),
            })),
            Err(_) => Err(status::etcd(EtcdError::UnknownMethod)),
        }
    }
}

impl MaintenanceService {
    /// The raised alarms of one type, or all of them for none. The member is ignored.
    fn alarms(&self, kind: i32) -> Vec<Alarm> {
        let raised = self.0.node.alarms();
        match pb::AlarmType::try_from(kind) {
            Ok(pb::AlarmType::None) => raised,
            _ => raised.into_iter().filter(|alarm| alarm_type(alarm.kind) as i32 == kind).collect(),
        }
    }

    /// Raising or clearing "none" is allowed and does nothing.
    async fn change_alarm(
        &self,
        node: &Node,
        action: AlarmAction,
        request: &pb::AlarmRequest,
    ) -> Result<Vec<Alarm>, Status> {
        let kind = match pb::AlarmType::try_from(request.alarm) {
            Ok(pb::AlarmType::None) => return Ok(Vec::new()),
            Ok(pb::AlarmType::Nospace) => AlarmKind::NoSpace,
            Ok(pb::AlarmType::Corrupt) => AlarmKind::Corrupt,
            Err(_) => return Err(status::undefined("vetch: undefined alarm type")),
        };
        let member = request.member_id;
        // To etcd, member 0 is a member like any other, not all of them.
        if member == 0
            && action == AlarmAction::Deactivate
            && !self.0.node.alarms().contains(&Alarm { member, kind })
        {
            return Ok(Vec::new());
        }
        let which = AlarmSelector { member, kind: Some(kind) };
        node.alarm(action, which).await.map_err(status::node)
    }
}

fn alarm_type(kind: AlarmKind) -> pb::AlarmType {
    match kind {
        AlarmKind::NoSpace => pb::AlarmType::Nospace,
        AlarmKind::Corrupt => pb::AlarmType::Corrupt,
    }
}

fn alarm_member(alarm: Alarm) -> pb::AlarmMember {
    pb::AlarmMember { member_id: alarm.member, alarm: alarm_type(alarm.kind).into() }
}

/// An alarm in protobuf's text form, as the errors of a status list it.
pub(super) fn alarm_text(alarm: Alarm) -> String {
    let kind = alarm_type(alarm.kind).as_str_name();
    match alarm.member {
        0 => format!("alarm:{kind}"),
        member => format!("memberID:{member} alarm:{kind}"),
    }
}

fn as_signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
