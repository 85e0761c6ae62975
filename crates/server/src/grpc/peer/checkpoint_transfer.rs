//! Checkpoint transfers to other servers. A few are in progress at once; an idle one is given up,
//! so that its files do not stay for ever. For a moment after the last piece the journal behind it
//! is kept as well: the receiver reads on from there.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{Stream, stream};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Status;
use vetch_api::vetch::{CheckpointFile, CheckpointHead, CheckpointResponse};
use vetch_checkpoint::transfer::{CheckpointSender, TransferManifest};
use vetch_cluster::LogIndex;
use vetch_http2::border;
use vetch_node::Node;

use super::index_to_wire;

/// Transfers in progress at a time.
const CONCURRENT_MAX: usize = 2;
/// A transfer that is idle for about this long is ended.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the files are kept after the last piece, until the receiver has loaded them.
const KEEP_AFTER_SENT: Duration = Duration::from_secs(60);

pub(super) type CheckpointStream = Pin<Box<dyn Stream<Item = Result<CheckpointResponse, Status>> + Send>>;

pub(super) struct CheckpointTransfers(Arc<Semaphore>);

impl Default for CheckpointTransfers {
    fn default() -> CheckpointTransfers {
        CheckpointTransfers(Arc::new(Semaphore::new(CONCURRENT_MAX)))
    }
}

struct Sending {
    sender: CheckpointSender,
    /// Whether something was taken since the watchdog last looked.
    moved: bool,
    /// Whether all of it was.
    done: bool,
    _permit: OwnedSemaphorePermit,
}

/// None once it was given up.
type Slot = Arc<Mutex<Option<Sending>>>;

impl CheckpointTransfers {
    pub(super) fn begin(&self, node: &Node) -> Result<CheckpointStream, Status> {
        let busy = |_| Status::resource_exhausted("too many checkpoints are being sent");
        let permit = Arc::clone(&self.0).try_acquire_owned().map_err(busy)?;
        let sender = node.send_checkpoint().map_err(|error| Status::unavailable(error.to_string()))?;
        let sender = sender.ok_or_else(|| Status::unavailable("there is no checkpoint yet"))?;
        let head = head(sender.manifest());
        tracing::info!(bytes = sender.manifest().bytes(), "sending a checkpoint to another server");
        let sending = Sending { sender, moved: true, done: false, _permit: permit };
        let slot = Arc::new(Mutex::new(Some(sending)));
        border::spawn(watch(Arc::clone(&slot)));
        let pieces = stream::unfold(Some(slot), |slot| async move {
            let slot = slot?;
            let reading = Arc::clone(&slot);
            let read = border::spawn_blocking(move || next(&reading)).await;
            match read.unwrap_or_else(|_| Err(Status::internal("reading a checkpoint failed"))) {
                Ok(None) => None,
                Ok(Some(piece)) => Some((Ok(piece), Some(slot))),
                Err(status) => Some((Err(status), None)),
            }
        });
        let first = CheckpointResponse { head: Some(head), piece: Vec::new() };
        Ok(Box::pin(futures_util::StreamExt::chain(stream::iter([Ok(first)]), pieces)))
    }
}

fn next(slot: &Slot) -> Result<Option<CheckpointResponse>, Status> {
    let mut slot = slot.lock();
    let sending =
        slot.as_mut().ok_or_else(|| Status::deadline_exceeded("the checkpoint was not read in time"))?;
    sending.moved = true;
    let piece = sending.sender.next_piece().map_err(|error| Status::unavailable(error.to_string()))?;
    sending.done = piece.is_none();
    Ok(piece.map(|piece| CheckpointResponse { head: None, piece: piece.to_vec() }))
}

/// Releases the files when their receiver is idle, and some time after all were sent.
async fn watch(slot: Slot) {
    loop {
        tokio::time::sleep(IDLE_TIMEOUT).await;
        let is_done = match &mut *slot.lock() {
            None => return,
            Some(sending) => {
                if std::mem::take(&mut sending.moved) {
                    continue;
                }
                sending.done
            }
        };
        if is_done {
            tokio::time::sleep(KEEP_AFTER_SENT).await;
        }
        *slot.lock() = None;
        return;
    }
}

fn head(manifest: &TransferManifest) -> CheckpointHead {
    let file = |(name, bytes): &(String, u64)| CheckpointFile { name: name.clone(), bytes: *bytes };
    CheckpointHead {
        place: Some(index_to_wire(&LogIndex { position: manifest.position, tip: manifest.tip })),
        revision: manifest.revision,
        number: manifest.number,
        files: manifest.files.iter().map(file).collect(),
    }
}
