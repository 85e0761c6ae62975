//! The request in an entry of etcd's log, translated to the store's requests.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use prost::Message;
use prost::encoding::{DecodeContext, decode_key, skip_field};
use vetch_api::pb;
use vetch_node::store::Store;
use vetch_node::store::auth::{Caller, Change, Permission, PermissionKind};
use vetch_node::store::request::{Alarm, AlarmKind, Remaining, WriteRequest};

use super::{ReplayError, translate};

/// The minimum TTL in seconds. It follows from etcd's election timeout, of
/// which this is the default.
const MIN_TTL: i64 = 2;
/// etcd's default cost of bcrypt.
const BCRYPT_COST: u32 = 10;

/// Fields of a request that change nothing that Vetch takes over: its number, the old API's, reads,
/// logins, and the versions and attributes of members.
const WITHOUT_EFFECT: [u32; 14] = [1, 2, 3, 100, 1012, 1013, 1102, 1106, 1107, 1202, 1300, 1301, 1302, 9900];
const WITH_EFFECT: [u32; 19] =
    [4, 5, 6, 7, 8, 9, 10, 11, 1000, 1011, 1100, 1101, 1103, 1104, 1105, 1200, 1201, 1203, 1204];

/// The user who sent the request.
#[derive(Clone, PartialEq, Message)]
struct Header {
    #[prost(string, tag = "2")]
    username: String,
    #[prost(uint64, tag = "3")]
    auth_revision: u64,
}

#[derive(Clone, PartialEq, Message)]
struct LeaseCheckpoints {
    #[prost(message, repeated, tag = "1")]
    checkpoints: Vec<LeaseCheckpoint>,
}

#[derive(Clone, PartialEq, Message)]
struct LeaseCheckpoint {
    #[prost(int64, tag = "1")]
    id: i64,
    #[prost(int64, tag = "2")]
    remaining: i64,
}

/// At most one of these is there, besides the header.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Request {
    #[prost(message, optional, tag = "100")]
    header: Option<Header>,
    #[prost(message, optional, tag = "4")]
    put: Option<pb::PutRequest>,
    #[prost(message, optional, tag = "5")]
    delete_range: Option<pb::DeleteRangeRequest>,
    #[prost(message, optional, tag = "6")]
    txn: Option<pb::TxnRequest>,
    #[prost(message, optional, tag = "7")]
    compaction: Option<pb::CompactionRequest>,
    #[prost(message, optional, tag = "8")]
    lease_grant: Option<pb::LeaseGrantRequest>,
    #[prost(message, optional, tag = "9")]
    lease_revoke: Option<pb::LeaseRevokeRequest>,
    #[prost(message, optional, tag = "10")]
    alarm: Option<pb::AlarmRequest>,
    #[prost(message, optional, tag = "11")]
    lease_checkpoint: Option<LeaseCheckpoints>,
    #[prost(message, optional, tag = "1000")]
    auth_enable: Option<pb::AuthEnableRequest>,
    #[prost(message, optional, tag = "1011")]
    auth_disable: Option<pb::AuthDisableRequest>,
    #[prost(message, optional, tag = "1100")]
    user_add: Option<pb::AuthUserAddRequest>,
    #[prost(message, optional, tag = "1101")]
    user_delete: Option<pb::AuthUserDeleteRequest>,
    #[prost(message, optional, tag = "1103")]
    user_change_password: Option<pb::AuthUserChangePasswordRequest>,
    #[prost(message, optional, tag = "1104")]
    user_grant_role: Option<pb::AuthUserGrantRoleRequest>,
    #[prost(message, optional, tag = "1105")]
    user_revoke_role: Option<pb::AuthUserRevokeRoleRequest>,
    #[prost(message, optional, tag = "1200")]
    role_add: Option<pb::AuthRoleAddRequest>,
    #[prost(message, optional, tag = "1201")]
    role_delete: Option<pb::AuthRoleDeleteRequest>,
    #[prost(message, optional, tag = "1203")]
    role_grant_permission: Option<pb::AuthRoleGrantPermissionRequest>,
    #[prost(message, optional, tag = "1204")]
    role_revoke_permission: Option<pb::AuthRoleRevokePermissionRequest>,
}

/// The numbers of the fields that are there.
fn fields(mut data: &[u8]) -> Result<Vec<u32>, prost::DecodeError> {
    let mut found = Vec::new();
    while !data.is_empty() {
        let (tag, wire_type) = decode_key(&mut data)?;
        skip_field(wire_type, tag, &mut data, DecodeContext::default())?;
        found.push(tag);
    }
    Ok(found)
}

/// Whether a request may change anything. One that cannot be read may.
pub(super) fn may_change(data: &[u8]) -> bool {
    fields(data).map_or(true, |fields| fields.iter().any(|field| !WITHOUT_EFFECT.contains(field)))
}

impl Request {
    /// A request with a field that is not known may ask for anything, so it is refused.
    pub(super) fn read(data: &[u8]) -> Result<Request, ReplayError> {
        let is_known = |field: &u32| WITHOUT_EFFECT.contains(field) || WITH_EFFECT.contains(field);
        if let Some(field) = fields(data)?.iter().find(|field| !is_known(field)) {
            return Err(ReplayError::UnknownRequest(*field));
        }
        Ok(Request::decode(data)?)
    }

