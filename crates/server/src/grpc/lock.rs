//! The Lock service.

use bytes::Bytes;
use tonic::{Request, Response, Status};
use vetch_api::EtcdError;
use vetch_api::v3lockpb::{LockRequest, LockResponse, UnlockRequest, UnlockResponse, lock_server};
use vetch_node::store::request::{KeyRange, RangeRequest, RequestOp, TxnRequest};

use super::recipes::{self, Client, ClientGone, Queue};
use super::service_context::ServiceContext;
use super::status;

type GrpcResult<T> = Result<Response<T>, Status>;

pub(super) struct LockService(pub(super) ServiceContext);

#[tonic::async_trait]
impl lock_server::Lock for LockService {
    async fn lock(&self, request: Request<LockRequest>) -> GrpcResult<LockResponse> {
        let client = Client::of(&request);
        let (context, LockRequest { name, lease }) = recipes::authorise(&self.0, request)?;
        // Not kept with the call: it shares the memory of the whole message.
        let queue = Queue::new(&name, client)?;
        drop(name);
        let locked = recipes::run_to_completion(|gone| acquire(context, queue, lease, gone)).await?;
        Ok(Response::new(locked))
    }

    async fn unlock(&self, request: Request<UnlockRequest>) -> GrpcResult<UnlockResponse> {
        let (context, request) = recipes::authorise(&self.0, request)?;
        let revision = recipes::delete(&context, request.key).await?;
        Ok(Response::new(UnlockResponse { header: self.0.header(revision) }))
    }
}

/// A key in the queue of a lock.
struct QueueEntry {
    key: Bytes,
    created: i64,
    /// Set if it was alone from the start.
    owned_at: Option<i64>,
}

impl QueueEntry {
    /// Enters the queue, or finds the key that this lease already has, and checks whether it is
    /// alone, all in one transaction. Which key is first among many is found out later: in the
    /// transaction, the sequencer would have to scan all of them for each new one.
    async fn enter(context: &ServiceContext, queue: &Queue, lease: i64) -> Result<QueueEntry, Status> {
        let key = queue.key(lease);
        let others = || RequestOp::Range(queue.count());
        let response = recipes::txn(
            context,
            TxnRequest {
                compare: vec![recipes::created_at(key.clone(), 0)],
                success: vec![recipes::put(key.clone(), Bytes::new(), lease), others()],
                failure: vec![recipes::get(key.clone()), others()],
            },
        )
        .await?;
        let created = match recipes::found(&response, 0) {
            Some(own) if !response.succeeded => own.create_revision(),
            _ => response.revision,
        };
        let is_alone = recipes::counted(&response, 1) <= 1;
        Ok(QueueEntry { key, created, owned_at: is_alone.then_some(response.revision) })
    }
}

async fn acquire(
    context: ServiceContext,
    mut queue: Queue,
    lease: i64,
    gone: ClientGone,
) -> Result<LockResponse, Status> {
    let entry = {
        let _permit = queue.write_permit().await;
        let lease = recipes::session(&context, lease).await?;
        QueueEntry::enter(&context, &queue, lease).await?
    };
    let revision = match entry.owned_at {
        Some(revision) => revision,
        None => wait(&context, &mut queue, &entry, gone).await?,
    };
    Ok(LockResponse { header: context.header(revision), key: entry.key })
}

/// Waits to become the first. Returns the revision at which the lock was seen to be held.
async fn wait(
    context: &ServiceContext,
    queue: &mut Queue,
    entry: &QueueEntry,
    gone: ClientGone,
) -> Result<i64, Status> {
    let turn = async {
        queue.wait_for_turn(context, entry.created).await?;
        recipes::range(context, RangeRequest::new(KeyRange::single(entry.key.clone()))).await
    };
    let outcome = tokio::select! {
        outcome = turn => outcome,
        _ = gone => Err(status::etcd(EtcdError::ContextCanceled)),
    };
    match outcome {
        // The lease expired meanwhile, and with it the key.
        Ok(own) if own.kvs.is_empty() => Err(status::relayed(EtcdError::SessionExpired)),
        Ok(own) => Ok(own.revision),
        Err(error) => {
            // No other client must wait behind this key. If it cannot be deleted, it goes when its
            // lease expires.
            let _ = recipes::delete(context, entry.key.clone()).await;
            Err(error)
        }
    }
}
