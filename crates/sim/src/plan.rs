//! The plan of a run: sizes, limits and shares, drawn from the seed before anything happens.

use std::path::PathBuf;
use std::time::Duration;

use vetch_checkpoint::CheckpointConfig;
use vetch_checkpoint::identity::Identity;
use vetch_node::config::NodeConfig;
use vetch_node::tuning::Tuning;
use vetch_watch::{Budget, RingLimit};

use crate::keys;
use crate::time::{MILLI, SECOND};
use vetch_testkit::random::Rng;

/// Shares of requests, in percent; what is left are ranges.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mix {
    pub(crate) puts: u64,
    pub(crate) deletes: u64,
    pub(crate) txns: u64,
    pub(crate) leases: u64,
    pub(crate) compactions: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) node: NodeConfig,
    pub(crate) keys: Vec<Vec<u8>>,
    pub(crate) value_bytes: u64,
    pub(crate) mix: Mix,
    pub(crate) leased_puts: u64,
    pub(crate) ttls: Vec<i64>,
    /// Leases share this many ids, so that one is granted again soon after it ended; 0: every lease
    /// has its own.
    pub(crate) lease_ids: u64,
    pub(crate) clients: u32,
    pub(crate) streams: u32,
    pub(crate) lives: u64,
    /// Virtual time that a life may last, and that a client thinks between two requests.
    pub(crate) life_nanos: u64,
    pub(crate) think_nanos: u64,
    /// Requests over the whole run, as a bound on its cost.
    pub(crate) requests: u64,
    /// Compactions do not overtake the observer of everything.
    pub(crate) spare_observer: bool,
    /// Files are encrypted, and keys change.
    pub(crate) encrypted: bool,
    /// Several servers answer, each as far as it has come where that is allowed.
    pub(crate) in_cluster: bool,
}

impl Plan {
    pub(crate) fn draw(rng: &mut Rng) -> Plan {
        let value_bytes = *rng.pick(&[16, 64, 300, 3000]);
        let life_nanos = *rng.pick(&[200 * MILLI, SECOND, 4 * SECOND, 25 * SECOND]);
        let long = life_nanos > 10 * SECOND;
        let spare_observer = rng.percent(85);
        let keys_used = names(rng);
        let largest = keys_used.iter().map(Vec::len).max().unwrap_or(0) as u64 + value_bytes;
        let mut plan = Plan {
            node: node(rng, largest),
            keys: keys_used,
            value_bytes,
            mix: *rng.pick(MIXES),
            // Revisions that no client saw can be explained by any request of unknown outcome; one
            // that needed a lease would have to be explained together with the life of that lease,
            // which the checker does not attempt.
            leased_puts: if spare_observer { *rng.pick(&[0, 5, 25]) } else { 0 },
            ttls: if long { vec![7, 15] } else { ttls(rng) },
            lease_ids: if rng.percent(25) { rng.between(1, 3) } else { 0 },
            clients: *rng.pick(&[2, 4, 6, 12]),
            streams: *rng.pick(&[1, 2, 4]),
            lives: rng.between(2, 6),
            life_nanos,
            think_nanos: if long { 500 * MILLI } else { *rng.pick(&[MILLI, 10 * MILLI, 60 * MILLI]) },
            requests: rng.between(150, 700),
            spare_observer,
            encrypted: false,
            in_cluster: false,
        };
        plan.encrypted = rng.percent(40);
        if plan.encrypted {
            plan.node.keys = keys::draw(rng.below(keys::COUNT));
        }
        plan
    }
}

const MIXES: &[Mix] = &[
    Mix { puts: 30, deletes: 10, txns: 20, leases: 10, compactions: 4 },
    Mix { puts: 60, deletes: 5, txns: 10, leases: 2, compactions: 2 },
    Mix { puts: 15, deletes: 15, txns: 25, leases: 25, compactions: 3 },
    Mix { puts: 25, deletes: 20, txns: 15, leases: 5, compactions: 12 },
];

fn names(rng: &mut Rng) -> Vec<Vec<u8>> {
    let count = *rng.pick(&[3, 3, 8, 8, 24, 24, 100]);
    // With keys as long as this, a delete of all of them is journalled as a range.
    let pad = if count == 24 && rng.percent(30) { 800 } else { 0 };
    let name = |n: usize| format!("{}/{}{:.<pad$}", ['a', 'b', 'c'][n % 3], n / 3, "");
    let mut keys: Vec<Vec<u8>> = (0..count).map(|n| name(n).into_bytes()).collect();
    if rng.percent(30) {
        keys.extend([vec![0], vec![0, 0], vec![0xff], vec![0xff, 0xff], b"a".to_vec(), b"a/0\0".to_vec()]);
    }
    keys
}

