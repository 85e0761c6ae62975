//! Replay: what the log of an etcd holds and its database does not, done to the state as etcd 3.7
//! would do it.
//!
//! The store decides, as it does for clients. What differs is around it: etcd judged a request by
//! its caller before and again when it was applied, and stops some requests while an alarm is
//! raised. A request that was refused then is refused here as well, for the same reasons, and
//! changes nothing; only one that etcd would have done and that cannot be done here ends the
//! replay.

use vetch_node::store::load::Unversioned;
use vetch_node::store::request::{AlarmKind, RequestOp, TxnRequest, WriteRequest};
use vetch_node::store::{Mark, Record, Store, StoreError};

use crate::wal::Entry;

mod request;
#[cfg(test)]
mod tests;
mod translate;

use request::Request;

/// Whether an entry may ask for a change of the state. A new leader begins with one that asks for
/// nothing.
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

    /// Applies the next entry. An error says why that is not possible.
    pub fn apply(&mut self, entry: &Entry) -> Result<(), String> {
        if !may_change(entry) {
            return Ok(());
        }
        let request = Request::read(&entry.data)?;
        let caller = request.caller();
        let Some(request) = request.into_write(&self.store)? else { return Ok(()) };
        if self.is_stopped(&request) {
            return Ok(());
        }
        // The others are judged where they come in, and by nobody afterwards.
        if is_judged_when_applied(&request) && self.store.permit(&caller, &request).is_err() {
            return Ok(());
        }
        self.evaluate(&request)
    }

    fn evaluate(&mut self, request: &WriteRequest) -> Result<(), String> {
        let mut effects = Vec::new();
        match self.store.evaluate(request, &mut effects) {
            Ok(evaluated) => {
                self.records.extend(evaluated.events.into_iter().map(|event| event.kv));
                self.requests += u64::from(!effects.is_empty());
                self.store.publish(self.store.head());
                Ok(())
            }
            // The only limit that etcd does not have.
            Err(error @ StoreError::RequestTooLarge) => Err(error.to_string()),
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
