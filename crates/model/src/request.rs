//! Requests, one type for each call of the API that changes or reads state.

use serde::{Deserialize, Serialize};

/// The keys that a request is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Keys {
    pub key: Vec<u8>,
    /// Empty: the single key. One zero byte: every key from `key` on. Else: up to this key,
    /// exclusive.
    pub range_end: Vec<u8>,
}

impl Keys {
    pub fn single(key: impl Into<Vec<u8>>) -> Keys {
        Keys { key: key.into(), range_end: Vec::new() }
    }

    pub fn between(key: impl Into<Vec<u8>>, range_end: impl Into<Vec<u8>>) -> Keys {
        Keys { key: key.into(), range_end: range_end.into() }
    }

    /// Every key there is.
    pub fn all() -> Keys {
        Keys::between([0], [0])
    }

    pub fn contains(&self, key: &[u8]) -> bool {
        match self.range_end.as_slice() {
            [] => key == self.key,
            [0] => key >= self.key.as_slice(),
            end => key >= self.key.as_slice() && key < end,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum SortOrder {
    #[default]
    None,
    Ascend,
    Descend,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum SortTarget {
    #[default]
    Key,
    Version,
    Create,
    Mod,
    Value,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Range {
    pub keys: Keys,
    /// 0 or less: no limit.
    pub limit: i64,
    /// 0 or less: the newest.
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

impl Range {
    /// All of `keys`, now.
    pub fn new(keys: Keys) -> Range {
        Range {
            keys,
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
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Put {
    pub key: Vec<u8>,
    pub value: Vec<u8>,
    pub lease: i64,
    pub prev_kv: bool,
    pub ignore_value: bool,
    pub ignore_lease: bool,
}

impl Put {
    pub fn new(key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Put {
        Put {
            key: key.into(),
            value: value.into(),
            lease: 0,
            prev_kv: false,
            ignore_value: false,
            ignore_lease: false,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Delete {
    pub keys: Keys,
    pub prev_kv: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CompareResult {
    Equal,
    Greater,
    Less,
    NotEqual,
    /// A number that the API does not define: etcd lets such a compare pass.
    Unknown,
}

/// What is compared, with its operand.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CompareTarget {
    Version(i64),
    Create(i64),
    Mod(i64),
    Value(Vec<u8>),
    Lease(i64),
    /// A number that the API does not define: compares as equal.
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Compare {
    pub keys: Keys,
    pub result: CompareResult,
    pub target: CompareTarget,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Op {
    Range(Range),
    Put(Put),
    Delete(Delete),
    Txn(Txn),
    /// An operation with nothing in it, which is refused.
    Empty,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Txn {
    pub compare: Vec<Compare>,
    pub success: Vec<Op>,
    pub failure: Vec<Op>,
}

/// Everything that has one answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Request {
    Range(Range),
    Put(Put),
    Delete(Delete),
    Txn(Txn),
    Compact {
        revision: i64,
    },
    LeaseGrant {
        id: i64,
        /// As the server granted it, in seconds.
        ttl: i64,
    },
    LeaseRevoke {
        id: i64,
    },
    LeaseKeepAlive {
        id: i64,
    },
}

impl Request {
    /// Whether no state exists in which this changes a key.
    pub fn only_reads(&self) -> bool {
        match self {
            Request::Range(_) | Request::LeaseKeepAlive { .. } => true,
            Request::Txn(txn) => txn.only_reads(),
            _ => false,
        }
    }
}

impl Txn {
    pub fn only_reads(&self) -> bool {
        self.success.iter().chain(&self.failure).all(|op| match op {
            Op::Range(_) => true,
            Op::Txn(nested) => nested.only_reads(),
            Op::Put(_) | Op::Delete(_) | Op::Empty => false,
        })
    }
}

/// A watch as its client asked for it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Watch {
    pub keys: Keys,
    /// 0: from now on.
    pub start_revision: i64,
    pub progress_notify: bool,
    pub no_put: bool,
    pub no_delete: bool,
    pub prev_kv: bool,
    pub fragment: bool,
}
