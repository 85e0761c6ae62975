//! The stream of a snapshot: pieces of a file of etcd's, made while they are sent, and its hash at
//! the end.
//!
//! A snapshot keeps its versions in memory until they are sent. So only a few may run together, and
//! one whose client does not read it, or reads slowly while others wait, is ended: [`queue`].

mod queue;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures_util::{Stream, stream};
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tonic::Status;
use vetch_api::{EtcdError, pb};
use vetch_http2::border;
use vetch_node::error::NodeError;
use vetch_snapshot::{Export, Member};

use super::service_context::ServiceContext;
use super::status;
use crate::remote::Remote;
pub(super) use queue::SnapshotQueue;
use queue::{CHECK_INTERVAL, Client, ProgressCheck, SnapshotPermit};
use vetch_api::version;
use vetch_metrics::ServerMetrics;

/// Bytes of the file in one message, as etcd sends them.
const PIECE: usize = 32 << 10;
pub(super) type SnapshotStream = Pin<Box<dyn Stream<Item = Result<pb::SnapshotResponse, Status>> + Send>>;

/// A running snapshot.
struct Sending {
    export: Export,
    /// Bytes that the client has read.
    taken: u64,
    began: Instant,
    metrics: Arc<ServerMetrics>,
    permit: SnapshotPermit,
}

enum State {
    Sending(Box<Sending>),
    Sent,
    /// The client did not read it.
    Ended(NodeError),
}

type Slot = Arc<Mutex<State>>;

pub(super) async fn stream(
    context: &ServiceContext,
    snapshots: &SnapshotQueue,
    remote: Option<Remote>,
) -> Result<SnapshotStream, Status> {
    let began = Instant::now();
    let permit = snapshots.acquire(Client::from_remote(remote.as_ref())).await.map_err(status::node)?;
    let state = context.node.snapshot().await.map_err(status::node)?;
    let member = member(context);
    let lay_out = move || Export::new(state, &member);
    let export = border::spawn_blocking(lay_out).await.map_err(|_| status::etcd(EtcdError::Stopped))?;
    tracing::info!(bytes = export.bytes(), "sending a snapshot to a client");
    let metrics = Arc::clone(&context.metrics);
    let sending = Box::new(Sending { export, taken: 0, began, metrics, permit });
    let slot = Arc::new(Mutex::new(State::Sending(sending)));
    let watchdog = Watchdog(border::spawn(watch(Arc::clone(&slot))));
    let next = |(slot, watchdog): (Slot, Watchdog)| async move {
        let message = next_message(&slot)?;
        // Making a piece takes processor time; let other streams run.
        tokio::task::yield_now().await;
        Some((message, (slot, watchdog)))
    };
    Ok(Box::pin(stream::unfold((slot, watchdog), next)))
}

fn member(context: &ServiceContext) -> Member {
    Member {
        id: context.node.identity().member_id,
        name: context.settings.name.clone(),
        peer_urls: context.settings.peer_urls.clone(),
        client_urls: context.settings.client_urls.clone(),
        term: context.node.term(),
        cluster_version: version::CLUSTER.into(),
        storage_version: version::STORAGE.into(),
    }
}

/// The next piece, or the hash behind the last one; None after that.
fn next_message(slot: &Slot) -> Option<Result<pb::SnapshotResponse, Status>> {
    let mut state = slot.lock();
    if let State::Sending(sending) = &mut *state
        && let Some(piece) = sending.export.next(PIECE)
    {
        sending.taken += piece.len() as u64;
        return Some(Ok(message(sending.export.remaining(), piece)));
    }
    match std::mem::replace(&mut *state, State::Sent) {
        State::Sending(sending) => {
            tracing::info!("a snapshot has been sent");
            sending.metrics.services.snapshot_sent(sending.began.elapsed());
            Some(Ok(message(0, sending.export.digest())))
        }
        State::Sent => None,
        State::Ended(error) => Some(Err(status::node(error))),
    }
}

/// Snapshots are answered without a header.
fn message(remaining_bytes: u64, blob: Bytes) -> pb::SnapshotResponse {
    pb::SnapshotResponse { header: None, remaining_bytes, blob, version: version::STORAGE.into() }
}

/// Ends with the stream that it belongs to.
struct Watchdog(JoinHandle<()>);

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Frees the state if the client does not read it, or too slowly while others wait.
async fn watch(slot: Slot) {
    let mut progress = ProgressCheck::default();
    loop {
        tokio::time::sleep(CHECK_INTERVAL).await;
        let mut state = slot.lock();
        let State::Sending(sending) = &*state else { return };
        if let Some(error) = progress.check(sending.taken, sending.permit.contention()) {
            tracing::warn!(taken = sending.taken, %error, "a client does not read its snapshot; aborting it");
            if error == NodeError::TooManyRequests {
                sending.permit.refuse_waiting_calls();
            }
            *state = State::Ended(error);
            return;
        }
    }
}
