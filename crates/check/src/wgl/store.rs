//! A store of keys with revisions and leases: what the search needs to judge whole histories.
//!
//! Written without the specification, so that the two have no mistakes in common. Judged are the
//! revisions, reads of the newest state with a limit or with keys alone, writes, transactions,
//! leases and compactions. Reads of the past, and those with sorting or filters, are judged by
//! their revision only. Serializable reads are left out. A lease may end once, at any time from its
//! grant on plus its time to live; renewals delay nothing here.

mod apply;
mod read;

use std::collections::BTreeMap;
use std::sync::Arc;

use vetch_model::{KeyValue, Request};

use super::{Budget, Call, Sequential, Verdict, linearize};
use crate::facts::{granted_lease, is_serializable};
use crate::history::{History, Operation, Outcome};

/// How coarse a server's clock may be.
const CLOCK_GRAIN: u64 = 1_000_000;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Stored {
    revision: i64,
    compacted: i64,
    keys: BTreeMap<Vec<u8>, Arc<KeyValue>>,
    /// Which leases there are, with their times to live.
    leases: BTreeMap<i64, i64>,
}

/// Something that happens to the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Happening {
    /// A request with its outcome.
    Request(Request, Outcome),
    /// A lease runs out.
    Expiry(i64),
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Store;

/// Looks for an order of a whole history. Indices in the verdict are those of the operations, and
/// beyond them the ends of leases.
pub fn linearize_history(history: &History, budget: Budget) -> Verdict {
    linearize(&Store, &happenings(history), budget)
}

/// One call for each operation, in their order, then the ends of leases. What tells nothing is left
/// to be unknown.
fn happenings(history: &History) -> Vec<Call<Happening>> {
    let mut calls: Vec<Call<Happening>> = history.operations.iter().map(call).collect();
    for operation in &history.operations {
        let Request::LeaseGrant { ttl, .. } = operation.request else { continue };
        let granted = matches!(operation.outcome, Outcome::Answered { .. } | Outcome::Unknown);
        if let Some(id) = granted_lease(operation).filter(|_| granted) {
            let time = u64::try_from(ttl).unwrap_or(0).saturating_mul(1_000_000_000);
            let called = operation.called.saturating_add(time).saturating_sub(CLOCK_GRAIN);
            calls.push(Call { called, returned: None, operation: Happening::Expiry(id) });
        }
    }
    calls
}

fn call(operation: &Operation) -> Call<Happening> {
    let silent = operation.outcome == Outcome::NotDone || is_serializable(&operation.request);
    let known = !silent && operation.outcome != Outcome::Unknown;
    let happening = Happening::Request(operation.request.clone(), operation.outcome.clone());
    Call { called: operation.called, returned: known.then_some(operation.returned), operation: happening }
}

impl Sequential for Store {
    type State = Stored;
    type Operation = Happening;

    fn start(&self) -> Stored {
        Stored { revision: 1, compacted: -1, keys: BTreeMap::new(), leases: BTreeMap::new() }
    }

    fn step(&self, state: &Stored, happening: &Happening) -> Vec<Stored> {
        let after = match happening {
            Happening::Expiry(id) if state.leases.contains_key(id) => Some(state.without_lease(*id)),
            Happening::Expiry(_) => None,
            Happening::Request(request, Outcome::Answered { revision, answer }) => {
                state.answered(request, *revision, answer)
            }
            Happening::Request(request, Outcome::Refused(refusal)) => {
                (state.refuses(request) == Some(*refusal)).then(|| state.clone())
            }
            Happening::Request(request, Outcome::Unknown) if state.refuses(request).is_none() => {
                Some(state.changed_by(request))
            }
            Happening::Request(_, Outcome::Unknown | Outcome::NotDone) => None,
        };
        after.into_iter().collect()
    }
}