    pub(super) fn caller(&self) -> Caller {
        match &self.header {
            Some(header) if !header.username.is_empty() => {
                Caller::user(&header.username, header.auth_revision)
            }
            _ => Caller::Anonymous,
        }
    }

    /// The store's form of it. None: nothing is asked for that could change the state.
    pub(super) fn into_write(self, store: &Store) -> Result<Option<WriteRequest>, ReplayError> {
        let asked = if let Some(put) = self.put {
            Some(WriteRequest::Put(translate::put(put)?))
        } else if let Some(delete) = self.delete_range {
            Some(WriteRequest::DeleteRange(translate::delete_range(delete)?))
        } else if let Some(txn) = self.txn {
            Some(WriteRequest::Txn(translate::txn(txn)?))
        } else if let Some(compaction) = self.compaction {
            Some(WriteRequest::Compact { revision: compaction.revision })
        } else if let Some(lease) = self.lease_grant {
            let ttl = lease.ttl.max(MIN_TTL);
            (lease.id != 0).then_some(WriteRequest::LeaseGrant { id: lease.id, ttl })
        } else if let Some(lease) = self.lease_revoke {
            Some(WriteRequest::LeaseRevoke { id: lease.id })
        } else if let Some(alarm) = self.alarm {
            of_alarm(&alarm)?
        } else if let Some(checkpoint) = self.lease_checkpoint {
            Some(of_checkpoints(&checkpoint, store))
        } else {
            self.into_change()?.map(WriteRequest::Auth)
        };
        Ok(asked)
    }

    fn into_change(self) -> Result<Option<Change>, ReplayError> {
        let change = if self.auth_enable.is_some() {
            Change::Enable
        } else if self.auth_disable.is_some() {
            Change::Disable
        } else if let Some(user) = self.user_add {
            let no_password = user.options.is_some_and(|options| options.no_password);
            let password = if no_password { None } else { hash(user.password, &user.hashed_password)? };
            Change::UserAdd { name: user.name, password, no_password }
        } else if let Some(user) = self.user_delete {
            Change::UserDelete { name: user.name }
        } else if let Some(user) = self.user_change_password {
            Change::UserChangePassword {
                name: user.name,
                password: hash(user.password, &user.hashed_password)?,
            }
        } else if let Some(grant) = self.user_grant_role {
            Change::UserGrantRole { user: grant.user, role: grant.role }
        } else if let Some(revoke) = self.user_revoke_role {
            Change::UserRevokeRole { user: revoke.name, role: revoke.role }
        } else if let Some(role) = self.role_add {
            Change::RoleAdd { name: role.name }
        } else if let Some(role) = self.role_delete {
            Change::RoleDelete { name: role.role }
        } else if let Some(grant) = self.role_grant_permission {
            Change::RoleGrantPermission { role: grant.name, permission: grant.perm.map(of_permission) }
        } else if let Some(revoke) = self.role_revoke_permission {
            let (key, range_end) = (revoke.key, revoke.range_end);
            Change::RoleRevokePermission { role: revoke.role, key, range_end }
        } else {
            return Ok(None);
        };
        Ok(Some(change))
    }
}

fn of_alarm(alarm: &pb::AlarmRequest) -> Result<Option<WriteRequest>, ReplayError> {
    let kind = match alarm.alarm {
        0 => return Ok(None),
        1 => AlarmKind::NoSpace,
        2 => AlarmKind::Corrupt,
        other => return Err(ReplayError::UnknownAlarm(other)),
    };
    let alarm_of = Alarm { member: alarm.member_id, kind };
    Ok(match alarm.action {
        1 => Some(WriteRequest::AlarmActivate(alarm_of)),
        2 => Some(WriteRequest::AlarmDeactivate(alarm_of)),
        _ => None,
    })
}

fn of_checkpoints(checkpoints: &LeaseCheckpoints, store: &Store) -> WriteRequest {
    let leases = checkpoints.checkpoints.iter().filter_map(|checkpoint| {
        let grant = store.leases().get(checkpoint.id)?.grant();
        Some(Remaining { id: checkpoint.id, grant, seconds: checkpoint.remaining.max(0) })
    });
    WriteRequest::LeaseRemaining { leases: leases.collect() }
}

fn of_permission(permission: vetch_api::authpb::Permission) -> Permission {
    Permission {
        kind: PermissionKind::of_number(permission.perm_type),
        key: permission.key,
        range_end: permission.range_end,
    }
}

/// The hash of a password. Before 3.5 the log has the password itself, and every member hashes it
/// with a salt of its own.
fn hash(password: String, hashed: &str) -> Result<Option<Bytes>, ReplayError> {
    if password.is_empty() || !hashed.is_empty() {
        return Ok(STANDARD.decode(hashed).ok().map(Bytes::from));
    }
    let hash = bcrypt::hash(password, BCRYPT_COST)?;
    Ok(Some(hash.into()))
}
