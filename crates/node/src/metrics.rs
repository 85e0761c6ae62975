//! Metrics: plain numbers that the edge renders under the names its users know.

mod histogram;
mod operation;

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

pub use histogram::Histogram;
pub(crate) use operation::Operation;
pub use operation::{Applied, OPERATIONS};

use histogram::doubling;

/// 1 ms doubling up to 8 s.
pub const DISK_BOUNDS: &[f64] = &doubling::<14>(0.001);
/// 0.1 ms doubling up to 52 s.
pub const APPLY_BOUNDS: &[f64] = &doubling::<20>(0.0001);
/// 10 ms doubling up to 164 s.
pub const HASH_BOUNDS: &[f64] = &doubling::<15>(0.01);
/// Whole milliseconds; the second is for the index.
pub const PAUSE_BOUNDS: &[f64] = &doubling::<13>(1.0);
pub const INDEX_PAUSE_BOUNDS: &[f64] = &doubling::<14>(0.5);
pub const COMPACTION_BOUNDS: &[f64] = &doubling::<14>(100.0);
/// Seconds that leases were granted for.
pub const LEASE_BOUNDS: &[f64] = &doubling::<24>(1.0);

#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug, Default)]
pub struct Gauge(AtomicI64);

impl Gauge {
    pub fn set(&self, n: i64) {
        self.0.store(n, Ordering::Relaxed);
    }

    pub fn add(&self, n: i64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub fn get(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Counts something as there until what is returned is dropped.
    pub(crate) fn hold(&self) -> PinnedCheckpoint<'_> {
        self.add(1);
        PinnedCheckpoint(self)
    }
}

/// One that a gauge counts.
pub(crate) struct PinnedCheckpoint<'a>(&'a Gauge);

impl Drop for PinnedCheckpoint<'_> {
    fn drop(&mut self) {
        self.0.add(-1);
    }
}

#[derive(Debug)]
pub struct NodeMetrics {
    /// Waiting until a journal record is durable.
    pub fsync: Histogram,
    /// Handing a journal record to the operating system.
    pub write: Histogram,
    /// Both together.
    pub commit: Histogram,
    pub append_bytes: Counter,
    pub appends: Counter,
    /// Evaluating one batch.
    pub apply: Histogram,
    /// Evaluating single requests, by what they ask for.
    pub applied: Applied,
    /// Requests, reads among them, that took longer than they should.
    pub slow_applies: Counter,
    /// Serving one range.
    pub range: Histogram,
    /// Serving one that was refused or given up.
    pub failed_range: Histogram,
    /// Ranges, transactions that only read, and hashes being worked on.
    pub open_reads: Gauge,
    /// Reads that got no proof in time that nothing newer exists, on a shared journal.
    pub reads_unconfirmed: Counter,
    /// A hash of everything, and of everything up to a revision.
    pub hash: Histogram,
    pub hash_at_revision: Histogram,
    pub checkpoint: Histogram,
    /// When the newest was taken, in milliseconds since the start, which count from 1; 0 for not
    /// yet.
    pub checkpoint_at: Gauge,
    pub checkpoint_bytes: Counter,
    pub checkpoint_failures: Counter,
    /// Damaged files found, each time one is; checkpoints written from memory to replace a damaged
    /// one.
    pub damage_found: Counter,
    pub checkpoints_healed: Counter,
    /// Bytes read to look for damage, and times that everything was read.
    pub scrub_bytes: Counter,
    pub scrubs: Counter,
    /// As `checkpoint_at`, for the last time that everything had been read.
    pub scrubbed_at: Gauge,
    /// Freeing what one compaction made unreachable.
    pub compaction: Histogram,
    pub compaction_millis: Histogram,
    /// One step of that, with the store locked.
    pub compaction_pause: Histogram,
    pub index_pause: Histogram,
    pub compacted_versions: Counter,
    /// As `checkpoint_at`, for the newest compaction that gave its memory back.
    pub compacted_at: Gauge,
    pub proposals_committed: Counter,
    pub proposals_failed: Counter,
    pub proposals_pending: Gauge,
    /// 1 while the quota is nearly reached.
    pub near_quota: Gauge,
    pub ranges: Counter,
    pub puts: Counter,
    pub deletes: Counter,
    pub txns: Counter,
    pub put_bytes: Counter,
    pub events: Counter,
    pub leases_granted: Counter,
    pub leases_revoked: Counter,
    pub leases_renewed: Counter,
    /// Renewals that first had to take back what the journal said of the time left.
    pub lease_records_taken_back: Counter,
    pub leases_expired: Counter,
    /// How long leases were granted for.
    pub lease_ttl: Histogram,
    pub backup: BackupMetrics,
}

