//! Store: the whole state, and how far of it readers may look.
//!
//! The store is ahead of what the world may see. **Head** is the state after everything evaluated
//! so far, and what the next request is evaluated against. **Visible** trails it: it advances when
//! the journal says that an entry is durable, and readers never look past it. Because every version
//! carries its revision, both live in the same structures, and nothing has to be merged or undone
//! when an append completes.
//!
//! Keys are versioned, so readers at `visible` simply ignore younger versions. Leases, alarms,
//! users and roles are not: they exist at head only. Which keys hang on a lease readers find out
//! from the versions they may see ([`crate::leased::LeasedRun`]). Alarms, users and roles are
//! handed out as they are at head, so that the part that made them durable can show exactly those.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::auth::{Auth, Change};
use crate::chain::Chain;
use crate::keys::{Keys, Slot};
use crate::lease::Leases;
use crate::limits::TxnLimits;
use crate::membership::{Membership, Span};
use crate::queue::Queue;
use crate::record::Record;
use crate::request::{Alarm, Event, KeyRange};
use crate::tree::Tree;

/// A point in history: the newest revision, and the compaction that had been asked for by then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    pub revision: i64,
    /// -1 until the first compaction.
    pub compact_revision: i64,
}

impl Mark {
    /// The empty store: revision 1, nothing compacted.
    pub const START: Mark = Mark { revision: 1, compact_revision: -1 };
}

/// Sizes for status, quota and metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Keys alive at head.
    pub keys: u64,
    /// Bytes of all retained versions, of leases and the keys' being on them, of users and roles.
    pub bytes: u64,
    pub leases: u64,
    pub users: u64,
    pub roles: u64,
}

pub struct Store {
    pub(crate) keys: Keys,
    pub(crate) tree: Tree,
    pub(crate) membership: Membership,
    pub(crate) leases: Leases,
    pub(crate) alarms: BTreeSet<Alarm>,
    pub(crate) auth: Arc<Auth>,
    pub(crate) head: Mark,
    pub(crate) visible: Mark,
    /// The revision of the youngest version: one above that of head while a transaction is being
    /// evaluated.
    pub(crate) youngest: i64,
    /// Which slots have something to free once compaction passes a revision, in revision order.
    pub(crate) superseded: Queue,
    /// The same for changes of a compacted revision itself, which go with the next compaction.
    pub(crate) lingering: Queue,
    /// Versions that were superseded up to this revision may have been freed: readers from here on
    /// find all of theirs. Follows `visible.compact_revision`, which refuses new readers at once.
    pub(crate) freed_to: i64,
    pub(crate) bytes: u64,
    /// Bytes of values that one transaction may write again without having sent them.
    pub(crate) kept_limit: usize,
    pub(crate) txn_limits: TxnLimits,
    /// Keys examined or changed by evaluations, since the store was made or loaded.
    pub(crate) worked: u64,
    /// Grows with every step of a rewind.
    pub(crate) rewinds: u64,
}

/// What bounds a journal entry, together with the size of requests; more than a single such put may
/// need.
const KEPT_VALUE_BYTES: usize = 64 << 20;

impl Default for Store {
    fn default() -> Store {
        Store {
            keys: Keys::default(),
            tree: Tree::default(),
            membership: Membership::default(),
            leases: Leases::default(),
            alarms: BTreeSet::new(),
            auth: Arc::default(),
            head: Mark::START,
            visible: Mark::START,
            youngest: Mark::START.revision,
            superseded: Queue::default(),
            lingering: Queue::default(),
            freed_to: Mark::START.compact_revision,
            bytes: 0,
            kept_limit: KEPT_VALUE_BYTES,
            txn_limits: TxnLimits::default(),
            worked: 0,
            rewinds: 0,
        }
    }
}

/// What watchers are shown as the previous version of `kv`: nothing for a create, else what was
/// there before the whole revision, also when that revision changed the key more than once.
pub(crate) fn shown_before<'c>(chain: &'c Chain, kv: &Record) -> Option<&'c Record> {
    if kv.version() == 1 { None } else { chain.live_at(kv.mod_revision() - 1) }
}

impl Store {
    pub fn head(&self) -> Mark {
        self.head
    }

    pub fn visible(&self) -> Mark {
        self.visible
    }

    /// From now on a transaction that writes again more bytes of values than this, without having
    /// sent them, is too large.
    pub fn limit_kept_values(&mut self, bytes: usize) {
        self.kept_limit = bytes;
    }

    /// Everything up to `mark` is durable: readers may see it.
    pub fn publish(&mut self, mark: Mark) {
        assert!(self.visible.revision <= mark.revision, "what was visible stays visible");
        assert!(mark.revision <= self.head.revision, "nothing is visible before it is evaluated");
        assert!(self.visible.compact_revision <= mark.compact_revision, "compaction never goes back");
        self.visible = mark;
    }

    pub fn stats(&self) -> Stats {
        Stats {
            keys: self.tree.live_total(),
            bytes: self.bytes(),
            leases: self.leases.len() as u64,
            users: self.auth.users() as u64,
            roles: self.auth.roles() as u64,
        }
    }

    /// Bytes of all retained versions, of leases and the keys' being on them, of users and roles.
    pub fn bytes(&self) -> u64 {
        self.bytes + self.leases.bytes() + self.auth.bytes()
    }

    /// The revision from which on readers find all versions, also those that a compaction no longer
    /// grants to new ones.
    pub fn freed_to(&self) -> i64 {
        self.freed_to
    }

    /// A number that changes whenever something that was evaluated is taken back.
    pub fn rewinds(&self) -> u64 {
        self.rewinds
    }