fn ttls(rng: &mut Rng) -> Vec<i64> {
    match rng.below(3) {
        0 => vec![1, 2],
        // Long ones often, because only they are recorded, after five seconds without a renewal.
        1 => vec![3, 10, 10],
        _ => vec![2, 600, 600],
    }
}

fn node(rng: &mut Rng, largest: u64) -> NodeConfig {
    let identity = Identity { cluster_id: 7, member_id: 9 };
    let mut config = NodeConfig::new(PathBuf::from("/data"), identity);
    config.min_lease_ttl = *rng.pick(&[1, 2]);
    config.journal_segment_bytes = *rng.pick(&[4 << 10, 16 << 10, 64 << 10]);
    // Marks of deletion count as well, and must leave room when everything has been deleted.
    let least = (largest * 200).max(60 << 10);
    config.quota_bytes = if rng.percent(25) { rng.between(least, 2 * least) as i64 } else { 0 };
    config.checkpoint_bytes = *rng.pick(&[1 << 10, 4 << 10, 32 << 10, 1 << 20]);
    config.checkpoint_interval = Duration::from_millis(*rng.pick(&[300, 2000, 300_000]));
    config.queue_depth = *rng.pick(&[2, 16, 512]);
    config.batch_requests = *rng.pick(&[1, 2, 64]);
    config.appends_in_flight = *rng.pick(&[1, 2, 4]);
    config.watch_progress_interval = Duration::from_millis(*rng.pick(&[200, 1500, 600_000]));
    config.compaction_batch = *rng.pick(&[1, 3, 256]);
    config.request_timeout = Duration::from_millis(*rng.pick(&[300, 2000, 7000]));
    config.tuning = tuning(rng);
    config
}

/// Limits so small that everything behind them is used all the time, and now and then the ones that
/// ship.
fn tuning(rng: &mut Rng) -> Tuning {
    let mut tuning = Tuning::default();
    tuning.checkpoints.recovery_threads = 0;
    tuning.journal.new_id = Some(7);
    if rng.percent(10) {
        return tuning;
    }
    tuning.journal.spare_segments = *rng.pick(&[1, 2]);
    tuning.batch.bytes = *rng.pick(&[1, 500, 4 << 20]);
    tuning.batch.short_requests = *rng.pick(&[0, 1, 8]);
    tuning.batch.turn_work = *rng.pick(&[1, 1, 5, 8192]);
    tuning.batch.work = *rng.pick(&[1, 4, 40, 256 << 10]);
    tuning.journal.record_requests = *rng.pick(&[1, 3, 64]);
    tuning.journal.record_bytes = *rng.pick(&[1, 2000, 16 << 20]);
    tuning.watch.ring =
        RingLimit { revisions: *rng.pick(&[1, 3, 512]), bytes: *rng.pick(&[1, 500, 256 << 10]) };
    tuning.watch.drain = Budget {
        responses: *rng.pick(&[1, 3, 256]),
        events: *rng.pick(&[1, 4, 4096]),
        bytes: *rng.pick(&[1, 400, 1 << 20]),
        examined: *rng.pick(&[1, 7, 2048]),
    };
    tuning.watch.fan_out_revisions = *rng.pick(&[1, 4, 256]);
    tuning.watch.fan_out_work = *rng.pick(&[1, 2, 5, 8192]);
    tuning.scan.keys = *rng.pick(&[1, 3, 1000]);
    tuning.scan.bytes = *rng.pick(&[1, 200, 1 << 20]);
    tuning.scan.chunk_bytes = tuning.scan.bytes;
    tuning.watch.trim_revisions = *rng.pick(&[1, 5, 4096]);
    tuning.watch.sweep_groups = *rng.pick(&[1, 256]);
    tuning.checkpoints.lookups = *rng.pick(&[1, 4, 512]);
    tuning.checkpoints.stride_max = *rng.pick(&[1 << 10, 256 << 20]);
    tuning.checkpoints.bloat_floor = *rng.pick(&[0, 4 << 10, 64 << 20]);
    tuning.checkpoints.files = CheckpointConfig {
        rewrite_bytes: *rng.pick(&[1 << 10, 16 << 10, 256 << 20]),
        rewrite_floor: *rng.pick(&[0, 2 << 10, 8 << 20]),
        small_file: *rng.pick(&[1, 1 << 10, 1 << 20]),
        max_files: *rng.pick(&[1, 2, 5, 48]),
        block_bytes: *rng.pick(&[1, 300, 128 << 10]),
    };
    tuning.leases.expired_per_tick = *rng.pick(&[1, 4096]);
    tuning.leases.record_interval = Duration::from_millis(*rng.pick(&[300, 300, 3000, 300_000]));
    tuning.leases.record_slack = *rng.pick(&[1, 1, 5]);
    tuning.leases.recorded_ttl_min = *rng.pick(&[1, 8, 8, 300]);
    tuning.leases.records_per_request = *rng.pick(&[2, 1000]);
    tuning
}
