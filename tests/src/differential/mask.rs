//! What two correct servers may answer differently, taken out of the answers before they are
//! compared.
//!
//! | field | why it is masked | what is still compared |
//! |---|---|---|
//! | header cluster_id, member_id, raft_term | derived from addresses, times and elections | that each is set or not |
//! | lease ids chosen by the server | random | that the same lease is meant: ids become ordinals |
//! | remaining TTL | runs with the clock | within five seconds of the granted TTL, or not |
//! | order of the leases in a list | a hash map's order in etcd | the set |
//! | order among equal sort keys of more than twelve results, and which of them a limit cuts off | etcd's sort is unstable there | everything else |
//! | Status dbSize, dbSizeInUse | storage engines differ | nothing |
//! | Status raftIndex, raftTerm, raftAppliedIndex | how writes are batched differs | that they are positive |
//! | Status leader | an id | that it is the member itself |
//! | HashKV hash | lease ids chosen by the server are part of it | with what the specification says for each server |
//! | member ids and ports in URLs | differ by construction | the rest of the URL |
//! | header revision of watch responses with events | the store's revision when it was sent | not below the events' |

use bytes::Bytes;
use vetch_api::mvccpb::KeyValue;
use vetch_api::pb;
use vetch_api::pb::response_op::Response as OpResponse;

/// Up to so many elements etcd's sort keeps equal ones in their order.
const STABLE_MAX: i64 = 12;

pub(super) fn header(header: &mut Option<pb::ResponseHeader>) {
    if let Some(header) = header {
        header.cluster_id = u64::from(header.cluster_id != 0);
        header.member_id = u64::from(header.member_id != 0);
        header.raft_term = u64::from(header.raft_term != 0);
    }
}

/// Leases within key-values; the caller's map turns ids the server chose into ordinals.
pub(super) fn key_value(kv: &mut KeyValue, map: &dyn Fn(i64) -> i64) {
    kv.lease = map(kv.lease);
}

pub(super) fn range(request: &pb::RangeRequest, response: &mut pb::RangeResponse, map: &dyn Fn(i64) -> i64) {
    header(&mut response.header);
    for kv in &mut response.kvs {
        key_value(kv, map);
    }
    order_ties(request, response);
}

/// Puts keys with equal sort keys in key order. Where a limit cut the list, the last run of equals
/// is an arbitrary choice among them, so only its length and sort key stay.
fn order_ties(request: &pb::RangeRequest, response: &mut pb::RangeResponse) {
    if !(1..=4).contains(&request.sort_target) || response.count <= STABLE_MAX {
        return;
    }
    let sort_key = |kv: &KeyValue| -> (i64, Bytes) {
        match request.sort_target {
            1 => (kv.version, Bytes::new()),
            2 => (kv.create_revision, Bytes::new()),
            3 => (kv.mod_revision, Bytes::new()),
            // With keys only, the values that gave the order are gone: the whole list is one run.
            _ => (0, kv.value.clone()),
        }
    };
    let mut start = 0;
    while start < response.kvs.len() {
        let run_key = sort_key(&response.kvs[start]);
        let run = response.kvs[start..].iter().take_while(|kv| sort_key(kv) == run_key).count();
        let end = start + run;
        response.kvs[start..end].sort_by(|left, right| left.key.cmp(&right.key));
        if end == response.kvs.len() && response.more && request.limit > 0 {
            for kv in &mut response.kvs[start..end] {
                *kv = only_sort_key(request.sort_target, kv);
            }
        }
        start = end;
    }
}

fn only_sort_key(target: i32, kv: &KeyValue) -> KeyValue {
    match target {
        1 => KeyValue { version: kv.version, ..Default::default() },
        2 => KeyValue { create_revision: kv.create_revision, ..Default::default() },
        3 => KeyValue { mod_revision: kv.mod_revision, ..Default::default() },
        _ => KeyValue { value: kv.value.clone(), ..Default::default() },
    }
}

pub(super) fn put(response: &mut pb::PutResponse, map: &dyn Fn(i64) -> i64) {
    header(&mut response.header);
    if let Some(kv) = &mut response.prev_kv {
        key_value(kv, map);
    }
}

pub(super) fn delete(response: &mut pb::DeleteRangeResponse, map: &dyn Fn(i64) -> i64) {
    header(&mut response.header);
    for kv in &mut response.prev_kvs {
        key_value(kv, map);
    }
}

/// Walks the branch that was taken next to its requests, since ties depend on what was asked.
pub(super) fn txn(request: &pb::TxnRequest, response: &mut pb::TxnResponse, map: &dyn Fn(i64) -> i64) {
    use pb::request_op::Request as OpRequest;
    header(&mut response.header);
    let branch = if response.succeeded { &request.success } else { &request.failure };
    for (asked, answered) in branch.iter().zip(&mut response.responses) {
        match (&asked.request, &mut answered.response) {
            (Some(OpRequest::RequestRange(request)), Some(OpResponse::ResponseRange(response))) => {
                range(request, response, map);
            }
            (_, Some(OpResponse::ResponsePut(response))) => put(response, map),
            (_, Some(OpResponse::ResponseDeleteRange(response))) => delete(response, map),
            (Some(OpRequest::RequestTxn(request)), Some(OpResponse::ResponseTxn(response))) => {
                txn(request, response, map);
            }
            _ => {}
        }
    }
}

pub(super) fn time_to_live(response: &mut pb::LeaseTimeToLiveResponse, map: &dyn Fn(i64) -> i64) {
    header(&mut response.header);
    response.id = map(response.id);
    response.ttl = remaining(response.ttl, response.granted_ttl);
    response.keys.sort();
}

/// Remaining time becomes the granted time when it is close to it; runs are shorter than any lease
/// they grant.
fn remaining(ttl: i64, granted: i64) -> i64 {
    if ttl > 0 && (granted - 400..=granted).contains(&ttl) { granted } else { ttl }
}

pub(super) fn leases(response: &mut pb::LeaseLeasesResponse, map: &dyn Fn(i64) -> i64) {
    header(&mut response.header);
    for lease in &mut response.leases {
        lease.id = map(lease.id);
    }
    response.leases.sort_by_key(|lease| lease.id);
}

pub(super) fn status(response: &mut pb::StatusResponse) {
    let own = response.header.as_ref().map_or(0, |header| header.member_id);
    header(&mut response.header);
    response.leader = u64::from(response.leader == own);
    response.raft_term = u64::from(response.raft_term > 0);
    response.raft_index = u64::from(response.raft_index > 0);
    response.raft_applied_index = u64::from(response.raft_applied_index > 0);
    response.db_size = 0;
    response.db_size_in_use = 0;
}

pub(super) fn members(members: &mut [pb::Member]) {
    for member in members {
        member.id = u64::from(member.id != 0);
        for url in member.peer_ur_ls.iter_mut().chain(&mut member.client_ur_ls) {
            *url = without_port(url);
        }
    }
}

fn without_port(url: &str) -> String {
    match url.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => format!("{host}:PORT"),
        _ => url.to_owned(),
    }
}
