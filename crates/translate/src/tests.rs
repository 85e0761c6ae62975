use bytes::Bytes;
use vetch_api::pb;
use vetch_api::pb::compare::TargetUnion;
use vetch_api::pb::request_op::Request;
use vetch_api::wire::WireMessage;
use vetch_store::record::Fields;
use vetch_store::request::{
    CompareResult, CompareTarget, DeleteRangeResponse, PutResponse, RangeResponse, ResponseOp, SortOrder,
    SortTarget, TxnResponse,
};
use vetch_store::{Record, StoreError};

use super::{compare, range, txn, txn_done};

const UNDEFINED: i32 = 9;

fn record(key: &str, value: &str) -> Record {
    Record::new(Fields {
        key: key.as_bytes(),
        value: value.as_bytes(),
        create_revision: 2,
        mod_revision: 4,
        version: 3,
        lease: 7,
        sub: 0,
    })
}

fn op(request: Request) -> pb::RequestOp {
    pb::RequestOp { request: Some(request) }
}

fn get(key: &'static str, sort_order: i32) -> pb::RequestOp {
    op(Request::RequestRange(pb::RangeRequest { key: key.into(), sort_order, ..Default::default() }))
}

fn refusal(success: Vec<pb::RequestOp>, failure: Vec<pb::RequestOp>) -> StoreError {
    txn(pb::TxnRequest { compare: Vec::new(), success, failure }, 128).unwrap_err()
}

#[test]
fn a_range_keeps_every_field() {
    let request = pb::RangeRequest {
        key: "a".into(),
        range_end: "b".into(),
        limit: 1,
        revision: 2,
        sort_order: pb::range_request::SortOrder::Descend.into(),
        sort_target: pb::range_request::SortTarget::Mod.into(),
        serializable: true,
        keys_only: true,
        count_only: true,
        min_mod_revision: 3,
        max_mod_revision: 4,
        min_create_revision: 5,
        max_create_revision: 6,
    };
    let range = range(request).unwrap();
    assert_eq!((range.range.key.as_ref(), range.range.range_end.as_ref()), (&b"a"[..], &b"b"[..]));
    assert_eq!((range.limit, range.revision), (1, 2));
    assert_eq!((range.sort_order, range.sort_target), (SortOrder::Descend, SortTarget::Mod));
    assert!(range.serializable && range.keys_only && range.count_only);
    assert_eq!((range.min_mod_revision, range.max_mod_revision), (3, 4));
    assert_eq!((range.min_create_revision, range.max_create_revision), (5, 6));
}

#[test]
fn undefined_sort_options_are_refused_after_the_key_was_looked_at() {
    let ask = |key: &'static str, sort_order, sort_target| {
        range(pb::RangeRequest { key: key.into(), sort_order, sort_target, ..Default::default() }).map(|_| ())
    };
    assert_eq!(ask("a", UNDEFINED, 0), Err(StoreError::InvalidSortOption));
    assert_eq!(ask("a", 0, UNDEFINED), Err(StoreError::InvalidSortOption));
    assert_eq!(ask("", UNDEFINED, 0), Err(StoreError::EmptyKey));
    assert_eq!(ask("a", 2, 4), Ok(()));
}

#[test]
fn a_transaction_is_refused_for_the_first_thing_wrong_with_it() {
    let empty = || pb::RequestOp { request: None };
    assert_eq!(refusal(vec![get("a", UNDEFINED)], vec![]), StoreError::InvalidSortOption);
    assert_eq!(refusal(vec![empty(), get("a", UNDEFINED)], vec![]), StoreError::KeyNotFound);
    assert_eq!(refusal(vec![get("a", UNDEFINED), empty()], vec![]), StoreError::InvalidSortOption);
    assert_eq!(refusal(vec![get("", UNDEFINED)], vec![]), StoreError::EmptyKey);
    assert_eq!(refusal(vec![get("", 0)], vec![get("a", UNDEFINED)]), StoreError::EmptyKey);

    let nested = pb::TxnRequest { failure: vec![get("a", UNDEFINED)], ..Default::default() };
    assert_eq!(
        refusal(vec![op(Request::RequestTxn(nested)), empty()], vec![]),
        StoreError::InvalidSortOption
    );

    let request = pb::TxnRequest {
        compare: vec![pb::Compare::default()],
        success: vec![get("a", UNDEFINED)],
        ..Default::default()
    };
    assert_eq!(txn(request, 128), Err(StoreError::EmptyKey));
}

