//! The base of Lock and Election: a queue of keys under one name, each attached to a lease.
//!
//! etcd implements both services as clients of its own KV, Lease and Watch services, so their
//! answers are those of a client library: the revision of the request that decided, and errors with
//! the text of the table but without its codes ([`EtcdError::relayed`]). The keys are the contract
//! with clients that take part without these services.

use bytes::Bytes;
use tokio::sync::oneshot;
use tonic::{Request, Status};
use vetch_api::EtcdError;
use vetch_http2::border;
use vetch_node::error::NodeError;
use vetch_node::store::Record;
use vetch_node::store::request::{
    Compare, CompareResult, CompareTarget, DeleteRangeRequest, KeyRange, PutRequest, RangeRequest,
    RangeResponse, RequestOp, SortOrder, SortTarget, TxnRequest, TxnResponse,
};
use vetch_node::store::validate;
use vetch_node::watch::{Create, Filters};

use super::authorise::RequiredPermission;
use super::service_context::ServiceContext;
use super::status;
use crate::auth::Credentials;

#[cfg(test)]
mod tests;

/// Time to live of the lease that is granted to a caller without one.
const SESSION_TTL: i64 = 60;

/// The services as the caller may use them: access to keys and leases is checked as for the caller
/// itself.
pub(super) fn authorise<T>(
    context: &ServiceContext,
    request: Request<T>,
) -> Result<(ServiceContext, T), Status> {
    let (credentials, request) = Credentials::split(request);
    let node =
        context.check_permission(&credentials, RequiredPermission::CheckedByNode).map_err(status::relayed)?;
    Ok((context.with_node(node), request))
}

/// The lease that the caller's key is bound to. One that is granted here is not renewed: as in
/// etcd, it lives for its time, and the owner of the lock renews it or loses the lock.
pub(super) async fn session(context: &ServiceContext, lease: i64) -> Result<i64, Status> {
    if lease != 0 {
        return Ok(lease);
    }
    let granted = context.node.lease_grant(0, SESSION_TTL).await.map_err(relayed)?;
    Ok(granted.id)
}

/// All keys of one lock or election.
pub(super) struct Queue {
    /// The name and a slash.
    prefix: Vec<u8>,
}

impl Queue {
    pub(super) fn new(name: &[u8]) -> Queue {
        Queue { prefix: [name, b"/"].concat() }
    }

    /// The key of the caller with this lease. The lease is in hexadecimal, a negative one with a
    /// sign.
    pub(super) fn key(&self, lease: i64) -> Bytes {
        let sign = if lease < 0 { "-" } else { "" };
        let place = format!("{sign}{:x}", lease.unsigned_abs());
        [self.prefix.as_slice(), place.as_bytes()].concat().into()
    }

    /// All keys that start with the prefix.
    pub(super) fn range(&self) -> KeyRange {
        let mut end = self.prefix.clone();
        let slash = end.last_mut().expect("the prefix ends with a slash");
        *slash += 1;
        KeyRange::new(self.prefix.clone(), end)
    }

    /// How many keys there are.
    pub(super) fn count(&self) -> RangeRequest {
        RangeRequest { count_only: true, ..RangeRequest::new(self.range()) }
    }

    /// The key that was created first: the owner's.
    pub(super) fn first(&self) -> RangeRequest {
        self.by_creation(SortOrder::Ascend)
    }

    /// The key right before one created at `revision`.
    fn before(&self, revision: i64) -> RangeRequest {
        RangeRequest { max_create_revision: revision - 1, ..self.by_creation(SortOrder::Descend) }
    }

    fn by_creation(&self, sort_order: SortOrder) -> RangeRequest {
        RangeRequest {
            limit: 1,
            sort_order,
            sort_target: SortTarget::Create,
            ..RangeRequest::new(self.range())
        }
    }

    /// Waits until every key created before `revision` is gone.
    pub(super) async fn wait_for_turn(&self, context: &ServiceContext, revision: i64) -> Result<(), Status> {
        loop {
            let ahead = {
                // Each scans all keys of the queue, and very many may wake together.
                let _permit = context.queue_permits.acquire().await;
                range(context, self.before(revision)).await?
            };
            match ahead.kvs.first() {
                None => return Ok(()),
                Some(record) => wait_for_delete(context, record.key(), ahead.revision).await?,
            }
        }
    }
}

