//! The stream of a snapshot: pieces of a file of etcd's, made while they are sent, and its hash at the end.
//!
//! Whoever takes a snapshot keeps the versions of that moment in memory until they are sent. So only a few may be under
//! way at once, and one whose client stops taking is given up. Further ones wait their turn.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::{Stream, stream};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tonic::Status;
use vetch_api::{EtcdError, pb};
use vetch_http2::border;
use vetch_node::error::NodeError;
use vetch_snapshot::{Export, Member};

use super::edge::Edge;
use super::status;
use crate::metrics::ServerMetrics;
use crate::version;

/// Bytes of the file in one message, as etcd sends them.
const PIECE: usize = 32 << 10;
/// Snapshots that may be under way at once, and calls that may wait for one of them to end.
const CONCURRENT_MAX: usize = 2;
const WAITING_MAX: usize = 64;
/// How long such a call waits.
const WAIT_TIMEOUT: Duration = Duration::from_secs(30);
/// A client that took nothing for about this long is given up.
const PATIENCE: Duration = Duration::from_secs(120);

pub(super) type SnapshotStream = Pin<Box<dyn Stream<Item = Result<pb::SnapshotResponse, Status>> + Send>>;

/// How many snapshots may still be begun, and how many calls may wait for that.
#[derive(Clone)]
pub(super) struct Places {
    sending: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
}

impl Default for Places {
    fn default() -> Places {
        let (sending, waiting) = (Semaphore::new(CONCURRENT_MAX), Semaphore::new(WAITING_MAX));
        Places { sending: Arc::new(sending), waiting: Arc::new(waiting) }
    }
}

impl Places {
    async fn take(&self) -> Result<OwnedSemaphorePermit, NodeError> {
        let _waiting = self.waiting.try_acquire().map_err(|_| NodeError::TooManyRequests)?;
        let place = tokio::time::timeout(WAIT_TIMEOUT, Arc::clone(&self.sending).acquire_owned()).await;
        place.ok().and_then(Result::ok).ok_or(NodeError::TooManyRequests)
    }
}

/// A snapshot under way.
struct Sending {
    export: Export,
    /// Whether the client took something since the watchdog last looked.
    moved: bool,
    began: Instant,
    metrics: Arc<ServerMetrics>,
    _place: OwnedSemaphorePermit,
}

enum State {
    Sending(Box<Sending>),
    Sent,
    GivenUp,
}

type Slot = Arc<Mutex<State>>;

pub(super) async fn stream(edge: &Edge, places: &Places) -> Result<SnapshotStream, Status> {
    let began = Instant::now();
    let place = places.take().await.map_err(status::node)?;
    let state = edge.node.snapshot().await.map_err(status::node)?;
    let member = member(edge);
    let lay_out = move || Export::new(state, &member);
    let export = border::spawn_blocking(lay_out).await.map_err(|_| status::of(EtcdError::Stopped))?;
    tracing::info!(bytes = export.bytes(), "sending a snapshot to a client");
    let metrics = Arc::clone(&edge.metrics);
    let sending = Box::new(Sending { export, moved: true, began, metrics, _place: place });
    let slot = Arc::new(Mutex::new(State::Sending(sending)));
    let watchdog = Watchdog(border::spawn(watch(Arc::clone(&slot))));
    let next = |(slot, watchdog): (Slot, Watchdog)| async move {
        let message = next_message(&slot)?;
        // Producing a piece takes a moment of computing, and other streams want theirs.
        tokio::task::yield_now().await;
        Some((message, (slot, watchdog)))
    };
    Ok(Box::pin(stream::unfold((slot, watchdog), next)))
}

fn member(edge: &Edge) -> Member {
    Member {
        id: edge.node.identity().member_id,
        name: edge.settings.name.clone(),
        peer_urls: edge.settings.peer_urls.clone(),
        client_urls: edge.settings.client_urls.clone(),
        term: edge.node.term(),
        cluster_version: version::CLUSTER.into(),
        storage_version: version::STORAGE.into(),
    }
}

/// The next piece, or the hash behind the last one; None after that.
fn next_message(slot: &Slot) -> Option<Result<pb::SnapshotResponse, Status>> {
    let mut state = slot.lock();
    if let State::Sending(sending) = &mut *state {
        sending.moved = true;
        if let Some(piece) = sending.export.next(PIECE) {
            return Some(Ok(message(sending.export.remaining(), piece)));
        }
    }
    match std::mem::replace(&mut *state, State::Sent) {
        State::Sending(sending) => {
            tracing::info!("a snapshot has been sent");
            sending.metrics.services.snapshot_sent(sending.began.elapsed());
            Some(Ok(message(0, sending.export.digest())))
        }
        State::Sent => None,
        State::GivenUp => Some(Err(status::node(NodeError::Timeout))),
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

/// Lets go of the state when the client stands still.
async fn watch(slot: Slot) {
    loop {
        tokio::time::sleep(PATIENCE).await;
        let mut state = slot.lock();
        let State::Sending(sending) = &mut *state else { return };
        if !std::mem::take(&mut sending.moved) {
            tracing::warn!("a client stopped taking its snapshot; it is given up");
            *state = State::GivenUp;
            return;
        }
    }
}
