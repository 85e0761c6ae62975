//! Frees what compactions made unreachable, a little at a time, with turns for all others.

use std::time::Instant;

use vetch_seeded_bugs::Bug;
use vetch_store::hash::{HashRun, PastHash};
use vetch_store::{Freed, Record};
use vetch_sync::RwLockWriteGuard;
use vetch_watch::Revision;

use super::checkpoints::Checkpoints;
use crate::state::NodeState;

pub(super) fn run(node: &NodeState, checkpoints: &mut Checkpoints) {
    let allowed = !checkpoints.is_capturing() || vetch_seeded_bugs::on(Bug::FreedWhileCaptured);
    assert!(allowed, "no version is freed between a capture and its checkpoint");
    let began = Instant::now();
    let compacted = node.store.read().visible().compact_revision;
    let Some((freed_to, versions)) = free_versions(node, checkpoints) else { return };
    drop_previous_values(node);
    trim_events(node);
    if versions > 0 {
        node.metrics.compaction.done(began.elapsed(), versions);
    }
    let done = freed_to.min(compacted);
    let is_new = node.compaction.set_freed(done);
    if is_new && done == compacted && done > 0 {
        node.metrics.compaction.done_at.set(node.clock.gauge_time());
    }
}

/// How far versions are freed now, and how many were; None if it has to be done later.
fn free_versions(node: &NodeState, checkpoints: &mut Checkpoints) -> Option<(i64, u64)> {
    let mut versions = 0;
    let mut freed: Vec<Record> = Vec::new();
    loop {
        let mut store = node.store.write();
        // The last snapshot to finish rings the bell.
        if node.compaction.is_collecting() {
            return None;
        }
        let unhashed = node.compaction.past_hashes().next_to_hash();
        if let Some(past) = unhashed {
            drop(store);
            if !hash_past(node, &past) {
                return None;
            }
            continue;
        }
        let held = Instant::now();
        let limit = node.compaction.pins().limit(store.visible().compact_revision, node.clock.now());
        let done = store.compact_step_upto(node.config.compaction_batch, limit, &mut freed);
        let freed_to = store.freed_to();
        RwLockWriteGuard::unlock_fair(store);
        let held = held.elapsed();
        if !freed.is_empty() {
            node.metrics.compaction.paused(held);
        }
        versions += freed.len() as u64;
        let sizes: Vec<Freed> = freed.iter().map(Freed::from).collect();
        checkpoints.checkpointer_mut().note_freed(&sizes);
        freed.clear();
        if done {
            return Some((freed_to, versions));
        }
        if node.is_stopping() {
            return None;
        }
    }
}

/// Hashes history as a compaction found it, which is impossible once something has been freed for
/// it. False: the node is stopping.
fn hash_past(node: &NodeState, past: &PastHash) -> bool {
    let mut run = HashRun::in_compaction(past);
    loop {
        let step = run.step(&node.store.read(), node.config.tuning.scan.keys);
        if node.is_stopping() {
            return false;
        }
        if step != Some(false) {
            break;
        }
    }
    let hash = run.finish();
    node.compaction.past_hashes().hashed(past.revision, hash);
    true
}

/// Events of the compacted revision must not keep alive the versions they replaced, once all
/// followers of the log have been given them.
fn drop_previous_values(node: &NodeState) {
    let matched = node.hub.read().published();
    let heavy = node.log.read().heavy_floor(matched);
    let Some(Revision { rev, events }) = heavy else { return };
    let lighter = Revision { rev, events: events.without_previous() };
    let replaced = node.log.write().lighten(lighter);
    drop(replaced);
}

fn trim_events(node: &NodeState) {
    let tuning = &node.config.tuning;
    let floor = node.log.read().floor();
    // Not at the commit, which waits for no watcher: what it leads to is done here anyway.
    node.hub.write().compact(floor);
    loop {
        let matched = node.hub.read().published();
        let trimmed = node.log.write().trim_step(tuning.watch.trim_revisions, matched);
        if trimmed.done {
            break;
        }
    }
    while !node.hub.write().sweep_step(tuning.watch.sweep_groups) {}
}
