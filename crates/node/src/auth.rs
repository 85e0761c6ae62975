//! Who a request is made for: users and roles as far as they are durable, and handles that act for
//! a caller.
//!
//! Writes are judged by the sequencer, at head, in the instant they are evaluated. Everything else
//! is judged here by what is durable: a permission that a power loss could still undo shows nothing
//! to anybody.

use std::sync::Arc;

use vetch_store::auth::{Auth, AuthError, Caller, Change};
use vetch_store::request::{WriteRequest, WriteResponse};

use crate::error::NodeError;
use crate::handle::Node;
use crate::state::NodeState;

impl NodeState {
    /// What decides about `caller`; None if everything is permitted.
    pub(crate) fn judge(&self, caller: &Caller) -> Option<Arc<Auth>> {
        self.visible.auth().judge(caller)
    }

    /// Judges a request that does not pass the sequencer.
    pub(crate) fn permit(
        &self,
        caller: &Caller,
        check: impl FnOnce(&Auth) -> Result<(), AuthError>,
    ) -> Result<(), NodeError> {
        match self.judge(caller) {
            Some(auth) => Ok(check(&auth)?),
            None => Ok(()),
        }
    }

    /// Refuses an answer that was found while users or roles changed.
    pub(crate) fn permit_answer(&self, caller: &Caller) -> Result<(), NodeError> {
        self.permit(caller, |auth| auth.check_unchanged(caller))
    }
}

/// A handle acts for the server itself, which may do everything, until it is told for whom else.
impl Node {
    /// The same node, asked by `caller`: whatever that user may not do is refused.
    pub fn for_caller(&self, caller: Caller) -> Node {
        self.with_caller(caller)
    }

    /// Whether clients have to say who they are.
    pub fn auth_enabled(&self) -> bool {
        self.state().visible.auth().enabled()
    }

    /// Users and roles as far as they are durable.
    pub fn auth(&self) -> Arc<Auth> {
        self.state().visible.auth().current()
    }

    /// Changes users and roles. Returns the current revision of the keys.
    pub async fn change_auth(&self, change: Change) -> Result<i64, NodeError> {
        match self.write(WriteRequest::Auth(change)).await? {
            WriteResponse::Auth { revision } => Ok(revision),
            other => unreachable!("a change of users is answered as one: {other:?}"),
        }
    }
}