#[test]
fn the_operand_of_a_compare_counts_only_for_its_own_target() {
    let target = |target: i32, target_union: Option<TargetUnion>| {
        compare(pb::Compare { target, target_union, ..Default::default() }).target
    };
    let value = || Some(TargetUnion::Value("v".into()));
    assert_eq!(target(0, Some(TargetUnion::Version(5))), CompareTarget::Version(5));
    assert_eq!(target(1, Some(TargetUnion::CreateRevision(5))), CompareTarget::Create(5));
    assert_eq!(target(2, Some(TargetUnion::ModRevision(5))), CompareTarget::Mod(5));
    assert_eq!(target(3, value()), CompareTarget::Value("v".into()));
    assert_eq!(target(4, Some(TargetUnion::Lease(5))), CompareTarget::Lease(5));

    assert_eq!(target(0, value()), CompareTarget::Version(0));
    assert_eq!(target(1, None), CompareTarget::Create(0));
    assert_eq!(target(2, Some(TargetUnion::Version(5))), CompareTarget::Mod(0));
    assert_eq!(target(3, Some(TargetUnion::Lease(5))), CompareTarget::Value(Bytes::new()));
    assert_eq!(target(4, value()), CompareTarget::Lease(0));
    assert_eq!(target(UNDEFINED, value()), CompareTarget::Unknown);
}

#[test]
fn an_undefined_comparison_is_handed_on_as_such() {
    let result = |result| compare(pb::Compare { result, ..Default::default() }).result;
    assert_eq!(result(3), CompareResult::NotEqual);
    assert_eq!(result(UNDEFINED), CompareResult::Unknown);
}

/// As observed: inner headers have the revision only, and the header of a nested transaction is
/// there but empty.
#[test]
fn responses_inside_a_transaction_have_headers_with_the_revision_only() {
    let inner = RangeResponse { revision: 4, kvs: vec![record("k", "v")], more: true, count: 2 };
    let nested = TxnResponse { revision: 0, succeeded: true, responses: vec![ResponseOp::Range(inner)] };
    let response = TxnResponse {
        revision: 4,
        succeeded: true,
        responses: vec![
            ResponseOp::Put(PutResponse { revision: 4, prev_kv: Some(record("k", "old")) }),
            ResponseOp::DeleteRange(DeleteRangeResponse { revision: 4, deleted: 1, prev_kvs: vec![] }),
            ResponseOp::Txn(nested),
        ],
    };
    let outer = pb::ResponseHeader { cluster_id: 1, member_id: 2, revision: 4, raft_term: 3 };
    let typed = txn_done(response, Some(outer)).to_typed().unwrap();
    assert_eq!(typed.header, Some(outer));

    let at_four = Some(pb::ResponseHeader { revision: 4, ..Default::default() });
    let op = |index: usize| typed.responses[index].response.clone().unwrap();
    let pb::response_op::Response::ResponsePut(put) = op(0) else { panic!("not a put") };
    assert_eq!((put.header, put.prev_kv.unwrap().value), (at_four, "old".into()));
    let pb::response_op::Response::ResponseDeleteRange(delete) = op(1) else { panic!("not a delete") };
    assert_eq!((delete.header, delete.deleted), (at_four, 1));
    let pb::response_op::Response::ResponseTxn(nested) = op(2) else { panic!("not a transaction") };
    assert_eq!(nested.header, Some(pb::ResponseHeader::default()));
    let Some(pb::response_op::Response::ResponseRange(range)) = nested.responses[0].response.clone() else {
        panic!("not a range")
    };
    assert_eq!((range.header, range.more, range.count), (at_four, true, 2));
    assert_eq!((range.kvs[0].key.as_ref(), range.kvs[0].lease), (&b"k"[..], 7));
}
