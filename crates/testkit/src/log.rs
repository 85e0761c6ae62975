//! Logs that servers share, for tests: a log in memory that misbehaves on request, and the cases
//! that every engine has to pass.

pub mod handle;
pub mod model;
pub mod suite;
