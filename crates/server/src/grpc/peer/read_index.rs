//! The read index: followers request the index up to which they must have applied the journal for a
//! linearizable read.

use std::time::{Duration, Instant};

use tonic::Status;
use tonic::transport::Channel;
use vetch_api::vetch::peer_client::PeerClient;
use vetch_api::vetch::{ReadIndexRequest, ReadIndexResponse};
use vetch_base::{Epoch, Seq};
use vetch_cluster::LogIndex;
use vetch_node::Node;
use vetch_node::batch_window::READ_BATCH_WINDOW;
use vetch_node::cluster::ReadIndexBatch;
use vetch_node::journal::{Position, Tip};

use crate::grpc::router::{LeaderChannel, RequestRouter};

/// Delay after a request that was refused, or while there is no leader. A change of leader usually
/// ends it sooner.
const RETRY_DELAY: Duration = Duration::from_millis(20);

/// Sends the read-index requests of local reads to the leader, one after another, until the node
/// ends.
pub async fn forward_read_index_requests(node: Node, router: RequestRouter) {
    let Some(mut batches) = node.read_index_batches() else { return };
    let (mut last, mut took) = (0, Duration::ZERO);
    loop {
        let batch = tokio::select! {
            batch = batches.next() => batch,
            _ = node.stopped() => None,
        };
        let Some(mut batch) = batch else { return };
        // Clients that got their answers together send the next reads together. Wait for them, so
        // that one request serves all, unless a request takes no longer than that wait.
        if batch.reads() * 2 < last && took > READ_BATCH_WINDOW {
            tokio::time::sleep(READ_BATCH_WINDOW).await;
            batches.join(&mut batch);
        }
        last = batch.reads();
        let started = Instant::now();
        answer_batch(&node, &router, batch).await;
        took = started.elapsed();
    }
}

/// Requests an index until there is one or no read waits for it any more. Any leader's index will
/// do.
async fn answer_batch(node: &Node, router: &RequestRouter, mut batch: ReadIndexBatch) {
    while batch.has_reads() {
        let (leader, changed) = router.leader_channel();
        match leader {
            LeaderChannel::Local => {
                batch.retry_locally();
                return tokio::time::sleep(Duration::from_millis(1)).await;
            }
            LeaderChannel::Remote(channel) => {
                tokio::pin!(changed);
                let requested = tokio::select! {
                    requested = request_read_index(node, channel) => requested,
                    // The old leader may never answer.
                    () = &mut changed => continue,
                };
                match requested {
                    Ok(index) => return batch.answer(index),
                    Err(error) => tracing::debug!(%error, "the leader returned no read index"),
                }
                let _ = tokio::time::timeout(RETRY_DELAY, changed).await;
            }
            LeaderChannel::Unavailable => drop(tokio::time::timeout(RETRY_DELAY, changed).await),
        }
    }
}

async fn request_read_index(node: &Node, channel: Channel) -> Result<LogIndex, Status> {
    let request = ReadIndexRequest { to: Some(super::leader(node)?) };
    from_wire(&PeerClient::new(channel).read_index(request).await?.into_inner())
}

pub(super) fn to_wire(index: &LogIndex) -> ReadIndexResponse {
    ReadIndexResponse {
        position: index.position.0,
        epoch: index.tip.epoch.get(),
        number: index.tip.seq.get(),
        hash: index.tip.hash.to_vec(),
        next_revision: index.tip.next_rev,
    }
}

fn from_wire(answer: &ReadIndexResponse) -> Result<LogIndex, Status> {
    let hash = answer.hash.as_slice().try_into().map_err(|_| Status::internal("a hash has 32 bytes"))?;
    let tip = Tip {
        epoch: Epoch::new(answer.epoch),
        seq: Seq::new(answer.number),
        hash,
        next_rev: answer.next_revision,
    };
    Ok(LogIndex { position: Position(answer.position), tip })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_arrives_as_it_was_sent() {
        let tip = Tip { epoch: Epoch::new(3), seq: Seq::new(9), hash: [5; 32], next_rev: 77 };
        let index = LogIndex { position: Position(11), tip };
        assert_eq!(from_wire(&to_wire(&index)).unwrap(), index);
        let short = ReadIndexResponse { hash: b"short".to_vec(), ..to_wire(&index) };
        assert!(from_wire(&short).is_err());
    }
}
