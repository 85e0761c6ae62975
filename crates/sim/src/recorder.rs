//! The recorder: everything clients ask and see, as one history on one clock.

use vetch_check::{
    Access, AccessChange, Alarm, Alarmed, Ending, Fact, Finish, Hashed, History, Leased, Listed, Listing,
    Operation, Outcome, WatchMessage, Watched,
};
use vetch_model::{Request, Watch};
use vetch_node::types::{HashKv, LeaseInfo};

/// Where a request or a watch stands in the history.
pub(crate) type Place = usize;

#[derive(Default)]
pub(crate) struct Recorder {
    history: History,
    last: u64,
    /// Changes that are not in the history yet. Until one is answered, its outcome is unknown;
    /// `None`: it was not done.
    alarmed: Vec<Option<Alarmed>>,
    changes: Vec<Option<AccessChange>>,
}

impl Recorder {
    /// A point in time of its own for every event, so that their order is never in doubt.
    pub(crate) fn stamp(&mut self, now: u64) -> u64 {
        self.last = now.max(self.last + 1);
        self.last
    }

    /// A request leaves its client. Until it is answered, its outcome is unknown.
    pub(crate) fn call(&mut self, now: u64, client: u32, request: Request) -> Place {
        let called = self.stamp(now);
        let outcome = Outcome::Unknown;
        self.history.operations.push(Operation { client, called, returned: u64::MAX, request, outcome });
        self.history.operations.len() - 1
    }

    /// Where the next request will stand.
    pub(crate) fn next_place(&self) -> Place {
        self.history.operations.len()
    }

    pub(crate) fn answer(&mut self, now: u64, place: Place, outcome: Outcome) {
        let returned = self.stamp(now);
        let operation = &mut self.history.operations[place];
        if outcome != Outcome::Unknown {
            operation.returned = returned;
        }
        operation.outcome = outcome;
    }

    pub(crate) fn hash(&mut self, called: u64, now: u64, hash: &HashKv) {
        let returned = self.stamp(now);
        let HashKv { hash, compact_revision, hash_revision: revision, .. } = *hash;
        self.history.hashes.push(Hashed { called, returned, revision, compact_revision, hash });
    }

    pub(crate) fn leased(&mut self, called: u64, now: u64, id: i64, info: &LeaseInfo) {
        let returned = self.stamp(now);
        let keys = info.keys.iter().map(|version| version.key().to_vec()).collect();
        self.history.leased.push(Leased { called, returned, id, revision: info.revision, keys });
    }

    /// A list of what the server holds. Of several servers, one that answers for itself may be
    /// behind.
    pub(crate) fn listed(
        &mut self,
        called: u64,
        now: u64,
        revision: i64,
        linearizable: bool,
        listing: Listing,
    ) {
        let returned = self.stamp(now);
        self.history.listed.push(Listed {
            called,
            returned,
            revision: Some(revision),
            linearizable,
            listing,
        });
    }

    /// An alarm is about to be raised or lowered.
    pub(crate) fn alarm(&mut self, now: u64, alarm: Alarm, raised: bool) -> Place {
        let called = self.stamp(now);
        self.alarmed.push(Some(Alarmed { called, returned: u64::MAX, alarm, raised }));
        self.alarmed.len() - 1
    }

    pub(crate) fn alarm_changed(&mut self, now: u64, place: Place, outcome: &Outcome) {
        let returned = self.stamp(now);
        match outcome {
            Outcome::Answered { .. } => self.alarmed[place].iter_mut().for_each(|it| it.returned = returned),
            Outcome::Unknown => {}
            Outcome::Refused(_) | Outcome::NotDone => self.alarmed[place] = None,
        }
    }

    /// Users, roles or permissions are about to change.
    pub(crate) fn access_change(&mut self, now: u64, facts: Vec<(Fact, bool)>) -> Place {
        let called = self.stamp(now);
        self.changes.push(Some(AccessChange { called, returned: u64::MAX, facts }));
        self.changes.len() - 1
    }

    pub(crate) fn access_changed(&mut self, now: u64, place: Place, outcome: &Outcome) {
        let returned = self.stamp(now);
        match outcome {
            Outcome::Answered { .. } => self.changes[place].iter_mut().for_each(|it| it.returned = returned),
            Outcome::Unknown => {}
            Outcome::Refused(_) | Outcome::NotDone => self.changes[place] = None,
        }
    }

    /// What became of a user's request, which has been answered or refused.
    pub(crate) fn access(&mut self, place: Place, now: u64, access: Access) {
        let called = self.history.operations[place].called;
        let returned = self.stamp(now);
        self.history.accesses.push(Access { called, returned, ..access });
    }

    /// The record is complete: the last operation read everything, and this watch showed
    /// everything.
    pub(crate) fn finish(&mut self, watch: Place) {
        self.history.finish = Some(Finish { range: self.history.operations.len() - 1, watch });
    }

    pub(crate) fn watch(&mut self, client: u32, now: u64, request: Watch) -> Place {
        let called = self.stamp(now);
        self.history.watches.push(Watched { called, ..Watched::new(client, request) });
        self.history.watches.len() - 1
    }

    /// Nothing follows from when it was asked for.
    pub(crate) fn began_anywhere(&mut self, place: Place) {
        self.history.watches[place].called = 0;
    }

    pub(crate) fn message(&mut self, place: Place, message: WatchMessage) {
        self.history.watches[place].messages.push(message);
    }

    /// The revision that the answer to a create named; 0 before it came.
    pub(crate) fn created_at(&self, place: Place) -> i64 {
        match self.history.watches[place].messages.first() {
            Some(WatchMessage::Created { revision, .. }) => *revision,
            _ => 0,
        }
    }

    pub(crate) fn end(&mut self, place: Place, ending: Ending) {
        self.history.watches[place].ending = ending;
    }

    pub(crate) fn history(&self) -> History {
        let mut history = self.history.clone();
        history.alarmed = self.alarmed.iter().flatten().copied().collect();
        history.access_changes = self.changes.iter().flatten().cloned().collect();
        history
    }
}
