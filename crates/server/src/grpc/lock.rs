//! The Lock service.

use bytes::Bytes;
use tonic::{Request, Response, Status};
use vetch_api::EtcdError;
use vetch_api::v3lockpb::{LockRequest, LockResponse, UnlockRequest, UnlockResponse, lock_server};
use vetch_node::store::request::{KeyRange, RangeRequest, RequestOp, TxnRequest};

use super::edge::Edge;
use super::recipes::{self, Gone, Queue};
use super::status;

type Answer<T> = Result<Response<T>, Status>;

pub(super) struct LockService(pub(super) Edge);

#[tonic::async_trait]
impl lock_server::Lock for LockService {
    async fn lock(&self, request: Request<LockRequest>) -> Answer<LockResponse> {
        let (edge, request) = recipes::admit(&self.0, request)?;
        let locked = recipes::attended(|gone| acquire(edge, request, gone)).await?;
        Ok(Response::new(locked))
    }

    async fn unlock(&self, request: Request<UnlockRequest>) -> Answer<UnlockResponse> {
        let (edge, request) = recipes::admit(&self.0, request)?;
        let revision = recipes::delete(&edge, request.key).await?;
        Ok(Response::new(UnlockResponse { header: self.0.header(revision) }))
    }
}

/// A key in the queue of a lock.
struct Place {
    key: Bytes,
    created: i64,
    /// Set if it was alone from the start.
    owned_at: Option<i64>,
}

impl Place {
    /// Queues up, or finds the place that this lease already has, and looks whether it is alone,
    /// all in one transaction. Who is first among many is found out later: the sequencer would have
    /// to look at all of them for each that comes.
    async fn take(edge: &Edge, queue: &Queue, lease: i64) -> Result<Place, Status> {
        let key = queue.key(lease);
        let others = || RequestOp::Range(queue.count());
        let response = recipes::txn(
            edge,
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
        Ok(Place { key, created, owned_at: is_alone.then_some(response.revision) })
    }
}

async fn acquire(edge: Edge, request: LockRequest, gone: Gone) -> Result<LockResponse, Status> {
    let lease = recipes::session(&edge, request.lease).await?;
    let queue = Queue::new(&request.name);
    let place = Place::take(&edge, &queue, lease).await?;
    let revision = match place.owned_at {
        Some(revision) => revision,
        None => wait(&edge, &queue, &place, gone).await?,
    };
    Ok(LockResponse { header: edge.header(revision), key: place.key })
}

/// Waits to become the first. Returns the revision at which the lock was seen to be held.
async fn wait(edge: &Edge, queue: &Queue, place: &Place, gone: Gone) -> Result<i64, Status> {
    let turn = async {
        queue.wait_for_turn(edge, place.created).await?;
        recipes::range(edge, RangeRequest::new(KeyRange::single(place.key.clone()))).await
    };
    let outcome = tokio::select! {
        outcome = turn => outcome,
        _ = gone => Err(status::of(EtcdError::ContextCanceled)),
    };
    match outcome {
        // The lease ran out meanwhile and took the key with it.
        Ok(own) if own.kvs.is_empty() => Err(status::relayed(EtcdError::SessionExpired)),
        Ok(own) => Ok(own.revision),
        Err(error) => {
            // Nobody must wait behind this key. If it cannot be deleted its lease will end the
            // wait.
            let _ = recipes::delete(edge, place.key.clone()).await;
            Err(error)
        }
    }
}
