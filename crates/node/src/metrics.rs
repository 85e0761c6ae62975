//! Metrics: plain numbers that the edge renders under the names its users know.

mod operation;

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use vetch_counters::{Histogram, doubling};

pub(crate) use operation::Operation;
pub use operation::{Applied, OPERATIONS};

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
    pub(crate) fn hold(&self) -> Held<'_> {
        self.add(1);
        Held(self)
    }
}

/// One that a gauge counts.
pub(crate) struct Held<'a>(&'a Gauge);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.add(-1);
    }
}

/// Counters and histograms of a node, by what they are about.
#[derive(Debug, Default)]
pub struct NodeMetrics {
    pub journal: JournalMetrics,
    pub evaluation: EvaluationMetrics,
    pub proposals: ProposalMetrics,
    pub reads: ReadMetrics,
    pub writes: WriteMetrics,
    pub leases: LeaseMetrics,
    pub compaction: CompactionMetrics,
    pub checkpoints: CheckpointMetrics,
    pub scrub: ScrubMetrics,
    pub backup: BackupMetrics,
}

#[derive(Debug)]
pub struct JournalMetrics {
    /// Waiting until a record is durable.
    pub sync: Histogram,
    /// Writing a record to the operating system.
    pub write: Histogram,
    /// Both together.
    pub append: Histogram,
    pub bytes: Counter,
    pub appends: Counter,
}

#[derive(Debug)]
pub struct EvaluationMetrics {
    /// Evaluating one batch.
    pub batch: Histogram,
    /// Evaluating single requests, by operation.
    pub requests: Applied,
    /// Requests, reads among them, that took longer than they should.
    pub slow: Counter,
    /// 1 while the quota is nearly reached.
    pub near_quota: Gauge,
}

/// Requests submitted to the sequencer.
#[derive(Debug, Default)]
pub struct ProposalMetrics {
    pub committed: Counter,
    pub failed: Counter,
    pub pending: Gauge,
    /// Batches with changes that were taken back because another server leads.
    pub rewound: Counter,
}

#[derive(Debug)]
pub struct ReadMetrics {
    pub ranges: Counter,
    /// Serving one range.
    pub range: Histogram,
    /// Serving one that was refused or given up.
    pub failed_range: Histogram,
    /// Ranges, read-only transactions and hashes in progress.
    pub open: Gauge,
    /// Linearizable reads that were not confirmed in time, on a shared journal.
    pub unconfirmed: Counter,
    /// A hash of everything, and of everything up to a revision.
    pub hash: Histogram,
    pub hash_at_revision: Histogram,
}

#[derive(Debug, Default)]
pub struct WriteMetrics {
    pub puts: Counter,
    pub deletes: Counter,
    pub txns: Counter,
    pub put_bytes: Counter,
    pub events: Counter,
}

#[derive(Debug)]
pub struct LeaseMetrics {
    pub granted: Counter,
    pub revoked: Counter,
    pub renewed: Counter,
    /// Renewals that first had to withdraw the time left that the journal had on record.
    pub records_withdrawn: Counter,
    pub expired: Counter,
    /// The TTL of granted leases.
    pub ttl: Histogram,
}

#[derive(Debug)]
pub struct CompactionMetrics {
    /// Freeing what one compaction made unreachable.
    pub duration: Histogram,
    pub millis: Histogram,
    /// One step of that, with the store locked.
    pub pause: Histogram,
    pub index_pause: Histogram,
    pub versions: Counter,
    /// As [`CheckpointMetrics::taken_at`], for the newest compaction that gave its memory back.
    pub done_at: Gauge,
}

#[derive(Debug)]
pub struct CheckpointMetrics {
    pub duration: Histogram,
    /// When the newest was taken, in milliseconds since the start, counted from 1; 0: not yet.
    pub taken_at: Gauge,
    pub bytes: Counter,
    pub failures: Counter,
    /// Checkpoints written from memory to replace a damaged one.
    pub healed: Counter,
}

#[derive(Debug, Default)]
pub struct ScrubMetrics {
    /// Damaged files found, counted each time.
    pub damage_found: Counter,
    /// Bytes read, and times that everything was read.
    pub bytes: Counter,
    pub runs: Counter,
    /// As [`CheckpointMetrics::taken_at`], for the last time that everything had been read.
    pub done_at: Gauge,
}

impl CompactionMetrics {
    /// One step held the store, index and versions alike, for this long.
    pub(crate) fn paused(&self, held: Duration) {
        let millis = millis(held);
        self.pause.observe_number(millis);
        self.index_pause.observe_number(millis);
    }

    pub(crate) fn done(&self, took: Duration, versions: u64) {
        self.duration.observe(took);
        self.millis.observe_number(millis(took));
        self.versions.add(versions);
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
    /// How often journal entries were dropped that were not in the backup.
    pub retention_dropped: Counter,
}

impl Default for JournalMetrics {
    fn default() -> JournalMetrics {
        JournalMetrics {
            sync: Histogram::new(DISK_BOUNDS),
            write: Histogram::new(DISK_BOUNDS),
            append: Histogram::new(DISK_BOUNDS),
            bytes: Counter::default(),
            appends: Counter::default(),
        }
    }
}

impl Default for EvaluationMetrics {
    fn default() -> EvaluationMetrics {
        EvaluationMetrics {
            batch: Histogram::new(APPLY_BOUNDS),
            requests: Applied::default(),
            slow: Counter::default(),
            near_quota: Gauge::default(),
        }
    }
}

impl Default for ReadMetrics {
    fn default() -> ReadMetrics {
        ReadMetrics {
            ranges: Counter::default(),
            range: Histogram::new(APPLY_BOUNDS),
            failed_range: Histogram::new(APPLY_BOUNDS),
            open: Gauge::default(),
            unconfirmed: Counter::default(),
            hash: Histogram::new(HASH_BOUNDS),
            hash_at_revision: Histogram::new(HASH_BOUNDS),
        }
    }
}

impl Default for LeaseMetrics {
    fn default() -> LeaseMetrics {
        LeaseMetrics {
            granted: Counter::default(),
            revoked: Counter::default(),
            renewed: Counter::default(),
            records_withdrawn: Counter::default(),
            expired: Counter::default(),
            ttl: Histogram::of_numbers(LEASE_BOUNDS),
        }
    }
}

impl Default for CompactionMetrics {
    fn default() -> CompactionMetrics {
        CompactionMetrics {
            duration: Histogram::new(DISK_BOUNDS),
            millis: Histogram::of_numbers(COMPACTION_BOUNDS),
            pause: Histogram::of_numbers(PAUSE_BOUNDS),
            index_pause: Histogram::of_numbers(INDEX_PAUSE_BOUNDS),
            versions: Counter::default(),
            done_at: Gauge::default(),
        }
    }
}

impl Default for CheckpointMetrics {
    fn default() -> CheckpointMetrics {
        CheckpointMetrics {
            duration: Histogram::new(DISK_BOUNDS),
            taken_at: Gauge::default(),
            bytes: Counter::default(),
            failures: Counter::default(),
            healed: Counter::default(),
        }
    }
}
