//! The HTTP path of each RPC. Every mapping is a POST with the request as JSON in the body.
//!
//! This is only the table, and the translation of codes; the `server` crate uses it. `RangeStream`
//! has no path on purpose: etcd offers it over gRPC alone.

#[cfg(test)]
mod tests;

use tonic::Code;

/// How messages flow in an RPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// One request, one response.
    Unary,
    /// One request, any number of responses.
    ServerStream,
    /// Any number of both.
    Bidi,
}

/// One mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Route {
    /// The HTTP path, starting with `/v3/`.
    pub path: &'static str,
    /// The full name of the gRPC service.
    pub service: &'static str,
    /// The name of the RPC in that service.
    pub method: &'static str,
    /// The path of the RPC in gRPC's own HTTP/2 requests.
    pub rpc: &'static str,
    pub kind: Kind,
}

macro_rules! routes {
    ($($kind:ident $path:literal => $service:literal $method:literal;)*) => {
        &[$(Route {
            path: $path,
            service: $service,
            method: $method,
            rpc: concat!("/", $service, "/", $method),
            kind: Kind::$kind,
        },)*]
    };
}

/// All mappings. Three lease RPCs have two paths each.
pub const ROUTES: &[Route] = routes! {
    Unary "/v3/kv/compaction" => "etcdserverpb.KV" "Compact";
    Unary "/v3/kv/deleterange" => "etcdserverpb.KV" "DeleteRange";
    Unary "/v3/kv/put" => "etcdserverpb.KV" "Put";
    Unary "/v3/kv/range" => "etcdserverpb.KV" "Range";
    Unary "/v3/kv/txn" => "etcdserverpb.KV" "Txn";
    Bidi "/v3/watch" => "etcdserverpb.Watch" "Watch";
    Unary "/v3/lease/grant" => "etcdserverpb.Lease" "LeaseGrant";
    Bidi "/v3/lease/keepalive" => "etcdserverpb.Lease" "LeaseKeepAlive";
    Unary "/v3/kv/lease/leases" => "etcdserverpb.Lease" "LeaseLeases";
    Unary "/v3/lease/leases" => "etcdserverpb.Lease" "LeaseLeases";
    Unary "/v3/kv/lease/revoke" => "etcdserverpb.Lease" "LeaseRevoke";
    Unary "/v3/lease/revoke" => "etcdserverpb.Lease" "LeaseRevoke";
    Unary "/v3/kv/lease/timetolive" => "etcdserverpb.Lease" "LeaseTimeToLive";
    Unary "/v3/lease/timetolive" => "etcdserverpb.Lease" "LeaseTimeToLive";
    Unary "/v3/cluster/member/add" => "etcdserverpb.Cluster" "MemberAdd";
    Unary "/v3/cluster/member/list" => "etcdserverpb.Cluster" "MemberList";
    Unary "/v3/cluster/member/promote" => "etcdserverpb.Cluster" "MemberPromote";
    Unary "/v3/cluster/member/remove" => "etcdserverpb.Cluster" "MemberRemove";
    Unary "/v3/cluster/member/update" => "etcdserverpb.Cluster" "MemberUpdate";
    Unary "/v3/maintenance/alarm" => "etcdserverpb.Maintenance" "Alarm";
    Unary "/v3/maintenance/defragment" => "etcdserverpb.Maintenance" "Defragment";
    Unary "/v3/maintenance/downgrade" => "etcdserverpb.Maintenance" "Downgrade";
    Unary "/v3/maintenance/hash" => "etcdserverpb.Maintenance" "Hash";
    Unary "/v3/maintenance/hashkv" => "etcdserverpb.Maintenance" "HashKV";
    Unary "/v3/maintenance/transfer-leadership" => "etcdserverpb.Maintenance" "MoveLeader";
    ServerStream "/v3/maintenance/snapshot" => "etcdserverpb.Maintenance" "Snapshot";
    Unary "/v3/maintenance/status" => "etcdserverpb.Maintenance" "Status";
    Unary "/v3/auth/disable" => "etcdserverpb.Auth" "AuthDisable";
    Unary "/v3/auth/enable" => "etcdserverpb.Auth" "AuthEnable";
    Unary "/v3/auth/status" => "etcdserverpb.Auth" "AuthStatus";
    Unary "/v3/auth/authenticate" => "etcdserverpb.Auth" "Authenticate";
    Unary "/v3/auth/role/add" => "etcdserverpb.Auth" "RoleAdd";
    Unary "/v3/auth/role/delete" => "etcdserverpb.Auth" "RoleDelete";
    Unary "/v3/auth/role/get" => "etcdserverpb.Auth" "RoleGet";
    Unary "/v3/auth/role/grant" => "etcdserverpb.Auth" "RoleGrantPermission";
    Unary "/v3/auth/role/list" => "etcdserverpb.Auth" "RoleList";
    Unary "/v3/auth/role/revoke" => "etcdserverpb.Auth" "RoleRevokePermission";
    Unary "/v3/auth/user/add" => "etcdserverpb.Auth" "UserAdd";
    Unary "/v3/auth/user/changepw" => "etcdserverpb.Auth" "UserChangePassword";
    Unary "/v3/auth/user/delete" => "etcdserverpb.Auth" "UserDelete";
    Unary "/v3/auth/user/get" => "etcdserverpb.Auth" "UserGet";
    Unary "/v3/auth/user/grant" => "etcdserverpb.Auth" "UserGrantRole";
    Unary "/v3/auth/user/list" => "etcdserverpb.Auth" "UserList";
    Unary "/v3/auth/user/revoke" => "etcdserverpb.Auth" "UserRevokeRole";
    Unary "/v3/lock/lock" => "v3lockpb.Lock" "Lock";
    Unary "/v3/lock/unlock" => "v3lockpb.Lock" "Unlock";
    Unary "/v3/election/campaign" => "v3electionpb.Election" "Campaign";
    Unary "/v3/election/leader" => "v3electionpb.Election" "Leader";
    ServerStream "/v3/election/observe" => "v3electionpb.Election" "Observe";
    Unary "/v3/election/proclaim" => "v3electionpb.Election" "Proclaim";
    Unary "/v3/election/resign" => "v3electionpb.Election" "Resign";
};

/// The mapping of a path, if there is one.
pub fn route(path: &str) -> Option<&'static Route> {
    ROUTES.iter().find(|route| route.path == path)
}

/// The HTTP status of a gRPC code.
pub const fn http_status(code: Code) -> u16 {
    match code {
        Code::Ok => 200,
        Code::Cancelled => 499,
        Code::InvalidArgument | Code::FailedPrecondition | Code::OutOfRange => 400,
        Code::DeadlineExceeded => 504,
        Code::NotFound => 404,
        Code::AlreadyExists | Code::Aborted => 409,
        Code::PermissionDenied => 403,
        Code::Unauthenticated => 401,
        Code::ResourceExhausted => 429,
        Code::Unimplemented => 501,
        Code::Unavailable => 503,
        Code::Unknown | Code::Internal | Code::DataLoss => 500,
    }
}
