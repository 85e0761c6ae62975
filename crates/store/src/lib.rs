//! Vetch's MVCC state machine.

pub mod error;
pub mod record;
pub mod request;

pub use error::StoreError;
pub use record::Record;
