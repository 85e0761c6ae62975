//! The messages that etcd keeps in its buckets and that are in no service's definition.

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Lease {
    #[prost(int64, tag = "1")]
    pub(crate) id: i64,
    #[prost(int64, tag = "2")]
    pub(crate) ttl: i64,
    #[prost(int64, tag = "3")]
    pub(crate) remaining_ttl: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AlarmMember {
    #[prost(uint64, tag = "1")]
    pub(crate) member_id: u64,
    /// 1: no space, 2: corrupt.
    #[prost(int32, tag = "2")]
    pub(crate) alarm: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct User {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) name: bytes::Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) password: bytes::Bytes,
    #[prost(string, repeated, tag = "3")]
    pub(crate) roles: Vec<String>,
    #[prost(message, optional, tag = "4")]
    pub(crate) options: Option<UserAddOptions>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct UserAddOptions {
    #[prost(bool, tag = "1")]
    pub(crate) no_password: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Role {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) name: bytes::Bytes,
    #[prost(message, repeated, tag = "2")]
    pub(crate) key_permission: Vec<Permission>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Permission {
    #[prost(int32, tag = "1")]
    pub(crate) perm_type: i32,
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) key: bytes::Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    pub(crate) range_end: bytes::Bytes,
}

/// What a tombstone holds: a `KeyValue` with nothing but its key.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Tombstone {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) key: bytes::Bytes,
}
