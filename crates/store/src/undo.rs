//! Undo: how the changes are taken back that a request made to state without versions. `rewind`
//! says when.

use std::sync::Arc;

use vetch_seeded_bugs::Bug;

use crate::auth::Auth;
use crate::lease::EndedLease;
use crate::request::Alarm;
use crate::state::Store;

/// What takes back the changes that one request made to state without versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undo(Box<Change>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Change {
    /// The revision of head behind the request.
    revision: i64,
    before: Before,
}

/// What was there before.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Before {
    NoLease(i64),
    Lease(EndedLease),
    /// The ids of leases with the time that was recorded as left, in the order of the changes.
    Remaining(Vec<(i64, i64)>),
    NoAlarm(Alarm),
    Alarm(Alarm),
    Auth(Arc<Auth>),
}

impl Undo {
    fn new(revision: i64, before: Before) -> Undo {
        Undo(Box::new(Change { revision, before }))
    }

    pub(crate) fn lease_granted(revision: i64, id: i64) -> Undo {
        Undo::new(revision, Before::NoLease(id))
    }

    pub(crate) fn lease_ended(revision: i64, lease: EndedLease) -> Undo {
        Undo::new(revision, Before::Lease(lease))
    }

    pub(crate) fn remaining(revision: i64, before: Vec<(i64, i64)>) -> Undo {
        Undo::new(revision, Before::Remaining(before))
    }

    pub(crate) fn alarm_raised(revision: i64, alarm: Alarm) -> Undo {
        Undo::new(revision, Before::NoAlarm(alarm))
    }

    pub(crate) fn alarm_lowered(revision: i64, alarm: Alarm) -> Undo {
        Undo::new(revision, Before::Alarm(alarm))
    }

    pub(crate) fn auth(revision: i64, before: Arc<Auth>) -> Undo {
        Undo::new(revision, Before::Auth(before))
    }

    /// The revision of head behind the request.
    pub(crate) fn revision(&self) -> i64 {
        self.0.revision
    }

    /// The store is as it was behind the request.
    pub(crate) fn apply(self, store: &mut Store) {
        let Change { revision, before } = *self.0;
        match before {
            Before::NoLease(id) => store.leases.take_back_grant(id),
            Before::Lease(_) if vetch_seeded_bugs::on(Bug::RewindForgetsLease) => {}
            Before::Lease(lease) => store.leases.take_back_end(&lease, revision),
            Before::Remaining(before) => {
                for (id, remaining) in before.into_iter().rev() {
                    store.leases.set_remaining(id, remaining);
                }
            }
            Before::NoAlarm(alarm) => {
                store.alarms.remove(&alarm);
            }
            Before::Alarm(alarm) => {
                store.alarms.insert(alarm);
            }
            Before::Auth(auth) => store.auth = auth,
        }
    }
}
