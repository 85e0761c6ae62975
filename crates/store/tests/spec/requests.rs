//! Random requests over a key space small enough that everything collides.

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use vetch_store::request::*;
use vetch_store::{StoreError, validate};

pub(crate) fn key() -> impl Strategy<Value = Bytes> {
    let keys: [&'static [u8]; 9] = [b"a", b"a\0", b"ab", b"b", b"c", b"d", b"e", b"\xff", b"\0"];
    proptest::sample::select(keys.to_vec()).prop_map(Bytes::from_static)
}

/// Single keys, open ends, prefixes, inverted and empty ranges.
pub(crate) fn key_range() -> impl Strategy<Value = KeyRange> {
    let end = prop_oneof![
        3 => Just(Bytes::new()),
        2 => Just(Bytes::from_static(b"\0")),
        4 => key(),
        1 => Just(Bytes::from_static(b"\xff\xff")),
    ];
    (key(), end).prop_map(|(key, range_end)| KeyRange { key, range_end })
}

fn value() -> impl Strategy<Value = Bytes> {
    proptest::sample::select(vec!["", "x", "y", "zz"]).prop_map(Bytes::from)
}

/// None most of the time: one lease that does not exist refuses a whole transaction.
fn lease() -> impl Strategy<Value = i64> {
    prop_oneof![12 => Just(0i64), 4 => 1i64..4, 1 => Just(-5i64)]
}

fn put() -> impl Strategy<Value = PutRequest> {
    let flags = (any::<bool>(), 0u8..16);
    (key(), value(), lease(), flags).prop_map(|(key, value, lease, (prev_kv, keep))| {
        let (ignore_value, ignore_lease) = (keep == 1 || keep == 3, keep == 2 || keep == 3);
        let value = if ignore_value { Bytes::new() } else { value };
        let lease = if ignore_lease { 0 } else { lease };
        PutRequest { key, value, lease, prev_kv, ignore_value, ignore_lease }
    })
}

/// Mostly of one key, or nothing would ever grow.
fn delete() -> impl Strategy<Value = DeleteRangeRequest> {
    let range = prop_oneof![3 => key().prop_map(KeyRange::single), 1 => key_range()];
    (range, any::<bool>()).prop_map(|(range, prev_kv)| DeleteRangeRequest { range, prev_kv })
}

/// None most of the time: a bound far from every revision makes the rest of the request moot.
fn bounds() -> impl Strategy<Value = (i64, i64, i64, i64)> {
    let bound = || prop_oneof![6 => Just(0i64), 2 => 1i64..12, 1 => Just(-1i64), 1 => 12i64..60];
    prop_oneof![2 => Just((0, 0, 0, 0)), 1 => (bound(), bound(), bound(), bound())]
}

pub(crate) fn range_request() -> impl Strategy<Value = RangeRequest> {
    let limit = prop_oneof![4 => Just(0i64), 4 => 1i64..5, 1 => Just(-3i64), 1 => Just(i64::MAX)];
    let revision = prop_oneof![5 => Just(0i64), 5 => 1i64..1000, 1 => -2i64..0];
    let orders = vec![SortOrder::None, SortOrder::None, SortOrder::Ascend, SortOrder::Descend];
    let targets =
        vec![SortTarget::Key, SortTarget::Version, SortTarget::Create, SortTarget::Mod, SortTarget::Value];
    let sort = (proptest::sample::select(orders), proptest::sample::select(targets));
    let range = prop_oneof![2 => key_range(), 1 => Just(KeyRange::new("\0", "\0"))];
    (range, limit, revision, sort, 0u8..6, bounds()).prop_map(
        |(range, limit, revision, (sort_order, sort_target), only, bounds)| RangeRequest {
            limit,
            revision,
            sort_order,
            sort_target,
            keys_only: only == 0,
            count_only: only == 1,
            min_mod_revision: bounds.0,
            max_mod_revision: bounds.1,
            min_create_revision: bounds.2,
            max_create_revision: bounds.3,
            ..RangeRequest::new(range)
        },
    )
}

fn compare() -> impl Strategy<Value = Compare> {
    let results = vec![
        CompareResult::Equal,
        CompareResult::Greater,
        CompareResult::Less,
        CompareResult::NotEqual,
        CompareResult::Unknown,
    ];
    let target = prop_oneof![
        (0i64..4).prop_map(CompareTarget::Version),
        (0i64..20).prop_map(CompareTarget::Create),
        (0i64..20).prop_map(CompareTarget::Mod),
        value().prop_map(CompareTarget::Value),
        lease().prop_map(CompareTarget::Lease),
        Just(CompareTarget::Unknown),
    ];
    (key_range(), proptest::sample::select(results), target).prop_map(|(range, result, target)| Compare {
        range,
        result,
        target,
    })
}

pub(crate) fn read_txn() -> impl Strategy<Value = TxnRequest> {
    let reads = || vec(range_request().prop_map(RequestOp::Range), 0..3);
    (vec(compare(), 0..3), reads(), reads()).prop_map(|(compare, success, failure)| TxnRequest {
        compare,
        success,
        failure,
    })
}

fn leaf_op() -> impl Strategy<Value = RequestOp> {
    // Ranges in write transactions read the newest revision more often, or few transactions would
    // pass.
    let range = (range_request(), 0u8..2).prop_map(|(mut range, old)| {
        range.revision = if old == 0 { range.revision } else { 0 };
        range
    });
    prop_oneof![
        30 => put().prop_map(RequestOp::Put),
        20 => delete().prop_map(RequestOp::DeleteRange),
        20 => range.prop_map(RequestOp::Range),
        1 => Just(RequestOp::Empty),
    ]
}

pub(crate) fn txn() -> impl Strategy<Value = TxnRequest> {
    let op = leaf_op().prop_recursive(2, 12, 3, |op| {
        (vec(compare(), 0..2), vec(op.clone(), 0..3), vec(op, 0..3))
            .prop_map(|(compare, success, failure)| RequestOp::Txn(TxnRequest { compare, success, failure }))
    });
    (vec(compare(), 0..3), vec(op.clone(), 0..5), vec(op, 0..4))
        .prop_map(|(compare, success, failure)| TxnRequest { compare, success, failure })
}

fn alarm() -> impl Strategy<Value = Alarm> {
    (1u64..3, proptest::sample::select(vec![AlarmKind::NoSpace, AlarmKind::Corrupt]))
        .prop_map(|(member, kind)| Alarm { member, kind })
}

/// A write that may be malformed.
#[derive(Debug, Clone)]
pub(crate) enum Write {
    Put(PutRequest),
    DeleteRange(DeleteRangeRequest),
    Txn(TxnRequest),
    Other(WriteRequest),
}

impl Write {
    pub(crate) fn validate(self, max_ops: usize) -> Result<WriteRequest, StoreError> {
        Ok(match self {
            Write::Put(put) => WriteRequest::Put(validate::put(put)?),
            Write::DeleteRange(delete) => WriteRequest::DeleteRange(validate::delete_range(delete)?),
            Write::Txn(txn) => WriteRequest::Txn(validate::txn(txn, max_ops)?),
            Write::Other(request) => request,
        })
    }
}

/// Something to work on: most keys, and some leases.
pub(crate) fn beginning() -> impl Strategy<Value = Vec<Write>> {
    let put = (key(), value()).prop_map(|(key, value)| {
        let (lease, prev_kv, ignore_value, ignore_lease) = (0, false, false, false);
        Write::Put(PutRequest { key, value, lease, prev_kv, ignore_value, ignore_lease })
    });
    let grant = (1i64..4).prop_map(|id| Write::Other(WriteRequest::LeaseGrant { id, ttl: 60 }));
    vec(prop_oneof![4 => put, 1 => grant], 0..16)
}

pub(crate) fn write() -> impl Strategy<Value = Write> {
    let id = || prop_oneof![1i64..4, Just(-5i64)];
    let ttl = prop_oneof![9 => 1i64..100, 1 => Just(9_000_000_001i64)];
    let lease_time = (id(), 0i64..50).prop_map(|(id, seconds)| Remaining { id, grant: 0, seconds });
    let remaining = vec(lease_time, 0..3);
    let grant = prop_oneof![Just(0), Just(u64::MAX)];
    let other = prop_oneof![
        4 => (-1i64..1000).prop_map(|revision| WriteRequest::Compact { revision }),
        6 => (id(), ttl).prop_map(|(id, ttl)| WriteRequest::LeaseGrant { id, ttl }),
        3 => id().prop_map(|id| WriteRequest::LeaseRevoke { id }),
        2 => (id(), grant).prop_map(|(id, grant)| WriteRequest::LeaseExpire { id, grant }),
        1 => remaining.prop_map(|leases| WriteRequest::LeaseRemaining { leases }),
        1 => alarm().prop_map(WriteRequest::AlarmActivate),
        1 => alarm().prop_map(WriteRequest::AlarmDeactivate),
    ];
    prop_oneof![
        20 => put().prop_map(Write::Put),
        8 => delete().prop_map(Write::DeleteRange),
        24 => txn().prop_map(Write::Txn),
        18 => other.prop_map(Write::Other),
    ]
}

/// Revisions are generated as large numbers; here they become ones that exist at `head`, or are
/// just one too large.
pub(crate) fn fit(request: &mut Write, head: i64) {
    match request {
        Write::Txn(txn) => fit_txn(txn, head),
        Write::Other(WriteRequest::Compact { revision }) if *revision > 0 => *revision %= head + 2,
        _ => {}
    }
}

pub(crate) fn fit_txn(txn: &mut TxnRequest, head: i64) {
    for op in txn.success.iter_mut().chain(&mut txn.failure) {
        match op {
            RequestOp::Range(range) => fit_revision(&mut range.revision, head),
            RequestOp::Txn(nested) => fit_txn(nested, head),
            _ => {}
        }
    }
}

/// Most reads are of the last two revisions: what a transaction has just changed must not show in
/// them.
pub(crate) fn fit_revision(revision: &mut i64, head: i64) {
    if *revision > 0 {
        let recent = (head - *revision / 4 % 2).max(1);
        *revision = if *revision % 4 == 0 { *revision % (head + 2) } else { recent };
    }
}

/// Makes a request mean the leases that exist now, where it does not mean one that is no more.
pub(crate) fn aim(request: &mut Write, leases: &vetch_store::lease::Leases) {
    let grant_of = |id: i64| leases.get(id).map_or(0, |lease| lease.grant());
    match request {
        Write::Other(WriteRequest::LeaseExpire { id, grant }) if *grant == 0 => *grant = grant_of(*id),
        Write::Other(WriteRequest::LeaseRemaining { leases }) => {
            leases.iter_mut().for_each(|lease| lease.grant = grant_of(lease.id));
        }
        _ => {}
    }
}
