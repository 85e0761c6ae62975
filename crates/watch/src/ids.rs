//! Ids: how streams and groups name each other.

/// Names a stream towards the hub. Never reused.
pub type StreamId = u64;

/// Index of a group. Reused once the group is gone.
pub(crate) type GroupId = u32;
