//! The versions that clients see.
//!
//! They are etcd's, because clients choose features by them; Vetch's own version is in `vetch
//! --version`.

pub const SERVER: &str = "3.7.1";
/// The API version the cluster agreed on.
pub const CLUSTER: &str = "3.7.0";
/// The version of etcd's storage schema whose behaviour is kept.
pub const STORAGE: &str = "3.7.0";
