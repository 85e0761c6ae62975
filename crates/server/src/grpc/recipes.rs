//! The base of Lock and Election: a queue of keys under one name, each attached to a lease.
//!
//! etcd implements both services as clients of its own KV, Lease and Watch services, so their
//! answers are those of a client library: the revision of the request that decided, and errors with
//! the text of the table but without its codes ([`EtcdError::relayed`]). The keys are the contract
//! with clients that take part without these services.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{SemaphorePermit, oneshot};
use tonic::{Request, Status};
use vetch_api::EtcdError;
use vetch_http2::{Charge, border};
use vetch_node::error::NodeError;
use vetch_node::store::Record;
use vetch_node::store::request::{
    Compare, CompareResult, CompareTarget, DeleteRangeRequest, KeyRange, PutRequest, RangeRequest,
    RangeResponse, RequestOp, SortOrder, SortTarget, TxnRequest, TxnResponse,
};
use vetch_node::store::validate;
use vetch_node::watch::{Create, Filters, WatchSession};

use super::authorise::RequiredPermission;
use super::service_context::ServiceContext;
use super::status;
use crate::auth::Credentials;
use crate::remote::Remote;
use crate::turns::{SharedPermit, Turns};

#[cfg(test)]
mod tests;

/// What a waiting call keeps of its name: in its queue, its key and its answer.
const NAMES_KEPT: usize = 3;

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

/// The client of a call that may wait: it is charged for what the call keeps, as for its watchers,
/// and takes turns with others. Calls from within this process have neither.
#[derive(Default)]
pub(super) struct Client {
    charge: Option<Charge>,
    turns: Option<Arc<Turns>>,
}

impl Client {
    pub(super) fn of<T>(request: &Request<T>) -> Client {
        let Some(remote) = request.extensions().get::<Remote>() else { return Client::default() };
        Client { charge: Some(remote.watching.charge()), turns: Some(Arc::clone(&remote.turns)) }
    }
}

/// All keys of one lock or election, as one call sees them.
pub(super) struct Queue {
    /// The name and a slash.
    prefix: Vec<u8>,
    client: Client,
}

impl Queue {
    /// Refused if the client, or all clients, have too much that waits or watches.
    pub(super) fn new(name: &[u8], client: Client) -> Result<Queue, Status> {
        let mut queue = Queue { prefix: [name, b"/"].concat(), client };
        queue.charge(0)?;
        Ok(queue)
    }

    /// Charges what the call keeps, with a watcher of this size.
    fn charge(&mut self, watcher: usize) -> Result<(), Status> {
        let len = NAMES_KEPT * self.prefix.len() + watcher;
        match &mut self.client.charge {
            Some(charge) => {
                charge.try_set(len).map_err(|_| status::relayed(EtcdError::RequestTooManyRequests))
            }
            None => Ok(()),
        }
    }

    /// Watches for the call.
    pub(super) fn watch(
        &mut self,
        context: &ServiceContext,
        create: &Create,
    ) -> Result<WatchSession, Status> {
        self.charge(create.bytes())?;
        let mut session = context.node.watch();
        session.create(create);
        Ok(session)
    }

    /// A permit to look through all keys: very many calls may want to at the same time.
    pub(super) async fn scan_permit(&self, context: &ServiceContext) -> SharedPermit {
        context.queue_permits.acquire(self.client.turns.as_deref().map(Turns::scans)).await
    }

    /// A permit to write: the writes of a client's calls must not fill the sequencer's queue.
    pub(super) async fn write_permit(&self) -> Option<SemaphorePermit<'_>> {
        self.client.turns.as_deref()?.writes().acquire().await.ok()
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
    pub(super) async fn wait_for_turn(
        &mut self,
        context: &ServiceContext,
        revision: i64,
    ) -> Result<(), Status> {
        loop {
            let ahead = {
                let _permit = self.scan_permit(context).await;
                range(context, self.before(revision)).await?
            };
            let Some(record) = ahead.kvs.first() else { return Ok(()) };
            let session = self.watch(
                context,
                &Create {
                    key: record.key().to_vec(),
                    start_revision: ahead.revision,
                    filters: Filters { no_put: true, no_delete: false },
                    ..Create::default()
                },
            )?;
            // Its value may be large, and deleted meanwhile.
            drop(ahead);
            wait_for_delete(session).await?;
        }
    }
}

/// Waits until the key that is watched is deleted.
async fn wait_for_delete(mut session: WatchSession) -> Result<(), Status> {
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
