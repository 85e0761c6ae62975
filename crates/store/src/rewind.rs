//! Rewind: takes back what was evaluated ahead of commit and will never be committed, newest first.
//!
//! A leader evaluates against head before the journal has what it decided before. When another
//! server takes its place, part of that is in no journal. A rewind makes head again what it
//! was after an earlier request, in time that depends on what is taken back alone. Here is what an
//! evaluation changes, and how that is undone:
//!
//! | state | taken back |
//! |---|---|
//! | versions of keys | popped off the end of their chains; a chain that is left empty leaves the tree and the hash table |
//! | `superseded`, `membership` | their last changes are those of the newest versions, in the same order, so they are popped together and name the slots: a rewind needs neither events nor requests |
//! | tree, with its counts of living keys | set by the version that is the last of its chain again |
//! | keys of a lease | the version that goes names the lease that loses the key, and the one below it the lease that gets it back |
//! | verdicts about the keys of a lease | stay, and judge every key that the lease gets back; those of a lease that comes back are forgotten |
//! | bytes | of every version that goes; leases and users count their own |
//! | leases, their time left and their grants; alarms; users and roles | an [`Undo`], made by each request that changes one of them, which is none of the frequent ones. The caller keeps it with the batch that is in flight |
//! | compaction | a mark of head, and nothing is freed before it is visible: goes back with the mark |
//! | numbers of grants | go back too: no caller gets one before it is committed |
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
//! **Verdicts.** One says of a user that all keys of a lease may be written, since head had some
//! revision ([`crate::lease`]). A key that goes makes it no less true, and a key that comes back is
//! judged as if it were attached again, by the users and roles that are at head by then: the undo
//! of a change of them comes between the versions of the two times. It brings back the very `Auth`
//! that was there, not a copy, so verdicts by it hold again if no key came meanwhile; any that did
//! has removed them, and the memory of one that others point at is never used for another state. A
//! revision that was taken back may be in a verdict, and in what a lease knows of its last key:
//! then readers rely on it, and note theirs, only once as much is visible again.
//!
//! **Evaluations.** None is under way: one that has released the lock on the store still relies on
//! head. The caller waits until the thread that evaluates has sent its last batch.
//!
//! **Readers.** They look at `visible` or before, which no rewind passes, and ignore what is
//! younger. Between any two versions that go, all that they use is consistent, as between two that
//! come (see [`crate::turns`]): the tree counts what is alive at head and `membership` knows of
//! exactly the changes above them, so a count in the past is right. So others may have the store in
//! between. The exception is [`crate::leased::LeasedRun`], whose cursor relies on keys only ever
//! leaving a lease: it notices by [`Store::rewinds`] and starts again. The event log and the watch
//! hub get what is committed and nothing else, so nothing has to be taken back there.

use crate::exclusive::{CHANGE_WEIGHT, Exclusive};
use crate::keys::Slot;
use crate::state::{Mark, Store};
use crate::undo::Undo;

/// Makes head what it was at `to`, which is visible or younger. `undo` is of all requests that were
/// evaluated since, in their order. Others get the store after every few changes, but no evaluation
/// may be under way.
pub fn rewind(store: &mut impl Exclusive, to: Mark, mut undo: Vec<Undo>) {
    let Mark { revision, compact_revision } = store.visible;
    assert!(revision <= to.revision && compact_revision <= to.compact_revision, "what was visible stays");
    assert!(to.revision <= store.head.revision, "only what was evaluated is taken back");
    assert!(undo.iter().all(|undo| undo.revision() >= to.revision), "no earlier request is taken back");
    // Compactions up to a revision that goes do not outlive it.
    store.head.compact_revision = to.compact_revision;
    loop {
        let newest = store.newest_change(to.revision);
        store.rewinds += 1;
        if let Some(undo) = undo.pop_if(|undo| newest.is_none_or(|(revision, _)| undo.revision() >= revision))
        {
            undo.apply(store);
        } else if let Some((revision, slot)) = newest {
            store.take_back(slot);
            store.head.revision = revision - 1;
        } else {
            break;
        }
        store.did(CHANGE_WEIGHT);
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
            self.leases.attach(before.lease(), slot, key, before.mod_revision(), &self.auth);
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
