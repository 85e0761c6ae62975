//! Rewind: takes back what was evaluated ahead of commit and will never be committed, newest first.
//!
//! A leader evaluates against head before the journal has what it decided before. When another
//! server takes its place, part of that is in nobody's journal. A rewind makes head again what it
//! was after an earlier request, in time that depends on what is taken back alone. Here is what an
//! evaluation changes, and how that is undone:
//!
//! | state | taken back |
//! |---|---|
//! | versions of keys | popped off the end of their chains; a chain that is left empty leaves the tree and the hash table |
//! | `superseded`, `membership` | their last changes are those of the newest versions, in the same order, so they are popped together and name the slots: a rewind needs neither events nor requests |
//! | tree, with its counts of living keys | set by the version that is the last of its chain again |
//! | keys of a lease | the version that goes names the lease that loses the key, and the one below it the lease that gets it back |
//! | bytes | of every version that goes; leases and users count their own |
//! | leases, their time left and their grants; alarms; users and roles | an [`Undo`], made by each request that changes one of them, which is none of the frequent ones. The caller keeps it with the batch that is in flight |
//! | compaction | a mark of head, and nothing is freed before it is visible: goes back with the mark |
//! | numbers of grants | go back too: nobody is told one before it is committed |
//! | `worked`, and how blocks, leaves and slots are laid out | stay: nothing that is answered depends on them, but for what a count in the past may cost, as after a restart |
//!
//! Never touched: `visible`, `freed_to` and `lingering`, which follow what is committed. Nothing
//! that a rewind wants can have been freed, because compaction stops at a visible revision C: the
//! newest version up to C stays if it is alive, and all above C do. A tombstone below C may be
//! gone; then the life that followed it was the key's first retained one and it leaves with it.
//!
//! **Order.** An undo remembers the revision of head behind its request. It comes before the
//! versions of that revision are taken back, and after those of later ones. So whenever a key comes
//! back to a lease, that lease is there if it was when the version was made, and it is the same
//! one, also if its id was revoked and granted again in between.
//!
//! **Readers.** They look at `visible` or before, which no rewind passes, and ignore what is
//! younger. Between any two versions that go, everything they use is whole, as between two that
//! come (see [`crate::turns`]): the tree counts what is alive at head and `membership` knows of
//! exactly the changes above them, so a count in the past is right. So others may have the store in
//! between. The exception is [`crate::leased::LeasedRun`], whose cursor relies on keys only ever
//! leaving a lease: it notices by [`Store::rewinds`] and starts again. Whatever follows commits,
//! the event log and the watch hub, is never told of what is in flight, so nothing has to be taken
//! back there.

use std::sync::Arc;

use vetch_seeded_bugs::Bug;

use crate::auth::Auth;
use crate::keys::Slot;
use crate::lease::EndedLease;
use crate::request::Alarm;
use crate::state::{Mark, Store};
use crate::turns::Exclusive;

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

    fn apply(self, store: &mut Store) {
        match self.0.before {
            Before::NoLease(id) => store.leases.take_back_grant(id),
            Before::Lease(_) if vetch_seeded_bugs::on(Bug::RewindForgetsLease) => {}
            Before::Lease(lease) => store.leases.take_back_end(&lease),
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

/// Makes head what it was at `to`, which is visible or younger. `undo` is of all requests that were
/// evaluated since, in their order. Others get the store after every few changes.
pub fn rewind(store: &mut impl Exclusive, to: Mark, mut undo: Vec<Undo>) {
    let Mark { revision, compact_revision } = store.visible;
    assert!(revision <= to.revision && compact_revision <= to.compact_revision, "what was visible stays");
    assert!(to.revision <= store.head.revision, "only what was evaluated is taken back");
    assert!(undo.iter().all(|undo| undo.0.revision >= to.revision), "no earlier request is taken back");
    // Compactions up to a revision that goes do not outlive it.
    store.head.compact_revision = to.compact_revision;
    store.rewinds += 1;
    let step = store.step().max(1);
    let mut changes = 0;
    loop {
        let newest = store.newest_change(to.revision);
        if let Some(undo) = undo.pop_if(|undo| newest.is_none_or(|(revision, _)| undo.0.revision >= revision))
        {
            undo.apply(store);
        } else if let Some((revision, slot)) = newest {
            store.take_back(slot);
            store.head.revision = revision - 1;
        } else {
            break;
        }
        changes += 1;
        if changes % step == 0 {
            store.give_way();
            store.rewinds += 1;
        }
    }
    assert!(store.head == to, "every revision above {} was taken back", to.revision);
    store.youngest = to.revision;
}

impl Store {
    /// The revision and the slot of the newest version above `floor`.
    fn newest_change(&self, floor: i64) -> Option<(i64, Slot)> {
        let newest = |slot: Slot| {
            let last = self.keys.chain(slot).last().expect("what was changed has a version");
            (last.mod_revision(), last.sub(), slot)
        };
        // A delete is in both, and so is a key that one revision has changed twice.
        let superseded = self.superseded.back().filter(|&(revision, _)| revision > floor);
        let membership = self.membership.back().filter(|&(revision, _)| revision > floor);
        let slots = superseded.into_iter().chain(membership).map(|(_, slot)| slot);
        slots.map(newest).max().map(|(revision, _, slot)| (revision, slot))
    }

    /// Takes the last version of a key out, which is the newest of all.
    fn take_back(&mut self, slot: Slot) {
        let gone = self.keys.chain_mut(slot).pop().expect("a changed key has a version");
        let (revision, key) = (gone.mod_revision(), gone.key());
        self.bytes -= gone.footprint() as u64;
        let chain = self.keys.chain(slot);
        let (is_first, before) = (chain.versions().is_empty(), chain.live());
        assert!(before.is_some() || !gone.is_tombstone(), "what a delete replaced is retained");
        self.leases.detach(gone.lease(), slot, key);
        if let Some(before) = before {
            self.leases.attach(before.lease(), slot, key);
            self.superseded.take_back(revision, slot);
        }
        if before.is_some() && !gone.is_tombstone() {
            return;
        }
        // The key came or went with it.
        let is_alive = before.is_some();
        self.membership.take_back(revision, slot);
        let keys = |other: Slot| if other == slot { key } else { self.keys.key(other) };
        self.tree.set_live(&keys, slot, is_alive);
        if is_first {
            self.tree.remove(&keys, slot);
            self.keys.remove(slot, &gone);
        }
    }
}
