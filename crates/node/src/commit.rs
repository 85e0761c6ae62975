//! Commit: the point at which a batch is durable, becomes visible to readers and watchers at one
//! instant, and is answered.

use std::sync::Arc;

use vetch_journal::Tip;
use vetch_store::request::WriteResponse;

use crate::error::NodeError;
use crate::sequencer::{Batch, LeaseChange, Outcome, Unversioned};
use crate::state::{NodeState, Reply};

/// Makes durable batches visible, in the order of the journal.
pub(crate) struct Committer {
    node: Arc<NodeState>,
}

impl Committer {
    pub(crate) fn new(node: &Arc<NodeState>) -> Committer {
        Committer { node: Arc::clone(node) }
    }

    /// `last` is the tip after the last of their entries, if there is any.
    pub(crate) fn commit(&self, batches: Vec<Batch<Reply>>, last: Option<&Tip>) {
        let mark = batches.last().expect("at least one batch was gathered").mark;
        let mut replies = Vec::new();
        batches.iter().for_each(|batch| self.count(batch));
        let compacted;
        {
            let mut store = self.node.store.write();
            let mut log = self.node.log.write();
            let mut floor = store.visible().compact_revision;
            compacted = floor != mark.compact_revision;
            store.publish(mark);
            for batch in batches {
                let before = std::mem::replace(&mut floor, batch.mark.compact_revision);
                if before != floor {
                    self.node.compaction.past_hashes().compacted(before, floor);
                }
                self.publish_unversioned(batch.unversioned);
                let last = batch.revisions.last().map(|(revision, _)| *revision);
                assert!(
                    last.is_none_or(|last| last == batch.mark.revision),
                    "a batch ends at the revision that it makes visible"
                );
                for (revision, events) in batch.revisions {
                    log.append(revision, events);
                }
                replies.push(batch.replies);
            }
            if compacted {
                log.compact(mark.compact_revision);
            }
            assert!(
                log.last() == mark.revision,
                "the event log has every visible revision and no other: it ends at {}, not at {}",
                log.last(),
                mark.revision
            );
            self.node.visible.set_revision(mark.revision);
        }
        if let Some(tip) = last {
            self.node.retention.note_durable(tip);
            self.node.visible.set_seq(tip.seq);
        }
        // Full: the fan-out thread has been woken already.
        self.node.watches.wake_fan_out();
        if compacted {
            self.node.housekeeping.ring();
        }
        for (reply, outcome) in replies.into_iter().flatten() {
            self.answer(reply, outcome);
        }
    }

    /// With the store locked, so that a reader sees a lease, its time and its keys as of one
    /// commit.
    fn publish_unversioned(&self, changed: Unversioned) {
        if let Some(auth) = changed.auth {
            self.node.visible.auth().publish(auth);
        }
        if let Some(alarms) = changed.alarms {
            self.node.visible.set_alarms(alarms);
        }
        if changed.leases.is_empty() {
            return;
        }
        let (mut lessor, now) = (self.node.leases.lessor(), self.node.clock.millis());
        for change in changed.leases {
            match change {
                // A lease's time runs from when its grant is durable.
                LeaseChange::Granted { id, grant, ttl } => lessor.start(id, grant, ttl, ttl, now),
                LeaseChange::Ended { id } => lessor.stop(id),
            }
        }
    }

    /// Counts changes, those in transactions included.
    fn count(&self, batch: &Batch<Reply>) {
        let metrics = &self.node.metrics;
        for event in batch.revisions.iter().flat_map(|(_, events)| events.as_slice()) {
            metrics.writes.events.add(1);
            if event.0.kv.is_tombstone() {
                metrics.writes.deletes.add(1);
            } else {
                metrics.writes.puts.add(1);
                metrics.writes.put_bytes.add((event.0.kv.key().len() + event.0.kv.value_len()) as u64);
            }
        }
    }

    fn answer(&self, reply: Reply, outcome: Outcome) {
        let metrics = &self.node.metrics;
        match &outcome {
            Ok(response) => {
                metrics.proposals.committed.add(1);
                self.count_lease(response);
            }
            Err(NodeError::Store(_)) => metrics.proposals.committed.add(1),
            Err(_) => metrics.proposals.failed.add(1),
        }
        metrics.proposals.pending.add(-1);
        // The client may have gone; the write stands all the same.
        let _ = reply.send(outcome);
    }

    fn count_lease(&self, response: &WriteResponse) {
        match response {
            WriteResponse::LeaseGrant { ttl, .. } => {
                self.node.metrics.leases.granted.add(1);
                self.node.metrics.leases.ttl.observe_number(u64::try_from(*ttl).unwrap_or(0));
            }
            WriteResponse::LeaseRevoke { .. } => self.node.metrics.leases.revoked.add(1),
            _ => {}
        }
    }
}
