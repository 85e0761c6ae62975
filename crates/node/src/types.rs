//! Answers of a node that are not the store's own.

use vetch_store::record::Record;
use vetch_store::request::AlarmKind;

/// One part of a streamed range. Exactly one chunk, the last, carries `end`.
#[derive(Debug, Clone)]
pub struct RangeChunk {
    pub kvs: Vec<Record>,
    pub end: Option<RangeEnd>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RangeEnd {
    pub revision: i64,
    pub more: bool,
    pub count: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseGranted {
    pub revision: i64,
    pub id: i64,
    pub ttl: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseInfo {
    /// The revision at which these are its keys.
    pub revision: i64,
    pub ttl: i64,
    pub granted_ttl: i64,
    /// The versions of its keys at that revision, in order of the keys: shared with the store,
    /// because keys may be many.
    pub keys: Vec<Record>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HashKv {
    pub hash: u32,
    pub compact_revision: i64,
    pub hash_revision: i64,
    pub revision: i64,
}

/// `kind: None` in a request means every kind; `member: 0` means every member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AlarmSelector {
    pub member: u64,
    pub kind: Option<AlarmKind>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AlarmAction {
    Get,
    Activate,
    Deactivate,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeStatus {
    pub revision: i64,
    pub compact_revision: i64,
    pub term: u64,
    /// Sequence number of the newest durable journal entry.
    pub index: u64,
    /// Bytes of the data directory's files.
    pub disk_bytes: u64,
    /// Bytes of keys, values and metadata that are still reachable, those on their way to the disk
    /// included: what memory holds, and what the quota counts.
    pub live_bytes: u64,
    /// 0: no quota.
    pub quota_bytes: u64,
    pub keys: u64,
    /// Those on their way to the disk included, as of users and roles.
    pub leases: u64,
    pub users: u64,
    pub roles: u64,
}

/// What recovery is doing, for the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    Checkpoint { bytes_done: u64, bytes_total: u64 },
    Journal { bytes_done: u64, bytes_total: u64 },
    Note(String),
}
