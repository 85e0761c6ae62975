//! Conformance of journal engines.
//!
//! * `model`: a log in memory that can be told to misbehave.
//! * `oracle`: which entries a log commits, without `vetch_cluster`.
//! * `sim`: replicas on the model log, in virtual time; `vetch-fence-sim` runs it.
//! * `suite`: the cases that every engine has to pass; `handle` is the model log in that form.
//!
//! Nothing that ships depends on this crate.

pub mod handle;
pub mod model;
pub mod oracle;
pub mod sim;
pub mod suite;
