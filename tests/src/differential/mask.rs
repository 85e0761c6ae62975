//! What two correct servers may answer differently, taken out of the answers before they are compared.
//!
//! | field | why it is masked | what is still compared |
//! |---|---|---|
//! | header cluster_id, member_id, raft_term | derived from addresses, times and elections | that each is set or not |
//! | lease ids chosen by the server | random | that the same lease is meant: ids become ordinals |
//! | remaining TTL | runs with the clock | within five seconds of the granted TTL, or not |
//! | order of the leases in a list | a hash map's order in etcd | the set |
//! | Status dbSize, dbSizeInUse | storage engines differ | nothing |
//! | Status raftIndex, raftTerm, raftAppliedIndex | how writes are batched differs | that they are positive |
//! | Status leader | an id | that it is the member itself |
//! | HashKV hash | lease ids chosen by the server are part of it | with what the specification says for each server |
//! | member ids and ports in URLs | differ by construction | the rest of the URL |
//! | header revision of watch responses with events | the store's revision when it was sent | not below the events' |

use vetch_api::mvccpb::KeyValue;
use vetch_api::pb;
use vetch_api::pb::response_op::Response as OpResponse;

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

pub(super) fn range(response: &mut pb::RangeResponse, map: &dyn Fn(i64) -> i64) {
    header(&mut response.header);
    for kv in &mut response.kvs {
        key_value(kv, map);
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

pub(super) fn txn(response: &mut pb::TxnResponse, map: &dyn Fn(i64) -> i64) {
    header(&mut response.header);
    for answered in &mut response.responses {
        match &mut answered.response {
            Some(OpResponse::ResponseRange(response)) => range(response, map),
            Some(OpResponse::ResponsePut(response)) => put(response, map),
            Some(OpResponse::ResponseDeleteRange(response)) => delete(response, map),
            Some(OpResponse::ResponseTxn(response)) => txn(response, map),
            None => {}
        }
    }
}

pub(super) fn time_to_live(response: &mut pb::LeaseTimeToLiveResponse, map: &dyn Fn(i64) -> i64) {
    header(&mut response.header);
    response.id = map(response.id);
    response.ttl = remaining(response.ttl, response.granted_ttl);
    response.keys.sort();
}

/// Remaining time becomes the granted time when it is close to it; runs are shorter than any lease they grant.
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
