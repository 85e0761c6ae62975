//! Tuning: the internal limits of a node, in one place.
//!
//! An operator does not need them; the defaults are right. They are data so that simulations and
//! tests can make each of them absurdly small, which is how the code behind a limit gets exercised.

use std::time::Duration;

use vetch_checkpoint::CheckpointConfig;
use vetch_watch::{Budget, RingLimit};

#[derive(Debug, Clone, Default)]
pub struct Tuning {
    pub journal: JournalTuning,
    pub batch: BatchTuning,
    pub watch: WatchTuning,
    pub scan: ScanTuning,
    pub checkpoints: CheckpointTuning,
    pub leases: LeaseTuning,
}

#[derive(Debug, Clone)]
pub struct JournalTuning {
    /// Segments kept ready. Two, so that when the disk fills up there is still one for deletes.
    pub spare_segments: usize,
    /// Bytes of entries after which a record is closed, so that one sync never covers too much.
    pub record_bytes: usize,
    /// Requests that are worth a record of a shared journal of their own while others are in
    /// flight.
    pub record_requests: usize,
    /// The name of a new journal, which only its own records contain. None: random.
    pub new_id: Option<u64>,
}

#[derive(Debug, Clone)]
pub struct BatchTuning {
    /// Payload bytes after which a batch is closed.
    pub bytes: usize,
    /// Keys examined or changed after which a batch is closed: all its clients wait for all of it.
    pub work: u64,
    /// Requests up to which a batch is short: the sequencer's thread may commit it itself.
    pub short_requests: usize,
    /// Evaluations after which readers that wait for the store get a turn, and keys examined or
    /// changed by evaluations.
    pub turn_requests: usize,
    pub turn_work: u64,
}

#[derive(Debug, Clone)]
pub struct WatchTuning {
    /// Recent matches kept for each distinct watched range; a watcher further behind reads the
    /// event log.
    pub ring: RingLimit,
    /// What one drain of a watch stream may produce and examine.
    pub drain: Budget,
    /// Revisions given to the hub at once, and how much of the matching it does per turn, so that
    /// streams reading the rings are not kept out for long: watched ranges looked at, and streams
    /// told.
    pub fan_out_revisions: usize,
    pub fan_out_work: usize,
    /// Event-log revisions dropped, and watcher groups swept, per turn.
    pub trim_revisions: usize,
    pub sweep_groups: usize,
}

#[derive(Debug, Clone)]
pub struct ScanTuning {
    /// Keys examined, and bytes collected, with the store locked by a reader.
    pub keys: usize,
    pub bytes: usize,
    /// Bytes of a streamed range that are produced and sent at once; more would delay others.
    pub chunk_bytes: usize,
}

#[derive(Debug, Clone)]
pub struct CheckpointTuning {
    pub files: CheckpointConfig,
    /// Records looked up per turn of a checkpoint.
    pub lookups: usize,
    /// The largest distance between two checkpoints in bytes, whatever the size of the store.
    pub stride_max: u64,
    /// Bytes of a new checkpoint that are read back at once.
    pub read_back_bytes: u64,
    /// Unreachable bytes in checkpoint files that are not worth a run of their own.
    pub bloat_floor: u64,
    /// Threads that decode a checkpoint at start; 0: the calling one.
    pub recovery_threads: usize,
}

#[derive(Debug, Clone)]
pub struct LeaseTuning {
    /// Leases revoked per tick; the rest follows in the next ones.
    pub expired_per_tick: usize,
    /// How often the time left of leases is journalled, of which leases (in seconds of their full
    /// time), and how many at once.
    pub record_interval: Duration,
    pub recorded_ttl_min: i64,
    pub records_per_request: usize,
    /// Differences below this many seconds are not journalled.
    pub record_slack: i64,
}

impl Default for JournalTuning {
    fn default() -> JournalTuning {
        JournalTuning { spare_segments: 2, record_bytes: 16 << 20, record_requests: 64, new_id: None }
    }
}

impl Default for BatchTuning {
    fn default() -> BatchTuning {
        BatchTuning {
            bytes: 4 << 20,
            work: 256 << 10,
            short_requests: 64,
            turn_requests: 64,
            turn_work: 8192,
        }
    }
}

impl Default for WatchTuning {
    fn default() -> WatchTuning {
        WatchTuning {
            ring: RingLimit { revisions: 512, bytes: 256 << 10 },
            drain: Budget::default(),
            fan_out_revisions: 256,
            fan_out_work: 8192,
            trim_revisions: 4096,
            sweep_groups: 256,
        }
    }
}

impl Default for ScanTuning {
    fn default() -> ScanTuning {
        ScanTuning { keys: 1000, bytes: 1 << 20, chunk_bytes: 256 << 10 }
    }
}

impl Default for CheckpointTuning {
    fn default() -> CheckpointTuning {
        CheckpointTuning {
            files: CheckpointConfig::default(),
            lookups: 512,
            stride_max: 256 << 20,
            read_back_bytes: 8 << 20,
            bloat_floor: 64 << 20,
            recovery_threads: recovery_threads(),
        }
    }
}

impl Default for LeaseTuning {
    fn default() -> LeaseTuning {
        LeaseTuning {
            expired_per_tick: 4096,
            record_interval: Duration::from_secs(300),
            recorded_ttl_min: 300,
            records_per_request: 1000,
            record_slack: 5,
        }
    }
}

/// One for each processor; none if there is only one, where threads would only pass the work
/// around.
fn recovery_threads() -> usize {
    std::thread::available_parallelism().map_or(0, |processors| match processors.get() {
        1 => 0,
        several => several,
    })
}