impl NodeMetrics {
    /// One step of a compaction held the store, index and versions alike, for this long.
    pub(crate) fn compaction_paused(&self, held: Duration) {
        let millis = millis(held);
        self.compaction_pause.observe_number(millis);
        self.index_pause.observe_number(millis);
    }

    pub(crate) fn compacted(&self, took: Duration, versions: u64) {
        self.compaction.observe(took);
        self.compaction_millis.observe_number(millis(took));
        self.compacted_versions.add(versions);
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// What became of backups. Times are in milliseconds since 1970.
#[derive(Debug, Default)]
pub struct BackupMetrics {
    /// Everything up to this revision is in the backup, and that was so at this time.
    pub revision: Gauge,
    pub time: Gauge,
    /// Entries that are durable and not yet in the backup.
    pub lag: Gauge,
    pub full_revision: Gauge,
    pub full_time: Gauge,
    pub fulls: Counter,
    pub chunks: Counter,
    pub bytes: Counter,
    pub failures: Counter,
    /// How often journal had to be let go that was not in the backup.
    pub retention_dropped: Counter,
}

impl Default for NodeMetrics {
    fn default() -> NodeMetrics {
        NodeMetrics {
            fsync: Histogram::new(DISK_BOUNDS),
            write: Histogram::new(DISK_BOUNDS),
            commit: Histogram::new(DISK_BOUNDS),
            append_bytes: Counter::default(),
            appends: Counter::default(),
            apply: Histogram::new(APPLY_BOUNDS),
            applied: Applied::default(),
            slow_applies: Counter::default(),
            range: Histogram::new(APPLY_BOUNDS),
            failed_range: Histogram::new(APPLY_BOUNDS),
            open_reads: Gauge::default(),
            reads_unconfirmed: Counter::default(),
            hash: Histogram::new(HASH_BOUNDS),
            hash_at_revision: Histogram::new(HASH_BOUNDS),
            checkpoint: Histogram::new(DISK_BOUNDS),
            checkpoint_at: Gauge::default(),
            checkpoint_bytes: Counter::default(),
            checkpoint_failures: Counter::default(),
            damage_found: Counter::default(),
            checkpoints_healed: Counter::default(),
            scrub_bytes: Counter::default(),
            scrubs: Counter::default(),
            scrubbed_at: Gauge::default(),
            compaction: Histogram::new(DISK_BOUNDS),
            compaction_millis: Histogram::of_numbers(COMPACTION_BOUNDS),
            compaction_pause: Histogram::of_numbers(PAUSE_BOUNDS),
            index_pause: Histogram::of_numbers(INDEX_PAUSE_BOUNDS),
            compacted_versions: Counter::default(),
            compacted_at: Gauge::default(),
            proposals_committed: Counter::default(),
            proposals_failed: Counter::default(),
            proposals_pending: Gauge::default(),
            near_quota: Gauge::default(),
            ranges: Counter::default(),
            puts: Counter::default(),
            deletes: Counter::default(),
            txns: Counter::default(),
            put_bytes: Counter::default(),
            events: Counter::default(),
            leases_granted: Counter::default(),
            leases_revoked: Counter::default(),
            leases_renewed: Counter::default(),
            lease_records_taken_back: Counter::default(),
            leases_expired: Counter::default(),
            lease_ttl: Histogram::of_numbers(LEASE_BOUNDS),
            backup: BackupMetrics::default(),
        }
    }
}
