//! Users, and who decides what they may do: permissions change while they are used.
//!
//! One client changes users, roles and permissions, one change at a time; others read and write in
//! the name of users. What was let through and what was not goes into the history, beside what each
//! request did.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use vetch_check::{Access, Fact, Outcome};
use vetch_model::{Delete, Keys, Op, Put, Range, Request, Txn};
use vetch_node::Node;
use vetch_node::error::NodeError;
use vetch_store::StoreError;
use vetch_store::auth::{AuthError, Caller, Change, Permission, PermissionKind, ROOT};

use crate::client;
use crate::coverage::Rare;
use crate::env::{Env, Phase};
use crate::operator;
use crate::time::{MILLI, SECOND};
use crate::trace::say;
use crate::workload::How;
use vetch_testkit::random::Rng;

const USERS: [&str; 2] = ["ann", "bob"];
const ROLES: [&str; 2] = ["some", "others"];
/// All keys that begin with one of these.
const AREAS: &[u8] = b"abc";

/// What survives the server.
pub(crate) struct Office {
    rng: Rng,
    made: u64,
    /// What was last said to each user about each area, for reading and for writing.
    outcomes: BTreeMap<(&'static str, u8, bool), bool>,
}

pub(crate) type Memory = Rc<RefCell<Office>>;

pub(crate) fn office(rng: Rng) -> Memory {
    Rc::new(RefCell::new(Office { rng, made: 0, outcomes: BTreeMap::new() }))
}

/// Changes what users may do until the load is over.
pub(crate) async fn decide(env: Rc<Env>, node: Node, memory: Memory) {
    for change in beginning() {
        make(&env, &node, change, Vec::new()).await;
    }
    while env.phase.get() == Phase::Load {
        let think = memory.borrow_mut().rng.skewed(1, 2 * env.plan.think_nanos);
        env.clock.sleep(think).await;
        if env.phase.get() != Phase::Load || env.knowledge.borrow().answers >= env.plan.requests {
            break;
        }
        let (change, facts) = memory.borrow_mut().change();
        make(&env, &node, change, facts).await;
    }
}

/// What has to be there before authentication can be switched on. That it is there already is no
/// matter.
fn beginning() -> Vec<Change> {
    let role = |name: &str| Change::RoleAdd { name: name.to_owned() };
    vec![
        user(ROOT),
        Change::UserGrantRole { user: ROOT.to_owned(), role: ROOT.to_owned() },
        role(ROLES[0]),
        role(ROLES[1]),
    ]
}

fn user(name: &str) -> Change {
    Change::UserAdd { name: name.to_owned(), password: None, no_password: true }
}

/// Makes a change and records which facts it decides.
async fn make(env: &Rc<Env>, node: &Node, change: Change, facts: Vec<(Fact, bool)>) {
    let place = env.recorder.borrow_mut().access_change(env.now(), facts);
    say!(env.trace, "office: {change:?}");
    let outcome = match node.change_auth(change).await {
        Err(NodeError::Store(StoreError::Auth(_))) => Outcome::NotDone,
        result => operator::done(env, result),
    };
    say!(env.trace, "office gets {outcome:?}");
    env.recorder.borrow_mut().access_changed(env.now(), place, &outcome);
}

fn area(first: u8) -> (Vec<u8>, Vec<u8>) {
    (vec![first], vec![first + 1])
}

impl Office {
    fn change(&mut self) -> (Change, Vec<(Fact, bool)>) {
        let rng = &mut self.rng;
        let (name, role) = (rng.pick(&USERS).to_string(), rng.pick(&ROLES).to_string());
        let keys = area(*rng.pick(AREAS));
        let has = |name: &str, role: &str| Fact::Role(name.to_owned(), role.to_owned());
        let may = |write| Fact::Permission { role: role.clone(), keys: keys.clone(), write };
        match rng.below(20) {
            0..=2 => (Change::Enable, vec![(Fact::Enabled, true)]),
            3 => (Change::Disable, vec![(Fact::Enabled, false)]),
            4..=6 => (user(&name), vec![(Fact::User(name), true)]),
            7 => {
                let roles = ROLES.map(|role| (has(&name, role), false));
                let facts = roles.into_iter().chain([(Fact::User(name.clone()), false)]).collect();
                (Change::UserDelete { name }, facts)
            }
            8..=10 => {
                let facts = vec![(has(&name, &role), true)];
                (Change::UserGrantRole { user: name, role }, facts)
            }
            11 | 12 => {
                let facts = vec![(has(&name, &role), false)];
                (Change::UserRevokeRole { user: name, role }, facts)
            }
            13..=16 => {
                let kind =
                    *rng.pick(&[PermissionKind::Read, PermissionKind::Write, PermissionKind::ReadWrite]);
                // A permission takes the place of the one for the same keys.
                let facts = vec![
                    (may(false), kind != PermissionKind::Write),
                    (may(true), kind != PermissionKind::Read),
                ];
                let permission =
                    Permission { kind, key: Bytes::from(keys.0.clone()), range_end: keys.1.clone().into() };
                (Change::RoleGrantPermission { role: role.clone(), permission: Some(permission) }, facts)
            }
            _ => {
                let facts = vec![(may(false), false), (may(true), false)];
                let (key, range_end) = (keys.0.clone().into(), keys.1.clone().into());
                (Change::RoleRevokePermission { role: role.clone(), key, range_end }, facts)
            }
        }
    }

