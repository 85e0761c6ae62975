//! Users, roles and what they permit: the part of the state that decides who may do what.
//!
//! Changed by journal entries and nothing else, so it is durable, replayed and checkpointed like
//! keys are. The rules are etcd's: which change is refused for which reason, what each one does to
//! the **auth revision**, and how the permissions of all roles of a user merge into the keys that
//! user may read and write.
//!
//! * [`AuthState`] is all of it as plain data: what a checkpoint or a snapshot holds.
//! * [`Auth`] is the same, ready to decide: [`Auth::decide`] turns a [`Change`] into effects,
//!   [`Auth::check_read`] and its neighbours answer for a [`Caller`].
//! * [`SavedAuth`] is a snapshot of the state, converted to plain data when it is first read.
//! * [`KeySet`] is a union of key ranges.
//!
//! Not here: passwords (only their hashes pass through), tokens, certificates, clocks. Who a caller
//! is has been found out before a request comes here; what the caller may do is decided here, in
//! the same instant as the request.

mod accounts;
mod caller;
mod change;
mod effect;
mod error;
mod keyset;
mod permit;
mod saved;
mod state;
#[cfg(test)]
mod tests;

pub use accounts::Auth;
pub use caller::Caller;
pub use change::Change;
pub(crate) use effect::Effects;
pub use error::AuthError;
pub use keyset::KeySet;
pub use saved::{SavedAuth, decode_state, encode_state};
pub use state::{AuthState, NAMED_BYTES, Permission, PermissionKind, Role, User};

/// The user, and the role, that everything begins with.
pub const ROOT: &str = "root";
