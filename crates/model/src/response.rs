//! Answers, refusals and events.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct KeyValue {
    pub key: Vec<u8>,
    pub value: Vec<u8>,
    pub create_revision: i64,
    pub mod_revision: i64,
    pub version: i64,
    pub lease: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Ranged {
    pub kvs: Vec<KeyValue>,
    pub more: bool,
    pub count: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Deleted {
    pub deleted: i64,
    pub prev_kvs: Vec<KeyValue>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum OpAnswer {
    Range(Ranged),
    Put { prev_kv: Option<KeyValue> },
    Delete(Deleted),
    Txn(TxnAnswer),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TxnAnswer {
    pub succeeded: bool,
    pub responses: Vec<OpAnswer>,
}

/// The body of an answer. The header's revision travels beside it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Answer {
    Range(Ranged),
    Put {
        prev_kv: Option<KeyValue>,
    },
    Delete(Deleted),
    Txn(TxnAnswer),
    Compact,
    LeaseGrant {
        id: i64,
        ttl: i64,
    },
    LeaseRevoke,
    /// 0: there is no such lease.
    LeaseKeepAlive {
        ttl: i64,
    },
}

/// Why a well-formed request was refused: by the state, not by its shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    #[error("the revision has been compacted")]
    Compacted,
    #[error("the revision is in the future")]
    FutureRevision,
    #[error("there is no such lease")]
    LeaseNotFound,
    #[error("the lease exists already")]
    LeaseExists,
    #[error("the lease's time to live is too large")]
    LeaseTtlTooLarge,
    #[error("the key to keep something of does not exist")]
    KeyNotFound,
}

/// One change of one key. A deletion has only key and `mod_revision`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Event {
    pub deleted: bool,
    pub kv: KeyValue,
    pub prev_kv: Option<KeyValue>,
}
