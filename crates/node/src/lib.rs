//! The node: where store, journal and watch hub meet.

pub mod checkpoint;
pub mod config;
pub mod error;
mod handle;
pub mod types;

pub use handle::{Node, RangeStream};
pub use vetch_store as store;
