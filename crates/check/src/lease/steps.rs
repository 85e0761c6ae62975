//! Everything that was said about each lease, as steps.

use std::collections::{BTreeMap, BTreeSet};

use vetch_model::{Answer, Op, Refusal, Request};

use crate::facts::{all_ops, granted_lease, leases_named};
use crate::history::{History, Listed, Listing, Operation, Outcome};
use crate::refusal::Limits;
use crate::replay::{Maker, Replayed};
use crate::seen::Seen;

/// What a step does, or says of the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    Grant {
        ttl: i64,
    },
    Renew {
        ttl: i64,
    },
    Revoke,
    /// A key was attached to it: it is there.
    Attach,
    /// A grant was refused because of it, or it is in a list: it is there.
    Exists,
    /// It is not there.
    Gone,
    /// A revision deleted all its keys, and no client got an answer for it.
    Ended {
        /// A deletion of unknown outcome may have done it, and the lease lives on.
        deleted: bool,
    },
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    pub(super) what: What,
    /// Between which revisions it lies, both included, doubled: a revision is made at an even
    /// place, what comes after it and before the next one is at the odd place behind it.
    pub(super) from: i64,
    pub(super) to: i64,
    pub(super) called: u64,
    pub(super) returned: u64,
    pub(super) operation: Option<usize>,
}

#[derive(Debug, Default)]
pub(super) struct Lease {
    /// By the time of the call.
    pub(super) steps: Vec<Step>,
    /// Grants and revokes of unknown outcome.
    pub(super) optional: Vec<Step>,
    /// From which revision to which, exclusive, it had keys.
    pub(super) attached: Vec<(i64, i64)>,
}

impl Lease {
    /// The first revision from `revision` on at which it has no keys.
    pub(super) fn bare_from(&self, revision: i64) -> i64 {
        let next = self.attached.partition_point(|&(_, to)| to <= revision);
        self.attached.get(next).filter(|&&(from, _)| from <= revision).map_or(revision, |&(_, to)| to)
    }
}

pub(super) fn collect(
    history: &History,
    seen: &Seen<'_>,
    replayed: &Replayed,
    limits: &Limits,
) -> BTreeMap<i64, Lease> {
    let mut collector = Collector {
        history,
        seen,
        limits,
        made: made(replayed),
        leases: BTreeMap::new(),
        keys: BTreeMap::new(),
    };
    for (index, operation) in history.operations.iter().enumerate() {
        collector.operation(index, operation);
    }
    for revision in 2..=replayed.world.revision() {
        collector.revision(replayed, revision);
    }
    history.listed.iter().for_each(|listed| collector.listed(listed));
    let mut leases = collector.leases;
    for lease in leases.values_mut() {
        lease.steps.sort_by_key(|step| (step.called, step.from));
    }
    leases
}

/// The revisions that operations made.
fn made(replayed: &Replayed) -> BTreeMap<usize, i64> {
    let makers = replayed.makers.iter().zip(2..);
    let made = makers.filter_map(|(maker, revision)| match maker {
        Maker::Answered(index) | Maker::Unknown(index) => Some((*index, revision)),
        Maker::Expiry(_) => None,
    });
    made.collect()
}

struct Collector<'h> {
    history: &'h History,
    seen: &'h Seen<'h>,
    limits: &'h Limits,
    made: BTreeMap<usize, i64>,
    leases: BTreeMap<i64, Lease>,
    /// The keys of each lease, while going through the revisions.
    keys: BTreeMap<i64, BTreeSet<Vec<u8>>>,
}

