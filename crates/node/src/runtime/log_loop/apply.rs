//! Apply: committed entries of other leaders.

use std::sync::Arc;

use vetch_checkpoint::replay;
use vetch_journal::{Entry, Kind, Tip};
use vetch_members::MemberList;
use vetch_members::announcement;

use super::ReplicatedLogLoop;
use crate::event::NodeEvent;
use crate::runtime::Step;

impl ReplicatedLogLoop {
    /// A committed entry of another server becomes visible, with everything that belongs to it at
    /// one instant.
    pub(super) fn apply(&mut self, entry: &Entry, tip: &Tip) -> Step {
        self.apply_announcement(entry, tip);
        if let Some(list) = MemberList::from_entry(entry)
            && self.registry.read(list, entry.seq)
        {
            self.publish_members();
            if self.registry.is_removed() {
                return self.removed();
            }
        }
        if entry.kind != Kind::Writes {
            return Step::Worked;
        }
        assert!(!self.work.is_leader, "no other server's entries are committed while this one leads");
        let revision = self.node.store.read().head().revision;
        if entry.base_rev != revision + 1 {
            let cause = format!("journal entry {} follows another revision than {revision}", entry.seq);
            return self.failed(cause);
        }
        match self.replay(entry) {
            Ok(()) => Step::Worked,
            Err(source) => self.failed(format!("journal entry {} cannot be applied: {source}", entry.seq)),
        }
    }

    /// Announcements of the leader.
    fn apply_announcement(&mut self, entry: &Entry, tip: &Tip) {
        if let Some(leader) = announcement::leader_of(entry) {
            let peers = announcement::peers_of(entry).unwrap_or_default();
            self.work.peers.set_announced(self.log.now(), peers.clone());
            // Before a request is forwarded: the leader may know no older announcement.
            self.update_cluster_info(|info| {
                info.remember_proof(tip);
                info.peers = peers;
            });
            self.update_status(|status| status.leader = Some(leader));
        }
    }

    fn replay(&mut self, entry: &Entry) -> Result<(), vetch_store::BadCommand> {
        let (node, work) = (Arc::clone(&self.node), &mut self.work);
        let compacted;
        {
            let mut store = node.store.write();
            let mut log = node.log.write();
            let before = store.visible();
            let bytes: usize = replay::commands(entry)?.iter().map(|(payload, _)| payload.len()).sum();
            let revisions = replay::replay(&mut store, entry)?;
            work.fresh_bytes += bytes as u64;
            let mark = store.head();
            assert!(
                mark.revision == entry.base_rev - 1 + revisions.len() as i64,
                "an entry adds as many revisions as it has units with changes"
            );
            compacted = before.compact_revision != mark.compact_revision;
            store.publish(mark);
            if !Arc::ptr_eq(&work.auth, store.auth()) {
                work.auth = Arc::clone(store.auth());
                node.visible.auth().publish(Arc::clone(store.auth()));
            }
            node.visible.set_alarms(store.alarms().collect());
            for unit in revisions {
                work.dirty.extend(unit.events.iter().map(|event| event.kv.clone()));
                let events: Vec<NodeEvent> = unit.events.into_iter().map(NodeEvent).collect();
                log.append(unit.revision, events.into());
            }
            if compacted {
                node.compaction.past_hashes().compacted(before.compact_revision, mark.compact_revision);
                log.compact(mark.compact_revision);
            }
            node.visible.set_revision(mark.revision);
        }
        node.watches.wake_fan_out();
        node.disk.set_fresh_bytes(work.fresh_bytes);
        if compacted || node.disk.is_stride_done() {
            node.housekeeping.ring();
        }
        Ok(())
    }

    pub(super) fn publish_members(&self) {
        let (members, key) = (self.registry.members(), self.registry.key());
        self.update_status(|status| (status.members, status.key) = (members, key));
    }
}
