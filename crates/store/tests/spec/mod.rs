//! The store judged by the specification: the same requests go to both, and every answer is
//! compared.
//!
//! What only the store has is judged here as well, by the simplest rules there are: positions
//! within a revision, the headers inside a transaction's answer, remaining times of leases, alarms,
//! and what compaction has to keep.

#![allow(dead_code, reason = "each test binary uses its own part of it")]

pub(crate) mod check;
pub(crate) mod requests;

use std::collections::{BTreeMap, BTreeSet};

use vetch_model::Model;
use vetch_store::load::{SavedLease, Unversioned};
use vetch_store::request::*;
use vetch_store::{Evaluated, Mark, Record, StoreError};
use vetch_testkit::{to_model, to_store};

#[derive(Debug, Clone)]
pub(crate) struct Spec {
    pub(crate) model: Model,
    /// Every version that the store ever made, tombstones included, in order.
    pub(crate) versions: Vec<Record>,
    remaining: BTreeMap<i64, i64>,
    alarms: BTreeSet<Alarm>,
}

impl Spec {
    pub(crate) fn new() -> Spec {
        Spec {
            model: Model::new(),
            versions: Vec::new(),
            remaining: BTreeMap::new(),
            alarms: BTreeSet::new(),
        }
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark { revision: self.model.revision(), compact_revision: self.model.compact_revision() }
    }

    /// The specification is given the request too, and panics if it answers otherwise.
    pub(crate) fn judge(&mut self, request: &WriteRequest, answer: &Result<Evaluated, StoreError>) {
        let before = self.model.revision();
        let Some(asked) = to_model::request(request) else {
            let Ok(Evaluated { response, events, .. }) = answer else { panic!("{request:?} was refused") };
            assert!(events.is_empty(), "{request:?}");
            assert_eq!(*response, self.unversioned_answer(request));
            return;
        };
        let expected = self.model.evaluate(&asked).map_err(to_store::refusal);
        let given = answer.as_ref().map_err(|error| *error).map(|evaluated| {
            to_model::answer(&evaluated.response).expect("an answer to a request that is specified")
        });
        assert_eq!(given, expected, "{request:?}");
        let Ok(Evaluated { response, events, .. }) = answer else { return };
        let now = self.model.revision();
        assert_eq!(to_model::events(events), self.model.changes(before + 1, now), "{request:?}");
        self.note_versions(events);
        match (request, response) {
            (_, WriteResponse::Txn(txn)) => check_headers(txn, before, &mut false),
            (
                WriteRequest::LeaseRevoke { id } | WriteRequest::LeaseExpire { id, .. },
                WriteResponse::LeaseRevoke { id: revoked, .. },
            ) => {
                assert_eq!(id, revoked);
                self.remaining.remove(id);
            }
            _ => {}
        }
    }

    /// A position counts the changes of its revision; a tombstone remembers the life that it ended.
    fn note_versions(&mut self, events: &[Event]) {
        for (sub, event) in events.iter().enumerate() {
            assert_eq!(event.kv.sub() as usize, sub, "{event:?}");
            if event.kv.is_tombstone() {
                let ended = self.versions.iter().rfind(|version| version.key() == event.kv.key());
                assert_eq!(ended.map(Record::create_revision), Some(event.kv.create_revision()), "{event:?}");
            }
            self.versions.push(event.kv.clone());
        }
    }

    fn unversioned_answer(&mut self, request: &WriteRequest) -> WriteResponse {
        let revision = self.model.revision();
        match request {
            WriteRequest::LeaseRemaining { leases } => {
                let mut known = leases.clone();
                known.retain(|lease| self.model.leases().contains_key(&lease.id));
                self.remaining.extend(known.iter().map(|lease| (lease.id, lease.seconds)));
                WriteResponse::LeaseRemaining { leases: known }
            }
            WriteRequest::AlarmActivate(alarm) => {
                self.alarms.insert(*alarm);
                WriteResponse::Alarm { revision, changed: vec![*alarm] }
            }
            WriteRequest::AlarmDeactivate(alarm) => {
                let changed = if self.alarms.remove(alarm) { vec![*alarm] } else { vec![] };
                WriteResponse::Alarm { revision, changed }
            }
            other => panic!("{other:?} is specified"),
        }
    }

    pub(crate) fn unversioned(&self) -> Unversioned {
        let leases = self.model.leases().iter().map(|(&id, &ttl)| {
            let remaining = self.remaining.get(&id).copied().unwrap_or(0);
            SavedLease { id, ttl, remaining }
        });
        Unversioned {
            leases: leases.collect(),
            alarms: self.alarms.iter().copied().collect(),
            ..Unversioned::default()
        }
    }

    /// Whether compaction at `compacted` has to keep a version: it is younger, or of that revision,
    /// or living and still the newest there.
    pub(crate) fn keeps(&self, version: &Record, compacted: i64) -> bool {
        if version.mod_revision() >= compacted {
            return true;
        }
        let newest = self
            .versions
            .iter()
            .rfind(|other| other.key() == version.key() && other.mod_revision() <= compacted);
        !version.is_tombstone() && newest == Some(version)
    }

    /// What a watcher that begins at the compaction is shown.
    pub(crate) fn recalled(&self) -> Vec<vetch_model::Event> {
        let start_revision = self.model.compact_revision().max(1);
        let watch = vetch_model::Watch {
            keys: vetch_model::Keys::all(),
            start_revision,
            progress_notify: false,
            no_put: false,
            no_delete: false,
            prev_kv: true,
            fragment: false,
        };
        self.model.recalled(&watch, start_revision, i64::MAX)
    }

    /// What a transaction that only reads must answer at what is visible.
    pub(crate) fn read_txn(
        &self,
        txn: &TxnRequest,
        visible: Mark,
    ) -> Result<vetch_model::TxnAnswer, StoreError> {
        let request = vetch_model::Request::Txn(to_model::txn(txn));
        self.model.check_at(&request, to_model::moment(visible)).map_err(to_store::refusal)?;
        match self.model.answer_at(&request, visible.revision) {
            Some(vetch_model::Answer::Txn(answer)) => Ok(answer),
            other => panic!("a transaction that only reads has an answer, not {other:?}"),
        }
    }
}

/// Inside a transaction each answer has the revision after the operation, except that a nested
/// transaction has none.
pub(crate) fn check_headers(txn: &TxnResponse, before: i64, changed: &mut bool) {
    for response in &txn.responses {
        let revision = match response {
            ResponseOp::Put(put) => {
                *changed = true;
                put.revision
            }
            ResponseOp::DeleteRange(delete) => {
                *changed |= delete.deleted > 0;
                delete.revision
            }
            ResponseOp::Range(range) => range.revision,
            ResponseOp::Txn(nested) => {
                assert_eq!(nested.revision, 0, "a nested transaction has no header");
                check_headers(nested, before, changed);
                continue;
            }
        };
        assert_eq!(revision, before + i64::from(*changed), "{txn:?}");
    }
}
