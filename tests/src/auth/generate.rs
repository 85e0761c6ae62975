//! Requests at random: enough management to keep permissions moving, and everything they decide
//! about.

use vetch_api::pb::compare::{CompareResult, CompareTarget, TargetUnion};
use vetch_api::pb::request_op::Request as Op;
use vetch_api::{authpb, pb};

use super::{Ask, Request};
use vetch_testkit::random::Rng;

const USERS: [&str; 4] = ["root", "alice", "bob", "carol"];
const ROLES: [&str; 4] = ["root", "one", "two", "three"];
const PASSWORDS: [&str; 3] = ["pw", "other", ""];
const KEYS: [&str; 7] = ["a", "a/1", "a/2", "b", "b/1", "c", "d"];
/// Key and end of what requests are about. Those the wrong way round are left out: there, etcd's
/// answer depends on the shape of a tree.
const RANGES: [(&str, &str); 9] = [
    ("a", ""),
    ("a/", "a0"),
    ("a", "b"),
    ("a", "c"),
    ("b", "d"),
    ("c", "\0"),
    ("\0", "\0"),
    ("d", ""),
    ("a/1", "a/2"),
];
/// What permissions are for: no two with the same key, because etcd then keeps both where Vetch
/// keeps the last word.
const PERMITTED: [(&str, &str); 7] =
    [("a", "b"), ("a/", "a0"), ("b", "c"), ("b/1", ""), ("c", "\0"), ("d", ""), ("a/1", "a/3")];

#[derive(Default)]
pub(crate) struct Generator {
    enabled: bool,
    granted: i64,
}

impl Generator {
    /// What an answer says about the requests to come.
    pub(crate) fn learn(&mut self, request: &Request, outcome: &str) {
        if outcome.starts_with("refused") {
            return;
        }
        match request.ask {
            Ask::Enable => self.enabled = true,
            Ask::Disable => self.enabled = false,
            _ => {}
        }
    }

    pub(crate) fn request(&mut self, rng: &mut Rng) -> Request {
        // Without root there is nothing to try for long.
        let ask = if !self.enabled && rng.percent(25) {
            self.towards_enabled(rng)
        } else if self.enabled && rng.percent(20) {
            let user = *rng.pick(&USERS);
            Ask::LogIn { user, password: rng.weighted(&[(8, "pw"), (1, "other"), (1, "")]) }
        } else if rng.percent(30) {
            self.management(rng)
        } else if rng.percent(75) {
            self.data(rng)
        } else {
            administration(rng)
        };
        let by = self.caller(rng, &ask);
        Request { by, ask }
    }