    /// A request that needs one permission: to read or to write in one area.
    fn request(&mut self, env: &Env, first: u8, write: bool) -> (Request, Keys) {
        self.made += 1;
        let rng = &mut self.rng;
        let inside: Vec<&Vec<u8>> = env.plan.keys.iter().filter(|key| key.first() == Some(&first)).collect();
        let key = if inside.is_empty() { vec![first, b'/'] } else { (*rng.pick(&inside)).clone() };
        let all = Keys::between([first], [first + 1]);
        let keys = if rng.one_in(3) { all } else { Keys::single(key.clone()) };
        let put = Put::new(key.clone(), format!("user.{}", self.made).into_bytes());
        match (write, rng.below(4)) {
            (false, _) => {
                let serializable = rng.one_in(3);
                (Request::Range(Range { serializable, ..Range::new(keys.clone()) }), keys)
            }
            (true, 0) => (Request::Delete(Delete { keys: keys.clone(), prev_kv: false }), keys),
            (true, 1) => {
                let txn = Txn { success: vec![Op::Put(put)], ..Txn::default() };
                (Request::Txn(txn), Keys::single(key))
            }
            (true, _) => (Request::Put(put), Keys::single(key)),
        }
    }

    /// Remembers whether a user was permitted; returns the last outcome.
    fn tell(&mut self, user: &'static str, first: u8, write: bool, granted: bool) -> Option<bool> {
        self.outcomes.insert((user, first, write), granted)
    }
}

/// Reads and writes in the name of users until the load is over.
pub(crate) async fn act(env: Rc<Env>, node: Node, client: u32, memory: Memory) {
    while env.phase.get() == Phase::Load {
        let think = memory.borrow_mut().rng.skewed(1, env.plan.think_nanos);
        env.clock.sleep(think).await;
        if env.phase.get() != Phase::Load || env.knowledge.borrow().answers >= env.plan.requests {
            break;
        }
        one(&env, &node, client, &memory).await;
    }
}

async fn one(env: &Rc<Env>, node: &Node, client: u32, memory: &Memory) {
    let (user, first, write, request, keys) = {
        let mut office = memory.borrow_mut();
        let user = *office.rng.pick(&USERS);
        let (first, write) = (*office.rng.pick(AREAS), office.rng.one_in(2));
        let (request, keys) = office.request(env, first, write);
        (user, first, write, request, keys)
    };
    // As a server does with a token that is still good.
    let caller = Caller::user(user, node.auth().revision().max(1));
    let node = node.for_caller(caller);
    let refused = RefCell::new(false);
    let served = async {
        client::serve(env, &node, &request, How::Plain).await.map_err(|error| match error {
            NodeError::Store(StoreError::Auth(why)) => {
                *refused.borrow_mut() = why == AuthError::PermissionDenied;
                Outcome::NotDone
            }
            error => client::not_served(env, &error),
        })
    };
    say!(env.trace, "{user} asks {request:?}");
    let place = env.recorder.borrow().next_place();
    let outcome = client::record(env, client, &request, 20 * SECOND, served).await;
    let granted = match outcome {
        Outcome::Answered { .. } | Outcome::Refused(_) => true,
        Outcome::NotDone if *refused.borrow() => false,
        // Changed meanwhile, or nothing to do with the user.
        Outcome::NotDone | Outcome::Unknown => {
            env.clock.sleep(MILLI).await;
            return;
        }
    };
    let access = Access { called: 0, returned: 0, user: user.to_owned(), keys, write, granted };
    env.recorder.borrow_mut().access(place, env.now(), access);
    match (memory.borrow_mut().tell(user, first, write, granted), granted) {
        (Some(true), false) => env.hit(Rare::AccessLost),
        (Some(false), true) => env.hit(Rare::AccessWon),
        _ => {}
    }
}
