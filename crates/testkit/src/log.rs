//! Logs that servers share, for tests: a log in memory that can be told to misbehave, and the cases
//! that every engine has to pass.

pub mod handle;
pub mod model;
pub mod suite;