    fn caller(&self, rng: &mut Rng, ask: &Ask) -> &'static str {
        let is_management = !matches!(
            ask,
            Ask::Range(_)
                | Ask::Put(_)
                | Ask::Delete(_)
                | Ask::Txn(_)
                | Ask::Watch { .. }
                | Ask::RangeStream(_)
        );
        match rng.below(20) {
            0 => "",
            1 => "?",
            n if n < 14 && is_management => "root",
            _ => USERS[rng.below(USERS.len())],
        }
    }

    fn towards_enabled(&mut self, rng: &mut Rng) -> Ask {
        match rng.below(3) {
            0 => Ask::UserAdd(user_add("root", "pw", false)),
            1 => Ask::GrantRole { user: "root", role: "root" },
            _ => Ask::Enable,
        }
    }

    fn management(&mut self, rng: &mut Rng) -> Ask {
        let user = *rng.pick(&USERS);
        let role = *rng.pick(&ROLES);
        match rng.below(30) {
            0..=3 => {
                let password = *rng.pick(&PASSWORDS);
                Ask::UserAdd(user_add(user, password, rng.percent(10)))
            }
            4 => Ask::UserDelete(user),
            5 => Ask::Password(pb::AuthUserChangePasswordRequest {
                name: user.into(),
                password: rng.weighted(&[(6, "pw"), (1, "")]).into(),
                hashed_password: rng.weighted(&[(3, ""), (1, "no base64!")]).into(),
            }),
            6..=10 => Ask::GrantRole { user, role },
            11 => Ask::RevokeRole { user, role },
            12..=14 => Ask::RoleAdd(role),
            15 => Ask::RoleDelete(role),
            16..=21 => Ask::Permit { role, permission: permission(rng) },
            22 | 23 => {
                let (key, end) = *rng.pick(&PERMITTED);
                Ask::Forbid { role, key, end }
            }
            24 => Ask::UserGet(user),
            25 => Ask::RoleGet(role),
            26 => Ask::UserList,
            27 => Ask::RoleList,
            28 => Ask::Status,
            _ if rng.percent(20) => Ask::Disable,
            _ => Ask::Enable,
        }
    }

    fn data(&mut self, rng: &mut Rng) -> Ask {
        match rng.below(20) {
            0..=4 => Ask::Range(range(rng)),
            5 => Ask::RangeStream(range(rng)),
            6..=9 => Ask::Put(self.put(rng)),
            10 | 11 => Ask::Delete(delete(rng)),
            12..=14 => Ask::Txn(self.txn(rng, 2)),
            15 => {
                let (key, end) = *rng.pick(&RANGES);
                Ask::Watch { key, end }
            }
            16 => {
                self.granted += 1;
                Ask::Grant(self.granted)
            }
            17 => Ask::Renew(self.lease(rng)),
            18 => Ask::TimeToLive { id: self.lease(rng), keys: rng.percent(70) },
            _ => match rng.below(4) {
                0 => Ask::Revoke(self.lease(rng)),
                1 => Ask::Lock(name(rng)),
                2 => Ask::Leader(name(rng)),
                _ => Ask::Leases,
            },
        }
    }

    /// One of the last leases, or one that never was.
    fn lease(&self, rng: &mut Rng) -> i64 {
        rng.between((self.granted - 4).max(1), self.granted + 1)
    }

    fn put(&self, rng: &mut Rng) -> pb::PutRequest {
        pb::PutRequest {
            key: (*rng.pick(&KEYS)).into(),
            value: "value".into(),
            lease: if rng.percent(25) { self.lease(rng) } else { 0 },
            prev_kv: rng.percent(30),
            ..Default::default()
        }
    }

    fn txn(&self, rng: &mut Rng, depth: usize) -> pb::TxnRequest {
        let compare = (0..rng.below(2)).map(|_| compare(rng)).collect();
        let success = self.ops(rng, depth);
        let failure = if rng.percent(40) { self.ops(rng, depth) } else { Vec::new() };
        pb::TxnRequest { compare, success, failure }
    }

    fn ops(&self, rng: &mut Rng, depth: usize) -> Vec<pb::RequestOp> {
        let count = rng.below(3);
        let op = |_| {
            let request = match rng.below(if depth > 0 { 5 } else { 4 }) {
                0 | 1 => Op::RequestRange(range(rng)),
                2 => Op::RequestPut(self.put(rng)),
                3 => Op::RequestDeleteRange(delete(rng)),
                _ => Op::RequestTxn(self.txn(rng, depth - 1)),
            };
            pb::RequestOp { request: Some(request) }
        };
        (0..count).map(op).collect()
    }
}

/// Of a lock or an election.
fn name(rng: &mut Rng) -> &'static str {
    if rng.percent(50) { "a/1" } else { "c" }
}

fn user_add(name: &str, password: &str, no_password: bool) -> pb::AuthUserAddRequest {
    let options = Some(authpb::UserAddOptions { no_password });
    pb::AuthUserAddRequest {
        name: name.into(),
        password: password.into(),
        options,
        hashed_password: String::new(),
    }
}

fn permission(rng: &mut Rng) -> Option<authpb::Permission> {
    let (key, end) = match rng.below(20) {
        0 => return None,
        1 => *rng.pick(&[("", ""), ("b", "a"), ("", "\0")]),
        _ => *rng.pick(&PERMITTED),
    };
    let perm_type = rng.weighted(&[(3, 0), (3, 1), (4, 2)]);
    Some(authpb::Permission { perm_type, key: key.into(), range_end: end.into() })
}

fn range(rng: &mut Rng) -> pb::RangeRequest {
    let (key, end) = *rng.pick(&RANGES);
    let serializable = rng.percent(20);
    pb::RangeRequest { key: key.into(), range_end: end.into(), serializable, ..Default::default() }
}

fn delete(rng: &mut Rng) -> pb::DeleteRangeRequest {
    let (key, end) = *rng.pick(&RANGES);
    pb::DeleteRangeRequest { key: key.into(), range_end: end.into(), prev_kv: rng.percent(30) }
}

fn compare(rng: &mut Rng) -> pb::Compare {
    let (key, end) = *rng.pick(&RANGES);
    pb::Compare {
        result: CompareResult::Greater.into(),
        target: CompareTarget::Version.into(),
        key: key.into(),
        range_end: end.into(),
        target_union: Some(TargetUnion::Version(0)),
    }
}

fn administration(rng: &mut Rng) -> Ask {
    match rng.below(14) {
        0 => Ask::MemberList,
        1 => Ask::MemberAdd,
        2 => Ask::MemberRemove,
        3..=5 => Ask::Alarm { action: rng.between(0, 2) },
        6 => Ask::ServerStatus,
        7 => Ask::HashKv,
        8 => Ask::Hash,
        9 => Ask::Defragment,
        10 => Ask::MoveLeader,
        11 => Ask::Downgrade,
        12 => Ask::Compact(1),
        _ => Ask::Snapshot,
    }
}
