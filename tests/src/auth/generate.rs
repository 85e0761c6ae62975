//! Requests at random: enough management to keep permissions moving, and everything they decide
//! about.

use vetch_api::pb::compare::{CompareResult, CompareTarget, TargetUnion};
use vetch_api::pb::request_op::Request as Op;
use vetch_api::{authpb, pb};

use super::{Ask, Request};
use crate::chance::Chance;

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

    pub(crate) fn request(&mut self, chance: &mut Chance) -> Request {
        // Without root there is nothing to try for long.
        let ask = if !self.enabled && chance.percent(25) {
            self.towards_enabled(chance)
        } else if self.enabled && chance.percent(20) {
            let user = *chance.pick(&USERS);
            Ask::LogIn { user, password: chance.weighted(&[(8, "pw"), (1, "other"), (1, "")]) }
        } else if chance.percent(30) {
            self.management(chance)
        } else if chance.percent(75) {
            self.data(chance)
        } else {
            administration(chance)
        };
        let by = self.caller(chance, &ask);
        Request { by, ask }
    }

    fn caller(&self, chance: &mut Chance, ask: &Ask) -> &'static str {
        let is_management = !matches!(
            ask,
            Ask::Range(_)
                | Ask::Put(_)
                | Ask::Delete(_)
                | Ask::Txn(_)
                | Ask::Watch { .. }
                | Ask::RangeStream(_)
        );
        match chance.below(20) {
            0 => "",
            1 => "?",
            n if n < 14 && is_management => "root",
            _ => USERS[chance.below(USERS.len())],
        }
    }

    fn towards_enabled(&mut self, chance: &mut Chance) -> Ask {
        match chance.below(3) {
            0 => Ask::UserAdd(user_add("root", "pw", false)),
            1 => Ask::GrantRole { user: "root", role: "root" },
            _ => Ask::Enable,
        }
    }

    fn management(&mut self, chance: &mut Chance) -> Ask {
        let user = *chance.pick(&USERS);
        let role = *chance.pick(&ROLES);
        match chance.below(30) {
            0..=3 => {
                let password = *chance.pick(&PASSWORDS);
                Ask::UserAdd(user_add(user, password, chance.percent(10)))
            }
            4 => Ask::UserDelete(user),
            5 => Ask::Password(pb::AuthUserChangePasswordRequest {
                name: user.into(),
                password: chance.weighted(&[(6, "pw"), (1, "")]).into(),
                hashed_password: chance.weighted(&[(3, ""), (1, "no base64!")]).into(),
            }),
            6..=10 => Ask::GrantRole { user, role },
            11 => Ask::RevokeRole { user, role },
            12..=14 => Ask::RoleAdd(role),
            15 => Ask::RoleDelete(role),
            16..=21 => Ask::Permit { role, permission: permission(chance) },
            22 | 23 => {
                let (key, end) = *chance.pick(&PERMITTED);
                Ask::Forbid { role, key, end }
            }
            24 => Ask::UserGet(user),
            25 => Ask::RoleGet(role),
            26 => Ask::UserList,
            27 => Ask::RoleList,
            28 => Ask::Status,
            _ if chance.percent(20) => Ask::Disable,
            _ => Ask::Enable,
        }
    }

    fn data(&mut self, chance: &mut Chance) -> Ask {
        match chance.below(20) {
            0..=4 => Ask::Range(range(chance)),
            5 => Ask::RangeStream(range(chance)),
            6..=9 => Ask::Put(self.put(chance)),
            10 | 11 => Ask::Delete(delete(chance)),
            12..=14 => Ask::Txn(self.txn(chance, 2)),
            15 => {
                let (key, end) = *chance.pick(&RANGES);
                Ask::Watch { key, end }
            }
            16 => {
                self.granted += 1;
                Ask::Grant(self.granted)
            }
            17 => Ask::Renew(self.lease(chance)),
            18 => Ask::TimeToLive { id: self.lease(chance), keys: chance.percent(70) },
            _ => match chance.below(4) {
                0 => Ask::Revoke(self.lease(chance)),
                1 => Ask::Lock(name(chance)),
                2 => Ask::Leader(name(chance)),
                _ => Ask::Leases,
            },
        }
    }

    /// One of the last leases, or one that never was.
    fn lease(&self, chance: &mut Chance) -> i64 {
        chance.between((self.granted - 4).max(1), self.granted + 1)
    }

    fn put(&self, chance: &mut Chance) -> pb::PutRequest {
        pb::PutRequest {
            key: (*chance.pick(&KEYS)).into(),
            value: "value".into(),
            lease: if chance.percent(25) { self.lease(chance) } else { 0 },
            prev_kv: chance.percent(30),
            ..Default::default()
        }
    }

    fn txn(&self, chance: &mut Chance, depth: usize) -> pb::TxnRequest {
        let compare = (0..chance.below(2)).map(|_| compare(chance)).collect();
        let success = self.ops(chance, depth);
        let failure = if chance.percent(40) { self.ops(chance, depth) } else { Vec::new() };
        pb::TxnRequest { compare, success, failure }
    }

    fn ops(&self, chance: &mut Chance, depth: usize) -> Vec<pb::RequestOp> {
        let count = chance.below(3);
        let op = |_| {
            let request = match chance.below(if depth > 0 { 5 } else { 4 }) {
                0 | 1 => Op::RequestRange(range(chance)),
                2 => Op::RequestPut(self.put(chance)),
                3 => Op::RequestDeleteRange(delete(chance)),
                _ => Op::RequestTxn(self.txn(chance, depth - 1)),
            };
            pb::RequestOp { request: Some(request) }
        };
        (0..count).map(op).collect()
    }
}

/// Of a lock or an election.
fn name(chance: &mut Chance) -> &'static str {
    if chance.percent(50) { "a/1" } else { "c" }
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

fn permission(chance: &mut Chance) -> Option<authpb::Permission> {
    let (key, end) = match chance.below(20) {
        0 => return None,
        1 => *chance.pick(&[("", ""), ("b", "a"), ("", "\0")]),
        _ => *chance.pick(&PERMITTED),
    };
    let perm_type = chance.weighted(&[(3, 0), (3, 1), (4, 2)]);
    Some(authpb::Permission { perm_type, key: key.into(), range_end: end.into() })
}

fn range(chance: &mut Chance) -> pb::RangeRequest {
    let (key, end) = *chance.pick(&RANGES);
    let serializable = chance.percent(20);
    pb::RangeRequest { key: key.into(), range_end: end.into(), serializable, ..Default::default() }
}

fn delete(chance: &mut Chance) -> pb::DeleteRangeRequest {
    let (key, end) = *chance.pick(&RANGES);
    pb::DeleteRangeRequest { key: key.into(), range_end: end.into(), prev_kv: chance.percent(30) }
}

fn compare(chance: &mut Chance) -> pb::Compare {
    let (key, end) = *chance.pick(&RANGES);
    pb::Compare {
        result: CompareResult::Greater.into(),
        target: CompareTarget::Version.into(),
        key: key.into(),
        range_end: end.into(),
        target_union: Some(TargetUnion::Version(0)),
    }
}

fn administration(chance: &mut Chance) -> Ask {
    match chance.below(14) {
        0 => Ask::MemberList,
        1 => Ask::MemberAdd,
        2 => Ask::MemberRemove,
        3..=5 => Ask::Alarm { action: chance.between(0, 2) as i32 },
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
