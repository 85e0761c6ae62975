//! Replay: applies the entries of an etcd's log that its database does not have yet, as etcd 3.7
//! would apply them.
//!
//! The store decides, as it does for clients. What differs is around it: etcd checks the permission
//! of a request before it is logged and again when it is applied, and refuses some requests while
//! an alarm is raised. A request that etcd refused is refused here for the same reasons and changes
//! nothing. Only a request that etcd would have applied and that cannot be applied here ends the
//! replay.

use vetch_node::store::load::Unversioned;
use vetch_node::store::request::{AlarmKind, RequestOp, TxnRequest, WriteRequest};
use vetch_node::store::{Mark, Record, Store, StoreError};

use crate::wal::Entry;

mod error;
mod request;
#[cfg(test)]
mod tests;
mod translate;

pub use error::ReplayError;
use request::Request;

/// Whether an entry may change the state. A new leader begins with an empty entry.
pub(crate) fn may_change(entry: &Entry) -> bool {
    !entry.is_membership() && request::may_change(&entry.data)
}

/// A state that the entries of a log are applied to.
pub struct Replay {
    store: Store,
    /// Every version and tombstone that came to be.
    records: Vec<Record>,
    /// Requests that changed something.
    requests: u64,
}

/// What became of the state.
pub struct Replayed {
    pub mark: Mark,
    pub unversioned: Unversioned,
    pub records: Vec<Record>,
    pub requests: u64,
}

impl Replay {
    pub fn new(store: Store) -> Replay {
        Replay { store, records: Vec::new(), requests: 0 }
    }

    /// Applies the next entry.
    pub fn apply(&mut self, entry: &Entry) -> Result<(), ReplayError> {
        if !may_change(entry) {
            return Ok(());
        }
        let request = Request::read(&entry.data)?;
        let caller = request.caller();
        let Some(request) = request.into_write(&self.store)? else { return Ok(()) };
        if self.is_stopped(&request) {
            return Ok(());
        }
        // All others were checked when they came in, and are not checked when they are applied.
        if is_judged_when_applied(&request) && self.store.permit(&caller, &request).is_err() {
            return Ok(());
        }
        self.evaluate(&request)
    }

    fn evaluate(&mut self, request: &WriteRequest) -> Result<(), ReplayError> {
        let mut effects = Vec::new();
        match self.store.evaluate(request, &mut effects) {
            Ok(evaluated) => {
                self.records.extend(evaluated.events.into_iter().map(|event| event.kv));
                self.requests += u64::from(!effects.is_empty());
                self.store.publish(self.store.head());
                Ok(())
            }
            // The only limit that etcd does not have.
            Err(error @ StoreError::RequestTooLarge) => Err(error.into()),
            Err(_) => Ok(()),
        }
    }

    fn is_stopped(&self, request: &WriteRequest) -> bool {
        let raised = |kind| self.store.alarms().any(|alarm| alarm.kind == kind);
        match request {
            WriteRequest::Put(_) | WriteRequest::LeaseGrant { .. } => {
                raised(AlarmKind::Corrupt) || raised(AlarmKind::NoSpace)
            }
            WriteRequest::Txn(txn) => raised(AlarmKind::Corrupt) || (puts(txn) && raised(AlarmKind::NoSpace)),
            WriteRequest::DeleteRange(_)
            | WriteRequest::Compact { .. }
            | WriteRequest::LeaseRevoke { .. } => raised(AlarmKind::Corrupt),
            _ => false,
        }
    }

    pub fn finish(self) -> Replayed {
        Replayed {
            mark: self.store.head(),
            unversioned: self.store.unversioned(),
            records: self.records,
            requests: self.requests,
        }
    }
}

fn is_judged_when_applied(request: &WriteRequest) -> bool {
    matches!(
        request,
        WriteRequest::Put(_)
            | WriteRequest::DeleteRange(_)
            | WriteRequest::Txn(_)
            | WriteRequest::LeaseRevoke { .. }
            | WriteRequest::Auth(_)
    )
}

/// Whether any branch puts.
fn puts(txn: &TxnRequest) -> bool {
    txn.success.iter().chain(&txn.failure).any(|op| match op {
        RequestOp::Put(_) => true,
        RequestOp::Txn(nested) => puts(nested),
        _ => false,
    })
}
