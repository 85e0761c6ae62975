//! What is sent, and by whom.

use vetch_api::{authpb, pb};

#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// The user whose token goes with it; "" for none, "?" for a token that was never given out.
    pub(crate) by: &'static str,
    pub(crate) ask: Ask,
}

#[derive(Clone, Debug)]
pub(crate) enum Ask {
    LogIn { user: &'static str, password: &'static str },
    Enable,
    Disable,
    Status,
    UserAdd(pb::AuthUserAddRequest),
    UserGet(&'static str),
    UserList,
    UserDelete(&'static str),
    Password(pb::AuthUserChangePasswordRequest),
    GrantRole { user: &'static str, role: &'static str },
    RevokeRole { user: &'static str, role: &'static str },
    RoleAdd(&'static str),
    RoleGet(&'static str),
    RoleList,
    RoleDelete(&'static str),
    Permit { role: &'static str, permission: Option<authpb::Permission> },
    Forbid { role: &'static str, key: &'static str, end: &'static str },
    Range(pb::RangeRequest),
    RangeStream(pb::RangeRequest),
    Put(pb::PutRequest),
    Delete(pb::DeleteRangeRequest),
    Txn(pb::TxnRequest),
    Compact(i64),
    Grant(i64),
    Revoke(i64),
    TimeToLive { id: i64, keys: bool },
    Leases,
    Renew(i64),
    Watch { key: &'static str, end: &'static str },
    Lock(&'static str),
    Leader(&'static str),
    MemberList,
    MemberAdd,
    MemberRemove,
    Alarm { action: i32 },
    ServerStatus,
    HashKv,
    Hash,
    Defragment,
    MoveLeader,
    Downgrade,
    Snapshot,
}
