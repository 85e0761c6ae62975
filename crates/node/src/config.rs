//! Configuration of a node. Plain data; every value has a default that suits one machine.

use std::path::PathBuf;
use std::time::Duration;

use vetch_checkpoint::identity::Identity;
use vetch_encryption::EncryptionKeys;

use crate::tuning::Tuning;

const DEFAULT_QUOTA: u64 = 2 << 30;

#[derive(Debug, Clone)]
pub struct NodeConfig {
    /// State lives in `<data_dir>/member`.
    pub data_dir: PathBuf,
    /// Used at the first start only; afterwards the identity on disk wins.
    pub proposed: Identity,
    /// Shorter leases are raised to this many seconds.
    pub min_lease_ttl: i64,
    /// Limit on the bytes of all versions in memory. 0: 2 GiB. Negative: none.
    pub quota_bytes: i64,
    pub journal_segment_bytes: u64,
    /// A checkpoint is taken when about this many bytes of new versions were made since the last
    /// one, or more in a large store.
    pub checkpoint_bytes: u64,
    /// A checkpoint is taken at least this often while there are new versions.
    pub checkpoint_interval: Duration,
    /// Everything on disk is read once in this time, in order to find out what is damaged. Zero:
    /// never.
    pub scrub_interval: Duration,
    /// Acknowledge before the disk has it. For tests and throw-away data only.
    pub unsafe_no_fsync: bool,
    /// Requests waiting for the sequencer; one more is answered "too many requests".
    pub queue_depth: usize,
    /// Limit on requests in one journal entry.
    pub batch_requests: usize,
    /// Entries sent to the journal and not yet durable.
    pub appends_in_flight: usize,
    /// How often an idle watcher that requested it gets a progress notification.
    pub watch_progress_interval: Duration,
    /// Superseded versions freed per step of a compaction, with the store locked.
    pub compaction_batch: usize,
    /// A request still unanswered after this long is given up with "request timed out".
    pub request_timeout: Duration,
    /// Keys of encryption at rest; without any, new data is not encrypted.
    pub keys: EncryptionKeys,
    /// A write that takes longer to evaluate, or a range that takes longer to read, counts as slow.
    pub slow_apply: Duration,
    /// Follow another server: nothing is decided here until
    /// [`Follower::lead`](crate::Follower::lead).
    pub follow: bool,
    /// The node is archived while it runs, and may keep this many bytes of journal files for that;
    /// see [`crate::archive`].
    pub archive_limit: Option<u64>,
    pub tuning: Tuning,
}

impl NodeConfig {
    pub fn new(data_dir: PathBuf, proposed: Identity) -> NodeConfig {
        NodeConfig {
            data_dir,
            proposed,
            min_lease_ttl: 2,
            quota_bytes: 0,
            journal_segment_bytes: 16 << 20,
            checkpoint_bytes: 32 << 20,
            checkpoint_interval: Duration::from_secs(300),
            scrub_interval: Duration::from_secs(24 * 3600),
            unsafe_no_fsync: false,
            queue_depth: 8192,
            batch_requests: 2048,
            appends_in_flight: 4,
            watch_progress_interval: Duration::from_secs(600),
            compaction_batch: 256,
            request_timeout: Duration::from_secs(7),
            keys: EncryptionKeys::none(),
            slow_apply: Duration::from_millis(100),
            follow: false,
            archive_limit: None,
            tuning: Tuning::default(),
        }
    }

    /// The limit on bytes, if there is one.
    pub(crate) fn quota(&self) -> Option<u64> {
        match self.quota_bytes {
            0 => Some(DEFAULT_QUOTA),
            quota => u64::try_from(quota).ok(),
        }
    }
}