impl Collector<'_> {
    fn operation(&mut self, index: usize, operation: &Operation) {
        match &operation.outcome {
            Outcome::Answered { revision, answer } => self.answered(index, operation, *revision, answer),
            Outcome::Refused(refusal) => self.refused(index, operation, *refusal),
            Outcome::Unknown => self.unknown(index, operation),
            Outcome::NotDone => {}
        }
    }

    fn answered(&mut self, index: usize, operation: &Operation, revision: i64, answer: &Answer) {
        let place = 2 * revision + 1;
        let (id, what, to) = match (&operation.request, answer) {
            (Request::LeaseGrant { .. }, Answer::LeaseGrant { id, ttl }) => {
                (*id, What::Grant { ttl: *ttl }, place)
            }
            // A revoke that made a revision is collected with the revision.
            (Request::LeaseRevoke { id }, _) if !self.made.contains_key(&index) => (*id, What::Revoke, place),
            // The header of a renewal is filled in before it is made.
            (Request::LeaseKeepAlive { id }, Answer::LeaseKeepAlive { ttl }) => {
                let what = if *ttl > 0 { What::Renew { ttl: *ttl } } else { What::Gone };
                (*id, what, (2 * self.limits.newest_by(operation.returned) + 1).max(place))
            }
            _ => return,
        };
        let Operation { called, returned, .. } = *operation;
        self.push(id, Step { what, from: place, to, called, returned, operation: Some(index) });
    }

    fn refused(&mut self, index: usize, operation: &Operation, refusal: Refusal) {
        let (id, what) = match (refusal, &operation.request) {
            (Refusal::LeaseExists, Request::LeaseGrant { id, .. }) => (*id, What::Exists),
            (Refusal::LeaseNotFound, Request::LeaseRevoke { id }) => (*id, What::Gone),
            (Refusal::LeaseNotFound, request) => match leases_named(request).as_slice() {
                [id] => (*id, What::Gone),
                _ => return,
            },
            _ => return,
        };
        let Operation { called, returned, .. } = *operation;
        let from = 2 * self.seen.before(called) + 1;
        let to = (2 * self.limits.newest_by(returned) + 1).max(from);
        self.push(id, Step { what, from, to, called, returned, operation: Some(index) });
    }

    /// A list of leases says of each whether it is there, at one moment between call and return.
    fn listed(&mut self, listed: &Listed) {
        let Listing::Leases { ids } = &listed.listing else { return };
        let ids: BTreeSet<i64> = ids.iter().copied().collect();
        let Listed { called, returned, .. } = *listed;
        let from = 2 * self.seen.before(called) + 1;
        let to = (2 * self.limits.newest_by(returned) + 1).max(from);
        // A lease that no client had requested yet is not judged.
        let has_begun = |lease: &Lease| {
            let steps = lease.steps.iter().chain(&lease.optional);
            steps.filter(|step| matches!(step.what, What::Grant { .. })).any(|grant| grant.called <= returned)
        };
        let begun: Vec<i64> =
            self.leases.iter().filter(|(_, lease)| has_begun(lease)).map(|(&id, _)| id).collect();
        let missing = begun.into_iter().filter(|id| !ids.contains(id)).map(|id| (id, What::Gone));
        let listed_as: Vec<(i64, What)> = missing.chain(ids.iter().map(|&id| (id, What::Exists))).collect();
        for (id, what) in listed_as {
            self.push(id, Step { what, from, to, called, returned, operation: None });
        }
    }

    fn unknown(&mut self, index: usize, operation: &Operation) {
        let (id, what) = match operation.request {
            Request::LeaseGrant { ttl, .. } => match granted_lease(operation) {
                Some(id) => (id, What::Grant { ttl }),
                None => return,
            },
            // Whether it made a revision is left open: the lease's own end may have made it as
            // well.
            Request::LeaseRevoke { id } => (id, What::Revoke),
            _ => return,
        };
        let from = 2 * self.seen.before(operation.called) + 1;
        let (called, returned) = (operation.called, u64::MAX);
        let step = Step { what, from, to: i64::MAX, called, returned, operation: Some(index) };
        self.leases.entry(id).or_default().optional.push(step);
    }

    /// What a revision says: which leases got keys, and which lost all of them.
    fn revision(&mut self, replayed: &Replayed, revision: i64) {
        let Some(maker) = replayed.maker(revision) else { return };
        self.end(replayed, maker, revision);
        let operation = match maker {
            Maker::Answered(index) | Maker::Unknown(index) => Some(index),
            Maker::Expiry(_) => None,
        };
        let called = operation.map_or(0, |index| self.history.operations[index].called);
        let returned = self.seen.first(revision);
        let model = &replayed.world.model;
        for event in replayed.world.events(revision) {
            let key = &event.kv.key;
            let before = model.get(key, revision - 1).map_or(0, |kv| kv.lease);
            if before != 0 && (event.deleted || event.kv.lease != before) {
                self.detach(before, key, revision);
            }
            if !event.deleted && event.kv.lease != 0 {
                let id = event.kv.lease;
                self.attach(id, key, revision);
                let place = 2 * revision;
                let step = Step { what: What::Attach, from: place, to: place, called, returned, operation };
                self.push(id, step);
            }
        }
    }

    fn attach(&mut self, id: i64, key: &[u8], revision: i64) {
        let keys = self.keys.entry(id).or_default();
        if keys.is_empty() {
            self.leases.entry(id).or_default().attached.push((revision, i64::MAX));
        }
        keys.insert(key.to_vec());
    }

    fn detach(&mut self, id: i64, key: &[u8], revision: i64) {
        let Some(keys) = self.keys.get_mut(&id) else { return };
        if keys.remove(key)
            && keys.is_empty()
            && let Some(last) = self.leases.entry(id).or_default().attached.last_mut()
        {
            last.1 = revision;
        }
    }

    /// Whether the revision is, or may be, the end of a lease.
    fn end(&mut self, replayed: &Replayed, maker: Maker, revision: i64) {
        let place = 2 * revision;
        let returned = self.seen.first(revision);
        let step =
            |what, called, operation| Step { what, from: place, to: place, called, returned, operation };
        if let Maker::Answered(index) = maker {
            let operation = &self.history.operations[index];
            if let Request::LeaseRevoke { id } = operation.request {
                self.push(id, step(What::Revoke, operation.called, Some(index)));
            }
            return;
        }
        let events = replayed.world.events(revision);
        let gone: BTreeSet<Vec<u8>> = events.iter().map(|event| event.kv.key.clone()).collect();
        if events.iter().any(|event| !event.deleted) {
            return;
        }
        let bare: Vec<i64> = self.keys.iter().filter(|(_, keys)| **keys == gone).map(|(&id, _)| id).collect();
        for id in bare {
            let deleted = self.may_be_deletion(&gone, revision);
            self.push(id, step(What::Ended { deleted }, self.limits.earliest(revision), None));
        }
    }

    /// Whether a deletion of unknown outcome may have made the revision.
    fn may_be_deletion(&self, gone: &BTreeSet<Vec<u8>>, revision: i64) -> bool {
        let operations = self.history.operations.iter().enumerate();
        let mut unknown = operations.filter(|(index, operation)| {
            let late = operation.called > self.seen.first(revision);
            let elsewhere = self.made.get(index).is_some_and(|&made| made != revision);
            operation.outcome == Outcome::Unknown && !late && !elsewhere
        });
        unknown.any(|(_, operation)| {
            let ops = all_ops(&operation.request);
            gone.iter().all(|key| ops.iter().any(|op| matches!(op, Op::Delete(d) if d.keys.contains(key))))
        })
    }

    fn push(&mut self, id: i64, step: Step) {
        self.leases.entry(id).or_default().steps.push(step);
    }
}
