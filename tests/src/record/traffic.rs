//! Which requests clients make: a mixture that Kubernetes, etcdctl and the authors of locks would
//! recognise.
//!
//! Few keys, so that clients get into each other's way; every value written is unique, so that each
//! event can be traced to the one request that caused it.

use std::collections::HashMap;

use vetch_check::Outcome;
use vetch_model::{
    Answer, Compare, CompareResult, CompareTarget, Delete, Keys, Op, OpAnswer, Put, Range, Request,
    SortOrder, SortTarget, Txn,
};

use super::Plan;
use super::send::Way;
use super::shared::Shared;
use super::values;
use vetch_testkit::random::Rng;

const KINDS: [&str; 3] = ["leases", "nodes", "pods"];

/// What one client remembers of keys, as a controller does: it updates what it last saw.
pub(super) type Memory = HashMap<Vec<u8>, i64>;

#[derive(Clone, Copy)]
enum Shape {
    Put,
    Update,
    Create,
    DeleteUnchanged,
    Several,
    Delete,
    DeleteRange,
    Get,
    List,
    Past,
}

const MIXTURE: [(usize, Shape); 10] = [
    (22, Shape::Put),
    (20, Shape::Update),
    (6, Shape::Create),
    (4, Shape::DeleteUnchanged),
    (10, Shape::Several),
    (5, Shape::Delete),
    (3, Shape::DeleteRange),
    (14, Shape::Get),
    (10, Shape::List),
    (6, Shape::Past),
];

/// The next request of a client.
pub(super) fn request(shared: &Shared, rng: &mut Rng, memory: &Memory) -> (Request, Way) {
    let plan = &shared.plan;
    let key = key(plan, rng);
    if plan.only_writes {
        let delete = Delete { keys: Keys::single(key.clone()), prev_kv: false };
        let request = match rng.percent(40) {
            true => Request::Delete(delete),
            false => Request::Put(new_put(shared, rng, key)),
        };
        return (request, Way::Unary);
    }
    let known = memory.get(&key).copied().unwrap_or(0);
    let request = match rng.weighted(&MIXTURE) {
        Shape::Put => {
            let mut put = new_put(shared, rng, key);
            put.prev_kv = rng.percent(30);
            put.ignore_lease = rng.percent(4);
            Request::Put(put)
        }
        Shape::Update => {
            let put = Op::Put(new_put(shared, rng, key.clone()));
            Request::Txn(unchanged(key, known, put))
        }
        Shape::Create => {
            let put = Op::Put(new_put(shared, rng, key.clone()));
            Request::Txn(unchanged(key, 0, put))
        }
        Shape::DeleteUnchanged => {
            let delete = Op::Delete(Delete { keys: Keys::single(key.clone()), prev_kv: rng.percent(50) });
            Request::Txn(unchanged(key, known, delete))
        }
        Shape::Several => Request::Txn(several(shared, rng)),
        Shape::Delete => Request::Delete(Delete { keys: Keys::single(key), prev_kv: rng.percent(50) }),
        Shape::DeleteRange => {
            Request::Delete(Delete { keys: some_keys(plan, rng), prev_kv: rng.percent(50) })
        }
        Shape::Get => {
            let serializable = rng.percent(30);
            Request::Range(Range { serializable, ..Range::new(Keys::single(key)) })
        }
        Shape::List => return list(plan, rng),
        Shape::Past => past(shared, rng),
    };
    (request, Way::Unary)
}

/// Everything there is, a hundred times over: an answer that takes its time.
pub(super) fn long_read() -> Request {
    let everything = Op::Range(Range::new(Keys::all()));
    Request::Txn(Txn { success: vec![everything; 100], ..Txn::default() })
}

/// Learns from an answer which revision a key was last changed at.
pub(super) fn learn(memory: &mut Memory, outcome: &Outcome) {
    let Outcome::Answered { answer, .. } = outcome else { return };
    let kvs = match answer {
        Answer::Range(ranged) => &ranged.kvs,
        Answer::Txn(txn) => match txn.responses.first() {
            Some(OpAnswer::Range(ranged)) => &ranged.kvs,
            _ => return,
        },
        _ => return,
    };
    memory.extend(kvs.iter().map(|kv| (kv.key.clone(), kv.mod_revision)));
}