/// Waits until `key` is deleted at `from` or later.
async fn wait_for_delete(context: &ServiceContext, key: &[u8], from: i64) -> Result<(), Status> {
    let mut session = context.node.watch();
    session.create(&Create {
        key: key.to_vec(),
        start_revision: from,
        filters: Filters { no_put: true, no_delete: false },
        ..Create::default()
    });
    loop {
        let responses = session.next().await.map_err(|_| relayed(NodeError::Stopped))?;
        for response in responses {
            if response.compact_revision != 0 {
                return Err(status::relayed(EtcdError::Compacted));
            }
            if response.events().next().is_some() {
                return Ok(());
            }
        }
    }
}

pub(super) async fn range(context: &ServiceContext, request: RangeRequest) -> Result<RangeResponse, Status> {
    let request = validate::range(request).map_err(|error| relayed(error.into()))?;
    context.node.range(request).await.map_err(relayed)
}

pub(super) async fn txn(context: &ServiceContext, request: TxnRequest) -> Result<TxnResponse, Status> {
    let request =
        validate::txn(request, context.settings.max_txn_ops).map_err(|error| relayed(error.into()))?;
    context.node.txn(request).await.map_err(relayed)
}

/// Deletes one key. Returns the revision of the answer.
pub(super) async fn delete(context: &ServiceContext, key: Bytes) -> Result<i64, Status> {
    let request = DeleteRangeRequest { range: KeyRange::single(key), prev_kv: false };
    let request = validate::delete_range(request).map_err(|error| relayed(error.into()))?;
    Ok(context.node.delete_range(request).await.map_err(relayed)?.revision)
}

/// `key` was created at `revision`, or does not exist if that is 0.
pub(super) fn created_at(key: Bytes, revision: i64) -> Compare {
    Compare {
        range: KeyRange::single(key),
        result: CompareResult::Equal,
        target: CompareTarget::Create(revision),
    }
}

pub(super) fn put(key: Bytes, value: Bytes, lease: i64) -> RequestOp {
    RequestOp::Put(PutRequest { key, value, lease, prev_kv: false, ignore_value: false, ignore_lease: false })
}

pub(super) fn get(key: Bytes) -> RequestOp {
    RequestOp::Range(RangeRequest::new(KeyRange::single(key)))
}

/// The first key-value that the operation at `index` of a transaction has found.
pub(super) fn found(response: &TxnResponse, index: usize) -> Option<&Record> {
    use vetch_node::store::request::ResponseOp;
    match response.responses.get(index) {
        Some(ResponseOp::Range(range)) => range.kvs.first(),
        _ => None,
    }
}

/// The count of the operation at `index` of a transaction.
pub(super) fn counted(response: &TxnResponse, index: usize) -> i64 {
    use vetch_node::store::request::ResponseOp;
    match response.responses.get(index) {
        Some(ResponseOp::Range(range)) => range.count,
        _ => 0,
    }
}

pub(super) fn relayed(error: NodeError) -> Status {
    status::relayed(status::etcd_from_node(error))
}

/// Resolves when the caller has gone away.
pub(super) type ClientGone = oneshot::Receiver<()>;

/// Runs `work` for a caller, to its end even if the caller goes away: then it has to be undone, and
/// only the work itself knows what it has begun.
pub(super) async fn run_to_completion<T, F>(work: impl FnOnce(ClientGone) -> F) -> Result<T, Status>
where
    T: Send + 'static,
    F: Future<Output = Result<T, Status>> + Send + 'static,
{
    // Dropped with the caller's future.
    let (_alive, gone) = oneshot::channel();
    match border::spawn(work(gone)).await {
        Ok(outcome) => outcome,
        Err(failed) if failed.is_panic() => std::panic::resume_unwind(failed.into_panic()),
        Err(_) => Err(status::etcd(EtcdError::Stopped)),
    }
}
