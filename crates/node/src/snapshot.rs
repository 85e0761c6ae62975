//! Snapshots: the whole state at one point, without stopping anybody.
//!
//! The sequencer says where the point is, between two batches, together with what has no versions:
//! leases, alarms, users. Then pointers to the versions of that point are collected in short turns.
//! Until they are, housekeeping frees nothing; from then on the pointers keep what they point to,
//! and writers and compactions go on as they like.
//!
//! A pointer is 8 bytes a version. What a version that the store has meanwhile given back costs is
//! paid until the snapshot is done with it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::oneshot;
use vetch_store::history::HistoryRun;
use vetch_store::load::Unversioned;
use vetch_store::{Mark, Record, Store};

use crate::error::NodeError;
use crate::handle::Node;
use crate::shared::{Ask, Shared};

/// The state after one journal entry.
pub struct Snapshot {
    pub mark: Mark,
    /// Sequence number of that entry.
    pub index: u64,
    pub unversioned: Unversioned,
    /// Every version that the compaction left, in order of revision.
    pub versions: Vec<Record>,
}

/// A point between two batches, as the sequencer saw it.
pub(crate) struct View {
    mark: Mark,
    seq: u64,
    unversioned: Unversioned,
    hold: Hold,
}

impl View {
    /// Called with the store locked, so that nothing is freed between the look and the hold.
    pub(crate) fn of(shared: &Arc<Shared>, store: &Store, seq: u64) -> View {
        View { mark: store.head(), seq, unversioned: store.unversioned(), hold: Hold::new(shared) }
    }
}

/// As long as there is one, housekeeping frees no version.
struct Hold(Arc<Shared>);

impl Hold {
    fn new(shared: &Arc<Shared>) -> Hold {
        shared.holds.fetch_add(1, Ordering::AcqRel);
        Hold(Arc::clone(shared))
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.0.holds.fetch_sub(1, Ordering::AcqRel) == 1 {
            // A compaction may have been waiting.
            self.0.chores.ring();
        }
    }
}

impl Node {
    /// The newest durable state. Takes a look at every key, in turns, and blocks nobody.
    pub async fn snapshot(&self) -> Result<Snapshot, NodeError> {
        let (reply, answer) = oneshot::channel();
        if self.shared().asks.try_send(Ask::View { reply }).is_err() {
            return Err(if self.shared().is_stopping() {
                NodeError::Stopped
            } else {
                NodeError::TooManyRequests
            });
        }
        let View { mark, seq, unversioned, hold } = answer.await.map_err(|_| NodeError::Stopped)?;
        self.durable(seq).await?;
        let mut run = HistoryRun::new(mark);
        let budget = self.shared().config.tuning.scan_keys;
        while !run.step(&self.shared().store.read(), budget) {
            tokio::task::yield_now().await;
        }
        drop(hold);
        let versions =
            tokio::task::spawn_blocking(move || run.finish()).await.map_err(|_| NodeError::Stopped)?;
        Ok(Snapshot { mark, index: seq, unversioned, versions })
    }
}
