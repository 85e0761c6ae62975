//! Snapshots: the whole state at one point, while writes go on.
//!
//! The sequencer says where the point is, between two batches, together with what has no versions:
//! leases, alarms, users. Then pointers to the versions of that point are collected in short turns.
//! Until they are, housekeeping frees nothing; from then on the pointers keep what they point to,
//! and writers and compactions go on as they like.
//!
//! A pointer is 8 bytes a version. What a version that the store has meanwhile given back costs is
//! paid until the snapshot is done with it.

use tokio::sync::oneshot;
use vetch_store::history::HistoryRun;
use vetch_store::load::Unversioned;
use vetch_store::{Mark, Record};

use crate::error::NodeError;
use crate::handle::Node;
use crate::state::{Command, SnapshotPoint};

/// The state after one journal entry.
pub struct Snapshot {
    pub mark: Mark,
    /// Sequence number of that entry.
    pub index: u64,
    pub unversioned: Unversioned,
    /// Every version that the compaction left, in order of revision.
    pub versions: Vec<Record>,
}

impl Node {
    /// The newest durable state. Visits every key, in turns, and blocks no one else.
    pub async fn snapshot(&self) -> Result<Snapshot, NodeError> {
        let (reply, answer) = oneshot::channel();
        if self.state().commands.try_send(Command::Snapshot { reply }).is_err() {
            return Err(if self.state().is_stopping() {
                NodeError::Stopped
            } else {
                NodeError::TooManyRequests
            });
        }
        let point = answer.await.map_err(|_| NodeError::Stopped)?;
        let SnapshotPoint { mark, seq, rewinds, unversioned, hold } = point;
        self.durable(seq).await?;
        if self.state().store.read().rewinds() != rewinds {
            // This point may never have been committed.
            return Err(NodeError::LeaderChanged);
        }
        let mut run = HistoryRun::new(mark);
        let budget = self.state().config.tuning.scan.keys;
        while !run.step(&self.state().store.read(), budget) {
            tokio::task::yield_now().await;
        }
        drop(hold);
        let versions =
            tokio::task::spawn_blocking(move || run.finish()).await.map_err(|_| NodeError::Stopped)?;
        Ok(Snapshot { mark, index: seq.get(), unversioned, versions })
    }
}