    /// Alarms at head.
    pub fn alarms(&self) -> impl Iterator<Item = Alarm> + '_ {
        self.alarms.iter().copied()
    }

    /// Users and roles at head.
    pub fn auth(&self) -> &Arc<Auth> {
        &self.auth
    }

    /// Bytes that a change of users and roles takes in the journal, as things stand at head. One
    /// that is refused takes none.
    pub fn auth_cost(&self, change: &Change) -> usize {
        let mut effects = Vec::new();
        if let Ok(decided) = self.auth.decide(change) {
            decided.encode(&mut effects);
        }
        effects.len()
    }

    /// Leases at head.
    pub fn leases(&self) -> &Leases {
        &self.leases
    }

    /// Keys attached to a lease at head, in order.
    pub fn lease_keys(&self, id: i64) -> Vec<&[u8]> {
        let Some(lease) = self.leases.get(id) else { return Vec::new() };
        let mut keys: Vec<&[u8]> = lease.slots().map(|slot| self.keys.key(slot)).collect();
        keys.sort_unstable();
        keys
    }

    /// How many keys are alive at `visible`.
    pub fn visible_keys(&self) -> u64 {
        let everything = KeyRange::new(&b"\0"[..], &b"\0"[..]);
        u64::try_from(self.count_at(&everything, self.visible.revision)).unwrap_or(0)
    }

    /// The version of `key` that a reader at revision `at` sees.
    pub fn get(&self, key: &[u8], at: i64) -> Option<&Record> {
        let chain = self.keys.chain_of(key)?;
        if self.is_latest(at) { chain.live() } else { chain.live_at(at) }
    }

    /// Whether a read at `at` sees the newest version of every key, so that revisions need not be
    /// compared.
    pub(crate) fn is_latest(&self, at: i64) -> bool {
        self.youngest <= at
    }

    /// Whether exactly this version is still retained. A checkpoint checks this before it copies a
    /// record.
    pub fn retains(&self, record: &Record) -> bool {
        let chain = self.keys.chain_of(record.key());
        chain.is_some_and(|chain| chain.find(record.mod_revision(), record.sub()).is_some())
    }

    /// How many keys of `range` are alive at revision `at`.
    pub(crate) fn count_at(&self, range: &KeyRange, at: i64) -> i64 {
        if range.is_single() {
            return i64::from(self.get(&range.key, at).is_some());
        }
        let span = Span { start: &range.key, end: range.end() };
        if span.end.is_some_and(|end| end <= span.start) {
            return 0;
        }
        let keys = |slot: Slot| self.keys.key(slot);
        let upto = span.end.map_or_else(|| self.tree.live_total(), |end| self.tree.live_before(&keys, end));
        let at_head = upto - self.tree.live_before(&keys, span.start);
        at_head as i64 - self.membership.net_since(&keys, at, span)
    }

    /// Adds a living version at head. Used by evaluation and by replay alike.
    pub(crate) fn put_record(&mut self, record: Record) -> Event {
        let revision = record.mod_revision();
        self.youngest = revision;
        self.bytes += record.footprint() as u64;
        let slot = self.keys.find(record.key());
        let prev =
            slot.and_then(|slot| self.keys.chain(slot).last()).filter(|last| !last.is_tombstone()).cloned();
        let slot = match slot {
            Some(slot) => {
                self.keys.chain_mut(slot).push(record.clone());
                slot
            }
            None => self.keys.insert(record.clone()),
        };
        match &prev {
            Some(prev) => {
                self.superseded.push_back(revision, slot);
                if prev.lease() != record.lease() {
                    self.leases.detach(prev.lease(), slot, prev.key());
                }
            }
            None => {
                let keys = |slot: Slot| self.keys.key(slot);
                self.membership.created(&keys, self.freed_to, revision, slot);
                if self.keys.chain(slot).versions().len() == 1 {
                    self.tree.insert(&keys, slot);
                } else {
                    self.tree.set_live(&keys, slot, true);
                }
            }
        }
        self.leases.attach(record.lease(), slot, record.key(), revision, &self.auth);
        self.event(slot, record, prev)
    }

    /// The event of the newest change of a slot, which replaced `replaced`.
    fn event(&self, slot: Slot, kv: Record, replaced: Option<Record>) -> Event {
        let chain = self.keys.chain(slot);
        let versions = chain.versions();
        let changed_before =
            versions.len() > 1 && versions[versions.len() - 2].mod_revision() == kv.mod_revision();
        let prev = if changed_before { shown_before(chain, &kv).cloned() } else { replaced };
        Event { kv, prev }
    }

    /// Deletes a key that is alive at head. Returns the version that was replaced as well.
    pub(crate) fn delete_slot(&mut self, slot: Slot, revision: i64, sub: u32) -> (Event, Record) {
        let prev = self.keys.chain(slot).last().expect("a deleted key exists").clone();
        assert!(!prev.is_tombstone(), "only a living key is deleted");
        let tombstone = Record::tombstone(prev.key(), revision, sub, prev.create_revision());
        self.youngest = revision;
        self.bytes += tombstone.footprint() as u64;
        self.keys.chain_mut(slot).push(tombstone.clone());
        self.superseded.push_back(revision, slot);
        self.leases.detach(prev.lease(), slot, prev.key());
        let keys = |slot: Slot| self.keys.key(slot);
        self.membership.deleted(&keys, self.freed_to, revision, slot);
        self.tree.set_live(&keys, slot, false);
        (self.event(slot, tombstone, Some(prev.clone())), prev)
    }
}
