//! Tuning: the internal limits of a node, in one place.
//!
//! Nobody has to know them to run a server; the defaults are right. They are data so that
//! simulations and tests can make each of them absurdly small, which is how the code behind a limit
//! gets exercised.

use std::time::Duration;

use vetch_watch::{Budget, RingLimit};

use vetch_checkpoint::CheckpointConfig;

#[derive(Debug, Clone)]
pub struct Tuning {
    /// Journal segments kept ready. Two, so that when the disk fills up there is still one for
    /// deletes.
    pub spare_segments: usize,
    /// Payload bytes after which a batch is closed.
    pub batch_bytes: usize,
    /// Requests up to which a batch is short: the sequencer's thread may sync it itself.
    pub short_batch: usize,
    /// Evaluations after which readers waiting for the store get a turn, and keys examined or
    /// changed by evaluations.
    pub turn: usize,
    pub turn_work: u64,
    /// Keys examined or changed after which a batch is closed: those whom it answers wait for all
    /// of it.
    pub batch_work: u64,
    /// Bytes of entries after which a journal record is closed, so that one sync never covers too
    /// much.
    pub record_bytes: usize,
    /// Requests that are worth a record of a shared journal of their own while others are under
    /// way.
    pub record_requests: usize,
    /// Recent matches kept for each distinct watched range; a watcher further behind reads the
    /// event log.
    pub ring: RingLimit,
    /// What one drain of a watch stream may produce and look at.
    pub drain: Budget,
    /// Revisions matched per turn, so that streams reading the rings are not kept out for long.
    pub fan_out_revisions: usize,
    /// Keys examined, and bytes collected, with the store locked by a reader.
    pub scan_keys: usize,
    pub scan_bytes: usize,
    /// Bytes of a streamed range that are made, and sent, at once: more would take longer than
    /// others should wait.
    pub chunk_bytes: usize,
    /// Event-log revisions dropped, and watcher groups swept, per turn.
    pub trim_revisions: usize,
    pub sweep_groups: usize,
    /// Records looked up per turn of a checkpoint.
    pub lookups: usize,
    /// Most bytes between two checkpoints, whatever the size of the store.
    pub stride_max: u64,
    /// Bytes of a new checkpoint that are read back at once.
    pub read_back_bytes: u64,
    /// Unreachable bytes in checkpoint files that are not worth a run of their own.
    pub bloat_floor: u64,
    pub checkpoint: CheckpointConfig,
    /// Leases revoked per tick of the clock; the rest follows in the next ones.
    pub expired_per_tick: usize,
    /// How often the time left of leases is written down, of which leases (in seconds of their full
    /// time), and how many at once.
    pub record_every: Duration,
    pub recorded_ttl: i64,
    pub records_per_request: usize,
    /// Differences below this many seconds are not worth writing down.
    pub record_slack: i64,
    /// What a new journal is called, which nothing but its own records must know. None: chosen at
    /// random.
    pub new_journal_id: Option<u64>,
    /// Threads that decode a checkpoint at start; 0: the calling one.
    pub recovery_threads: usize,
}

/// One for each processor; none if there is only one, which would only pass the work from thread to
/// thread.
fn recovery_threads() -> usize {
    std::thread::available_parallelism().map_or(0, |processors| match processors.get() {
        1 => 0,
        several => several,
    })
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning {
            spare_segments: 2,
            batch_bytes: 4 << 20,
            short_batch: 64,
            turn: 64,
            turn_work: 8192,
            batch_work: 256 << 10,
            record_requests: 64,
            record_bytes: 16 << 20,
            ring: RingLimit { revisions: 512, bytes: 256 << 10 },
            drain: Budget::default(),
            fan_out_revisions: 256,
            scan_keys: 1000,
            scan_bytes: 1 << 20,
            chunk_bytes: 256 << 10,
            trim_revisions: 4096,
            sweep_groups: 256,
            lookups: 512,
            stride_max: 256 << 20,
            read_back_bytes: 8 << 20,
            bloat_floor: 64 << 20,
            checkpoint: CheckpointConfig::default(),
            expired_per_tick: 4096,
            record_every: Duration::from_secs(300),
            record_slack: 5,
            recorded_ttl: 300,
            records_per_request: 1000,
            new_journal_id: None,
            recovery_threads: recovery_threads(),
        }
    }
}
