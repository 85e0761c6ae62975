//! Which calls are light before their messages are known.
//!
//! Light calls are those of this list; their responses are short, or are streams that are made as
//! they are read. Those of them that change something wait in the sequencer's queue, which all
//! clients share. All other calls are heavy, new ones included: a connection runs few of them at a
//! time, and none while much is held for it.

use vetch_http2::Weight;

/// Changes of users and roles.
const AUTH_CHANGES: [&str; 11] = [
    "AuthEnable",
    "AuthDisable",
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
    let method = path.strip_prefix('/').and_then(|path| path.split_once('/'));
    match method {
        Some(method) if is_queued(method) => Weight::Queued,
        Some(method) if is_light(method) => Weight::Light,
        _ => Weight::Heavy,
    }
}

/// A change that the sequencer makes, and that is not made by one of its own.
fn is_queued(method: (&str, &str)) -> bool {
    match method {
        ("etcdserverpb.KV", method) => matches!(method, "Put" | "Compact"),
        ("etcdserverpb.Lease", method) => matches!(method, "LeaseGrant" | "LeaseRevoke"),
        ("etcdserverpb.Maintenance", method) => method == "Alarm",
        ("etcdserverpb.Auth", method) => AUTH_CHANGES.contains(&method),
        ("v3lockpb.Lock", method) => method == "Unlock",
        ("v3electionpb.Election", method) => matches!(method, "Proclaim" | "Resign"),
        _ => false,
    }
}

fn is_light(method: (&str, &str)) -> bool {
    match method {
        ("etcdserverpb.KV", method) => method == "RangeStream",
        ("etcdserverpb.Watch", method) => method == "Watch",
        ("etcdserverpb.Lease", method) => method == "LeaseKeepAlive",
        ("etcdserverpb.Cluster", method) => {
            matches!(method, "MemberAdd" | "MemberRemove" | "MemberUpdate" | "MemberPromote")
        }
        // A snapshot waits in its queue, and other calls must not wait behind it.
        ("etcdserverpb.Maintenance", method) => {
            matches!(method, "Status" | "Defragment" | "Snapshot" | "MoveLeader" | "Downgrade")
        }
        // Passwords have a queue of their own.
        ("etcdserverpb.Auth", method) => matches!(method, "AuthStatus" | "Authenticate"),
        // These wait for others, and answer with a key.
        ("v3lockpb.Lock", method) => method == "Lock",
        ("v3electionpb.Election", method) => matches!(method, "Campaign" | "Observe"),
        ("grpc.health.v1.Health", method) => matches!(method, "Check" | "List" | "Watch"),
        ("vetch.v1.Operator", method) => method == "BackUp",
        ("vetch.v1.Peer", method) => {
            matches!(method, "Report" | "Checkpoint" | "ReadIndex" | "Introduce")
        }
        _ => false,
    }
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

    #[test]
    fn what_changes_the_store_is_queued() {
        let paths = ["etcdserverpb.KV/Put", "etcdserverpb.Lease/LeaseGrant", "etcdserverpb.Auth/RoleAdd"];
        for path in paths {
            assert_eq!(by_path(&format!("/{path}")), Weight::Queued, "{path}");
        }
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
