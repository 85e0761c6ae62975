//! Why an entry of etcd's log cannot be replayed.

use vetch_node::store::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    #[error(transparent)]
    Decode(#[from] prost::DecodeError),
    #[error("a request of an unknown kind ({0})")]
    UnknownRequest(u32),
    #[error("an unknown alarm ({0})")]
    UnknownAlarm(i32),
    /// etcd did this request, and Vetch would refuse it.
    #[error(transparent)]
    Refused(#[from] StoreError),
    #[error("the password cannot be hashed: {0}")]
    Hash(#[from] bcrypt::BcryptError),
}