fn key(plan: &Plan, rng: &mut Rng) -> Vec<u8> {
    let kind = *rng.pick(&KINDS);
    format!("/registry/{kind}/{:03}", rng.below(plan.keys.div_ceil(KINDS.len()))).into_bytes()
}

/// All of one kind, a part of it, everything from a key on, or everything.
pub(super) fn some_keys(plan: &Plan, rng: &mut Rng) -> Keys {
    let kind = *rng.pick(&KINDS);
    let prefix = format!("/registry/{kind}/");
    match rng.below(10) {
        0..=3 => Keys::between(prefix.clone(), format!("/registry/{kind}0")),
        4..=8 => {
            let first = rng.below(plan.keys);
            Keys::between(format!("{prefix}{first:03}"), format!("{prefix}{:03}", first + 3))
        }
        _ => Keys::between(format!("/registry/{kind}/001"), [0]),
    }
}

pub(super) fn new_put(shared: &Shared, rng: &mut Rng, key: Vec<u8>) -> Put {
    let length = if rng.percent(shared.plan.large_percent) { shared.plan.large_bytes } else { 0 };
    Put::new(key, values::name(shared.new_value(), length))
}

/// Kubernetes' compare-and-swap: act if the key is as it was last seen, else say how it is now.
fn unchanged(key: Vec<u8>, known: i64, act: Op) -> Txn {
    let keys = Keys::single(key);
    Txn {
        compare: vec![Compare {
            keys: keys.clone(),
            result: CompareResult::Equal,
            target: CompareTarget::Mod(known),
        }],
        success: vec![act],
        failure: vec![Op::Range(Range::new(keys))],
    }
}

/// Several operations at once, sometimes on a condition, sometimes with a transaction inside.
fn several(shared: &Shared, rng: &mut Rng) -> Txn {
    let plan = &shared.plan;
    let mut keys: Vec<_> = (0..4).map(|_| key(plan, rng)).collect();
    keys.sort();
    keys.dedup();
    let mut txn = Txn::default();
    if rng.percent(40) {
        let result = *rng.pick(&[CompareResult::Greater, CompareResult::Less, CompareResult::NotEqual]);
        let target = match rng.below(3) {
            0 => CompareTarget::Version(rng.between(0, 5)),
            1 => CompareTarget::Create(shared.revision() - rng.between(0, 200)),
            _ => CompareTarget::Lease(0),
        };
        txn.compare.push(Compare { keys: Keys::single(key(plan, rng)), result, target });
    }
    for key in keys {
        let single = Keys::single(key.clone());
        let op = match rng.below(10) {
            0..=4 => Op::Put(new_put(shared, rng, key)),
            5..=6 => Op::Delete(Delete { keys: single, prev_kv: true }),
            7..=8 => Op::Range(Range::new(single)),
            _ => {
                let put = Op::Put(new_put(shared, rng, key));
                Op::Txn(Txn { success: vec![put], ..Txn::default() })
            }
        };
        txn.success.push(op);
    }
    txn.failure.push(Op::Range(Range { count_only: true, ..Range::new(Keys::all()) }));
    txn
}

fn list(plan: &Plan, rng: &mut Rng) -> (Request, Way) {
    let mut range = Range::new(some_keys(plan, rng));
    range.serializable = rng.percent(30);
    match rng.below(10) {
        0..=3 => range.limit = rng.between(1, 8),
        4 => range.keys_only = true,
        5 => range.count_only = true,
        _ => {}
    }
    if rng.percent(30) {
        return (Request::Range(range), Way::Stream);
    }
    if rng.percent(20) {
        range.sort_order = *rng.pick(&[SortOrder::Ascend, SortOrder::Descend]);
        let targets =
            [SortTarget::Key, SortTarget::Version, SortTarget::Create, SortTarget::Mod, SortTarget::Value];
        range.sort_target = *rng.pick(&targets);
    }
    (Request::Range(range), Way::Unary)
}

/// A look at the past, sometimes further back than there is anything left, sometimes into the
/// future.
fn past(shared: &Shared, rng: &mut Rng) -> Request {
    let mut range = Range::new(some_keys(&shared.plan, rng));
    range.revision = (shared.revision() - rng.between(-3, 300)).max(1);
    range.serializable = rng.percent(50);
    Request::Range(range)
}
