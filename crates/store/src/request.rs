//! Requests and responses of the state machine, free of any wire format.
//!
//! They mirror the API's messages one to one, so that the server's translation is mechanical and
//! the rules (limits, overlaps, path selection) are written once, here.

use bytes::Bytes;

use crate::auth;
use crate::record::Record;
use crate::validated::Validated;

/// The keys a request is about, from the API's `key` and `range_end`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KeyRange {
    pub key: Bytes,
    /// Empty: the single key. A single zero byte: every key from `key` on. Else: up to this key,
    /// exclusive.
    pub range_end: Bytes,
}

impl KeyRange {
    pub fn new(key: impl Into<Bytes>, range_end: impl Into<Bytes>) -> KeyRange {
        KeyRange { key: key.into(), range_end: range_end.into() }
    }

    pub fn single(key: impl Into<Bytes>) -> KeyRange {
        KeyRange::new(key, Bytes::new())
    }

    pub fn is_single(&self) -> bool {
        self.range_end.is_empty()
    }

    /// The exclusive upper bound, or None if the range has no end. Not meaningful for a single key.
    pub fn end(&self) -> Option<&[u8]> {
        match self.range_end.as_ref() {
            [0] => None,
            end => Some(end),
        }
    }

    pub fn contains(&self, key: &[u8]) -> bool {
        if self.is_single() {
            return key == self.key;
        }
        self.key.as_ref() <= key && self.end().is_none_or(|end| key < end)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SortOrder {
    #[default]
    None,
    Ascend,
    Descend,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SortTarget {
    #[default]
    Key,
    Version,
    Create,
    Mod,
    Value,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeRequest {
    pub range: KeyRange,
    /// 0 or less: no limit.
    pub limit: i64,
    /// 0 or less: the newest visible revision.
    pub revision: i64,
    pub sort_order: SortOrder,
    pub sort_target: SortTarget,
    pub serializable: bool,
    pub keys_only: bool,
    pub count_only: bool,
    pub min_mod_revision: i64,
    pub max_mod_revision: i64,
    pub min_create_revision: i64,
    pub max_create_revision: i64,
}

impl RangeRequest {
    pub fn new(range: KeyRange) -> RangeRequest {
        RangeRequest {
            range,
            limit: 0,
            revision: 0,
            sort_order: SortOrder::None,
            sort_target: SortTarget::Key,
            serializable: false,
            keys_only: false,
            count_only: false,
            min_mod_revision: 0,
            max_mod_revision: 0,
            min_create_revision: 0,
            max_create_revision: 0,
        }
    }

    /// Results come in key order without sorting. Order NONE counts as such for every target, which
    /// is why a limit then cuts before the sort.
    pub fn has_default_order(&self) -> bool {
        self.sort_order == SortOrder::None
            || (self.sort_target == SortTarget::Key && self.sort_order == SortOrder::Ascend)
    }

    /// How many records to fetch. Sorting and filtering need everything; otherwise one more than
    /// the limit, which shows whether there is more.
    pub fn fetch_limit(&self) -> usize {
        let cuts_early = self.has_default_order() && !self.has_revision_filters();
        let limit = usize::try_from(self.limit).ok().filter(|&limit| limit > 0 && cuts_early);
        limit.map_or(usize::MAX, |limit| limit.saturating_add(1))
    }

    pub fn has_revision_filters(&self) -> bool {
        self.min_mod_revision != 0
            || self.max_mod_revision != 0
            || self.min_create_revision != 0
            || self.max_create_revision != 0
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutRequest {
    pub key: Bytes,
    pub value: Bytes,
    pub lease: i64,
    pub prev_kv: bool,
    pub ignore_value: bool,
    pub ignore_lease: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeleteRangeRequest {
    pub range: KeyRange,
    pub prev_kv: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompareResult {
    Equal,
    Greater,
    Less,
    NotEqual,
    /// A number the API does not define. etcd lets such a compare pass, and so do we.
    Unknown,
}

/// What is compared, with the operand of that target (zero or empty when the request carried
/// another's).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompareTarget {
    Version(i64),
    Create(i64),
    Mod(i64),
    Value(Bytes),
    Lease(i64),
    /// A number the API does not define: compares as equal.
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compare {
    pub range: KeyRange,
    pub result: CompareResult,
    pub target: CompareTarget,
}

impl Compare {
    /// Bytes of the value that is compared with.
    pub fn value_len(&self) -> usize {
        if let CompareTarget::Value(value) = &self.target { value.len() } else { 0 }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestOp {
    Range(RangeRequest),
    Put(PutRequest),
    DeleteRange(DeleteRangeRequest),
    Txn(TxnRequest),
    /// An operation with nothing in it, which validation refuses.
    Empty,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TxnRequest {
    pub compare: Vec<Compare>,
    pub success: Vec<RequestOp>,
    pub failure: Vec<RequestOp>,
}

impl TxnRequest {
    /// Only ranges in both branches; such a transaction never needs the sequencer. A nested
    /// transaction is never counted as read-only, even if it only reads.
    pub fn is_read_only(&self) -> bool {
        self.success.iter().chain(&self.failure).all(|op| matches!(op, RequestOp::Range(_)))
    }
}

/// Everything that goes through the sequencer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteRequest {
    Put(Validated<PutRequest>),
    DeleteRange(Validated<DeleteRangeRequest>),
    Txn(Validated<TxnRequest>),
    Compact {
        revision: i64,
    },
    LeaseGrant {
        id: i64,
        ttl: i64,
    },
    LeaseRevoke {
        id: i64,
    },
    /// Ends a lease whose time is over, if it is still the one that was granted then.
    LeaseExpire {
        id: i64,
        grant: u64,
    },
    /// Records how much time leases have left.
    LeaseRemaining {
        leases: Vec<Remaining>,
    },
    AlarmActivate(Alarm),
    AlarmDeactivate(Alarm),
    /// Changes users or roles, or turns authentication on or off.
    Auth(auth::Change),
    /// Applies a revision of another server: its changes in order, each with the revisions it has
    /// there.
    Foreign {
        changes: Vec<Record>,
    },
}

/// The time a lease has left. An id may be revoked and granted again while this is on its way, so
/// the grant says which lease is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remaining {
    pub id: i64,
    pub grant: u64,
    /// 0: its full time again.
    pub seconds: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Alarm {
    pub member: u64,
    pub kind: AlarmKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AlarmKind {
    NoSpace,
    Corrupt,
}

/// `revision` of each response is the header revision the client sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RangeResponse {
    pub revision: i64,
    pub kvs: Vec<Record>,
    pub more: bool,
    pub count: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PutResponse {
    pub revision: i64,
    pub prev_kv: Option<Record>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeleteRangeResponse {
    pub revision: i64,
    pub deleted: i64,
    pub prev_kvs: Vec<Record>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResponseOp {
    Range(RangeResponse),
    Put(PutResponse),
    DeleteRange(DeleteRangeResponse),
    Txn(TxnResponse),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TxnResponse {
    /// 0 in a nested transaction: etcd leaves that header empty.
    pub revision: i64,
    pub succeeded: bool,
    pub responses: Vec<ResponseOp>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteResponse {
    Put(PutResponse),
    DeleteRange(DeleteRangeResponse),
    Txn(TxnResponse),
    Compact {
        revision: i64,
    },
    LeaseGrant {
        revision: i64,
        id: i64,
        ttl: i64,
        /// Tells this lease from an earlier or later one of the same id, as long as the process
        /// lives.
        grant: u64,
    },
    LeaseRevoke {
        revision: i64,
        id: i64,
    },
    /// What is on record now for each lease that still existed.
    LeaseRemaining {
        leases: Vec<Remaining>,
    },
    Alarm {
        revision: i64,
        changed: Vec<Alarm>,
    },
    Auth {
        revision: i64,
    },
    Foreign {
        revision: i64,
    },
}

/// One change of one key, as watchers see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub kv: Record,
    pub prev: Option<Record>,
}
