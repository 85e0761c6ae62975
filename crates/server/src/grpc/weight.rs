//! Which calls are light before their messages are known.
//!
//! Light calls are those of this list; their responses are short, or are streams that are made as
//! they are read. All others are heavy, new ones included: a connection runs few of them at a time,
//! and none while much is held for it.

use vetch_http2::Weight;

/// Calls on users with short responses.
const AUTH: [&str; 13] = [
    "AuthEnable",
    "AuthDisable",
    "AuthStatus",
    "Authenticate",
    "UserAdd",
    "UserDelete",
    "UserChangePassword",
    "UserGrantRole",
    "UserRevokeRole",
    "RoleAdd",
    "RoleDelete",
    "RoleGrantPermission",
    "RoleRevokePermission",
];

pub(crate) fn by_path(path: &str) -> Weight {
    let light = match path.strip_prefix('/').and_then(|path| path.split_once('/')) {
        Some(("etcdserverpb.KV", method)) => matches!(method, "Put" | "Compact" | "RangeStream"),
        Some(("etcdserverpb.Watch", method)) => method == "Watch",
        Some(("etcdserverpb.Lease", method)) => {
            matches!(method, "LeaseGrant" | "LeaseRevoke" | "LeaseKeepAlive")
        }
        Some(("etcdserverpb.Cluster", method)) => {
            matches!(method, "MemberAdd" | "MemberRemove" | "MemberUpdate" | "MemberPromote")
        }
        // A snapshot waits in its queue, and other calls must not wait behind it.
        Some(("etcdserverpb.Maintenance", method)) => {
            matches!(method, "Alarm" | "Status" | "Defragment" | "Snapshot" | "MoveLeader" | "Downgrade")
        }
        Some(("etcdserverpb.Auth", method)) => AUTH.contains(&method),
        // These wait for others, and answer with a key.
        Some(("v3lockpb.Lock", method)) => matches!(method, "Lock" | "Unlock"),
        Some(("v3electionpb.Election", method)) => {
            matches!(method, "Campaign" | "Proclaim" | "Resign" | "Observe")
        }
        Some(("grpc.health.v1.Health", method)) => matches!(method, "Check" | "List" | "Watch"),
        Some(("vetch.v1.Operator", method)) => method == "BackUp",
        Some(("vetch.v1.Peer", method)) => {
            matches!(method, "Report" | "Checkpoint" | "ReadIndex" | "Introduce")
        }
        _ => false,
    };
    if light { Weight::Light } else { Weight::Heavy }
}

#[cfg(test)]
mod tests {
    use vetch_api::gateway::{Kind, ROUTES};

    use super::*;

    /// All heavy RPCs with an HTTP path: a new one is added here, or to the light ones.
    #[test]
    fn what_shows_lists_or_computes_is_heavy() {
        let mut heavy: Vec<&str> =
            ROUTES.iter().map(|route| route.rpc).filter(|rpc| by_path(rpc) == Weight::Heavy).collect();
        heavy.sort_unstable();
        heavy.dedup();
        let expected = [
            "/etcdserverpb.Auth/RoleGet",
            "/etcdserverpb.Auth/RoleList",
            "/etcdserverpb.Auth/UserGet",
            "/etcdserverpb.Auth/UserList",
            "/etcdserverpb.Cluster/MemberList",
            "/etcdserverpb.KV/DeleteRange",
            "/etcdserverpb.KV/Range",
            "/etcdserverpb.KV/Txn",
            "/etcdserverpb.Lease/LeaseLeases",
            "/etcdserverpb.Lease/LeaseTimeToLive",
            "/etcdserverpb.Maintenance/Hash",
            "/etcdserverpb.Maintenance/HashKV",
            "/v3electionpb.Election/Leader",
        ];
        assert_eq!(heavy, expected);
        assert_eq!(by_path("/vetch.v1.Operator/Look"), Weight::Heavy);
        assert_eq!(by_path("/no.such.Service/Call"), Weight::Heavy);
    }

    /// A stream's responses are made as they are read, and a waiting stream must not keep others
    /// from starting.
    #[test]
    fn streams_are_light() {
        for route in ROUTES.iter().filter(|route| route.kind != Kind::Unary) {
            assert_eq!(by_path(route.rpc), Weight::Light, "{}", route.rpc);
        }
    }
}
