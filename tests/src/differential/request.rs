//! What one step of a differential run asks of both servers.

use vetch_api::pb;

/// Lease ids from here on stand for "the n-th id the server chose itself". Each side puts its own
/// id in place before the request leaves and takes it out of the answer, so that both sides' texts
/// agree.
pub(crate) const CHOSEN: i64 = 1 << 60;

/// The watch stream for watchers of the past and the present. It always has one watcher on all
/// keys, so that a progress request is answered as soon as every event has been sent.
pub(crate) const SETTLED: usize = 0;
/// The watch stream for watchers that wait for a revision to come. Those hold progress back, hence
/// their own stream.
pub(crate) const FUTURE: usize = 1;

#[derive(Clone, Debug)]
pub(crate) enum Request {
    Range(pb::RangeRequest),
    RangeStream(pb::RangeRequest),
    Put(pb::PutRequest),
    DeleteRange(pb::DeleteRangeRequest),
    Txn(pb::TxnRequest),
    Compact(pb::CompactionRequest),
    Grant(pb::LeaseGrantRequest),
    Revoke(pb::LeaseRevokeRequest),
    KeepAlive(pb::LeaseKeepAliveRequest),
    TimeToLive(pb::LeaseTimeToLiveRequest),
    Leases,
    WatchCreate(usize, pb::WatchCreateRequest),
    WatchCancel(usize, i64),
    /// Everything the watchers have been sent so far is compared.
    WatchSettle,
    Status,
    HashKv(pb::HashKvRequest),
    Alarm(pb::AlarmRequest),
    MoveLeader(u64),
    Downgrade(pb::DowngradeRequest),
    Defragment,
    MemberList(bool),
    MemberPromote(u64),
    MemberRemove(u64),
    MemberUpdate(pb::MemberUpdateRequest),
    MemberAdd(pb::MemberAddRequest),
}

impl Request {
    /// Requests before which all watch output has to be in: after them, what a late watcher sees
    /// depends on timing.
    pub(crate) fn needs_settled_watches(&self) -> bool {
        matches!(self, Request::Compact(_) | Request::WatchCancel(..))
    }

    /// The same request with every lease id passed through `map`.
    pub(crate) fn with_leases(&self, map: &dyn Fn(i64) -> i64) -> Request {
        let mut request = self.clone();
        match &mut request {
            Request::Put(put) => put.lease = map(put.lease),
            Request::Txn(txn) => txn_leases(txn, map),
            Request::Revoke(revoke) => revoke.id = map(revoke.id),
            Request::KeepAlive(keep) => keep.id = map(keep.id),
            Request::TimeToLive(ttl) => ttl.id = map(ttl.id),
            Request::Grant(grant) => grant.id = map(grant.id),
            _ => {}
        }
        request
    }
}

fn txn_leases(txn: &mut pb::TxnRequest, map: &dyn Fn(i64) -> i64) {
    for compare in &mut txn.compare {
        if let Some(pb::compare::TargetUnion::Lease(lease)) = &mut compare.target_union {
            *lease = map(*lease);
        }
    }
    for op in txn.success.iter_mut().chain(&mut txn.failure) {
        match &mut op.request {
            Some(pb::request_op::Request::RequestPut(put)) => put.lease = map(put.lease),
            Some(pb::request_op::Request::RequestTxn(nested)) => txn_leases(nested, map),
            _ => {}
        }
    }
}
