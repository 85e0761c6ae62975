//! The judge of journal engines.
//!
//! * `model`: a log in memory that can be told to misbehave.
//! * `oracle`: what a log means, without the fence.
//! * `sim`: servers with the fence on the model log, in virtual time; `vetch-fence-sim` runs it.
//! * `suite`: what every engine has to pass; `handle` is the model log in that form.
//!
//! Nothing that ships knows this crate.

pub mod handle;
pub mod model;
pub mod oracle;
pub mod sim;
pub mod suite;
